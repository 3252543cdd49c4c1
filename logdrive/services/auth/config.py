"""The [listen.auth] table of a store, and of a receiver with a store of its own.

`config/store.toml` explains it.
"""

import os.path
from typing import Annotated

import msgspec


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who may come in at the controller and at the segments' port; without the table whoever
    reaches them may.

    *users* and *token_secret* are files. *clear* lets passwords travel in plain TCP on addresses
    that others reach.
    """

    users: str
    token_secret: str
    token_seconds: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 600.0
    clear: bool = False

    def __post_init__(self) -> None:
        """Refuse paths that mean something else in every working directory."""
        for name, path in (("users", self.users), ("token_secret", self.token_secret)):
            if not os.path.isabs(path):
                raise ValueError(f"{name}: the path must be absolute, as in /etc/logdrive/{name}")

    def check_listeners(self, *, controller: bool, exposed: list[str]) -> None:
        """Raise ValueError without a *controller*, and for tables that are *exposed*: in plain TCP
        beyond this host.
        """
        if not controller:
            raise ValueError(
                "auth: it is the controller that asks who comes and hands out tokens: "
                "give [listen.controller], too"
            )
        if exposed and not self.clear:
            raise ValueError(
                "auth: passwords and tokens would be there to read on the way to "
                f"{exposed[0]}: give [{exposed[0]}.tls], "
                "or write clear = true in [listen.auth]"
            )
