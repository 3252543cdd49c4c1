"""Who a program is to a Pravega controller that wants to know, as configurations say it."""

from typing import Annotated

import msgspec

from logdrive.services.pravega.client.controller import Login


class LoginConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `login`, in [sink] of a receiver or at the top of a pipeline's file."""

    user: Annotated[str, msgspec.Meta(min_length=1, pattern="^[^:]*$")]
    password: str

    @property
    def login(self) -> Login:
        """What controllers' clients take."""
        return Login(self.user, self.password)
