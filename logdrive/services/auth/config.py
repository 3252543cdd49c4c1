"""Configuration of logins: the [listen.auth] table of a store, or of a receiver's own store.

`config/store.toml` explains each key.
"""

import os.path
from typing import Annotated

import msgspec

from logdrive.config.bounds import checked


def _check_absolute(path: str) -> None:
    """Refuse a relative path: it depends on the working directory."""
    if not os.path.isabs(path):
        raise ValueError(f"{path!r}: the path must be absolute, as in /etc/logdrive/…")


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Logins at the controller, and tokens at the segment store's port.

    Without the table every client may do everything. *users* and *token_secret* are paths of files;
    *token_seconds* is how long a token is valid; *clear* allows passwords over plain TCP on
    addresses beyond this host.
    """

    users: Annotated[str, checked(_check_absolute)]
    token_secret: Annotated[str, checked(_check_absolute)]
    token_seconds: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 600.0
    clear: bool = False

    def __post_init__(self) -> None:
        """Refuse relative paths."""
        _check_absolute(self.users)
        _check_absolute(self.token_secret)

    def check_listeners(self, *, checked: bool, exposed: list[str]) -> None:
        """Raise ValueError where logins can't work, or would be readable on the network.

        *checked*: a listener that checks logins is configured. *exposed* names the tables whose
        listener uses plain TCP beyond this host.
        """
        if not checked:
            raise ValueError(
                "auth: the controller checks logins and issues tokens, and the listeners of S2 "
                "and Iggy check them, too: give [listen.controller], [listen.s2] or [listen.iggy]"
            )
        if exposed and not self.clear:
            raise ValueError(
                "auth: passwords and tokens could be read on the network on their way to "
                f"{exposed[0]}: give [{exposed[0]}.tls], "
                "or write clear = true in [listen.auth]"
            )
