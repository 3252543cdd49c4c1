"""The `login` table of a configuration: user and password for a Pravega controller."""

from typing import Annotated

import msgspec

from logdrive.services.pravega.client.controller import Login


class LoginConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `login`: in [sink] of a receiver's file, or at the top of a pipeline's."""

    user: Annotated[str, msgspec.Meta(min_length=1, pattern="^[^:]*$")]
    password: str

    @property
    def login(self) -> Login:
        """The login, as clients of a controller take it."""
        return Login(self.user, self.password)
