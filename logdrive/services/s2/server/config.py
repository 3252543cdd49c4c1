"""Configuration of the store's S2 face.

`config/store.toml` explains each key.
"""

from typing import ClassVar

from logdrive.address import S2_PORT
from logdrive.services.face_config import FaceConfig


class S2FaceConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.s2] table: the address for S2's clients, over HTTP/1.1 and HTTP/2."""

    table: ClassVar[str] = "listen.s2"
    default_port: ClassVar[int] = S2_PORT
