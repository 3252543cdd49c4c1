"""Configuration of a store with its faces, a store.toml: parsed once at start, never changed.

`config/store.toml` explains each key. The table of a face is in the room of its service.
"""

import msgspec

from logdrive.net.settings import ServerTlsConfig
from logdrive.services.auth.config import AuthConfig
from logdrive.services.face_config import tls_tables
from logdrive.services.iggy.server.config import IggyFaceConfig
from logdrive.services.pravega.server.config import ControllerConfig, PravegaFaceConfig
from logdrive.services.s2.server.config import S2FaceConfig
from logdrive.store.config import DirectoryConfig, RetentionConfig


class StoreListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table of a store."""

    pravega: PravegaFaceConfig
    controller: ControllerConfig | None = None
    s2: S2FaceConfig | None = None
    iggy: IggyFaceConfig | None = None
    auth: AuthConfig | None = None

    def __post_init__(self) -> None:
        """Refuse a controller without a segment store, and logins that `check_auth` refuses."""
        if self.controller is not None:
            self.controller.check_advertised(self.pravega)
        if self.s2 is not None:
            self.s2.check_apart((self.pravega, self.controller))
        if self.iggy is not None:
            self.iggy.check_apart((self.pravega, self.controller, self.s2))
        check_auth(self.auth, self.pravega, self.controller, self.s2, self.iggy)

    @property
    def tls_tables(self) -> list[ServerTlsConfig]:
        """Certificates of the tables in this one, as far as they have any."""
        return tls_tables((self.pravega, self.controller, self.s2, self.iggy))


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole store.toml."""

    store: DirectoryConfig
    listen: StoreListenConfig
    retention: tuple[RetentionConfig, ...] = ()


def check_auth(
    auth: AuthConfig | None,
    face: PravegaFaceConfig | None,
    controller: ControllerConfig | None,
    s2: S2FaceConfig | None = None,
    iggy: IggyFaceConfig | None = None,
) -> None:
    """Raise ValueError where *auth* does not fit the listeners; see `AuthConfig`."""
    if iggy is not None:
        iggy.check_logins(auth)
    if auth is not None:
        tables = [table for table in (face, controller, s2, iggy) if table is not None]
        auth.check_listeners(
            checked=any(table is not None for table in (controller, s2, iggy)),
            exposed=[table.table for table in tables if table.is_exposed],
        )
