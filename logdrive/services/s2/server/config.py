"""Configuration of the store's S2 face.

`config/store.toml` explains each key.
"""

from collections.abc import Iterable
from typing import ClassVar

from logdrive.address import S2_PORT
from logdrive.services.face_config import FaceConfig, listeners_collide


class S2FaceConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.s2] table: the address for S2's clients, over HTTP/1.1 and HTTP/2."""

    table: ClassVar[str] = "listen.s2"
    default_port: ClassVar[int] = S2_PORT

    def check_apart(self, others: Iterable[FaceConfig | None]) -> None:
        """Raise ValueError if one of *others* has the same address."""
        for other in others:
            if other is not None and listeners_collide(self.host_and_port, other.host_and_port):
                raise ValueError(
                    f"listen.s2.address is {other.table}.address, too: choose another port"
                )
