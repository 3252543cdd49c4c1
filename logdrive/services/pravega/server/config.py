"""Configuration of the store's Pravega face: the segment store, and the controller.

`config/store.toml` explains each key.
"""

from typing import Annotated, ClassVar

from logdrive.address import host_port, is_wildcard, peer_address
from logdrive.config.bounds import checked
from logdrive.services.face_config import FaceConfig

PRAVEGA_PORT = 6000
CONTROLLER_PORT = 9090


class PravegaFaceConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.pravega] table: the address of the segment store."""

    table: ClassVar[str] = "listen.pravega"
    default_port: ClassVar[int] = PRAVEGA_PORT


class ControllerConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.controller] table: the address of the controller.

    *advertise* is the segment store's address as clients reach it, which the controller tells them.
    """

    table: ClassVar[str] = "listen.controller"
    default_port: ClassVar[int] = CONTROLLER_PORT

    advertise: Annotated[str, checked(peer_address)] | None = None

    def __post_init__(self) -> None:
        """Refuse malformed addresses."""
        super().__post_init__()
        if self.advertise is not None:
            peer_address(self.advertise, PRAVEGA_PORT)

    def check_advertised(self, face: PravegaFaceConfig | None) -> None:
        """Raise ValueError where there is no address of the segment store to tell clients."""
        if face is None:
            raise ValueError(
                "listen.controller sends clients to the segments' own face: give "
                "[listen.pravega], too"
            )
        self.check_apart([face])
        if self.advertise is None and is_wildcard(face.host_and_port[0]):
            raise ValueError(
                "listen.controller.advertise is missing: clients can't connect to "
                f'{face.host_and_port[0]}, write "host:port"'
            )

    def advertised_address(self, face: tuple[str, int]) -> tuple[str, int]:
        """Return the address that clients are told; the segment store listens at *face*."""
        return host_port(self.advertise, PRAVEGA_PORT) if self.advertise is not None else face
