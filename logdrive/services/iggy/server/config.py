"""Configuration of the store's Iggy face.

`config/store.toml` explains each key.
"""

from typing import ClassVar, Literal

import msgspec

from logdrive.address import IGGY_PORT, is_loopback
from logdrive.config.bounds import Count
from logdrive.services.auth.config import AuthConfig
from logdrive.services.face_config import FaceConfig


class DeduplicationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.iggy.deduplication] table: which ids of messages each partition remembers."""

    entries: Count = 10_000  # the last so many ids
    seconds: Count = 60  # of those, what came in the last so many seconds


class IggyFaceConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.iggy] table: the address for Iggy's clients, and what they are served.

    *revision* is that of the protocol which all clients speak; "auto": that of each client is
    recognized by what it sends first.
    """

    table: ClassVar[str] = "listen.iggy"
    default_port: ClassVar[int] = IGGY_PORT

    revision: Literal["auto", "R0", "R1", "R2c", "R3"] = "auto"
    deduplication: DeduplicationConfig | None = None

    def check_logins(self, auth: AuthConfig | None) -> None:
        """Raise ValueError where everyone could log in by a password that everyone knows, or
        clients that can't log in would be let in beside logins.
        """
        if auth is not None and self.revision == "R0":
            raise ValueError(
                'listen.iggy.revision = "R0" has no logins, which [listen.auth] asks for: choose '
                "another revision, or leave [listen.auth] out"
            )
        host, _ = self.host_and_port
        if auth is None and not is_loopback(host):
            raise ValueError(
                f"listen.iggy without [listen.auth] has one user, iggy, whose password is iggy: "
                f"give [listen.auth], or listen on loopback, not on {host}"
            )
