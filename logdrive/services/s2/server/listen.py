"""`serve_s2`: a listener for S2's clients while a context is open. Libraries for HTTP/2 and for
protobuf are imported only then.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from logdrive.host.host import Host
from logdrive.host.transport import ServerTls
from logdrive.services.auth.open import Access
from logdrive.services.auth.users import Users
from logdrive.services.face_life import serve_until_left
from logdrive.services.numbering.segments import NumberedSegments
from logdrive.services.optional_libraries import libraries_of
from logdrive.services.s2.server.config import S2FaceConfig
from logdrive.store.streams.catalog import Catalog

if TYPE_CHECKING:
    from logdrive.net.http.server import HttpServer
    from logdrive.services.s2.server.service import S2Service

_log = structlog.get_logger("logdrive.store.s2")
_SESSION_SECONDS: Final = 10.0
"""Limit on the time in which sessions may move to another server at the end."""
_REQUEST_SECONDS: Final = 2.0
"""Limit on the time that other requests may take then."""


def serve_s2_face(
    catalog: Catalog,
    numbering: NumberedSegments,
    config: S2FaceConfig | None,
    *,
    host: Host,
    access: Access | None,
) -> AbstractAsyncContextManager[tuple[str, int] | None]:
    """Serve what *config* says with `serve_s2` while the context is open; nothing without it."""
    if config is None:
        return contextlib.nullcontext()
    users = access.users if access is not None else None
    address, tls = config.host_and_port, config.tls_settings
    return serve_s2(catalog, numbering, address, tls, host=host, users=users)


@contextlib.asynccontextmanager
async def serve_s2(
    catalog: Catalog,
    numbering: NumberedSegments,
    address: tuple[str, int],
    tls: ServerTls | None,
    *,
    host: Host,
    users: Users | None,
) -> AsyncIterator[tuple[str, int]]:
    """Serve the streams of *catalog* to S2's clients at *address*; yield host and the port bound.

    Without *users* everyone may do everything, unless they show an access token that was issued
    here. Leave the context before the store closes: sessions are asked to move away, appends under
    way become durable and are acknowledged, within some seconds; after an exception all is dropped
    at once. Raises `ConfigError` where it can't bind, or a library is missing.
    """
    require_s2(f"{address[0]}:{address[1]}")
    from logdrive.net.http.server import ALPN, HttpServer
    from logdrive.services.s2.server.routes import Routes
    from logdrive.services.s2.server.service import S2Service

    service = S2Service(catalog, numbering, users=users, clock=host.clock, random=host.random)
    await service.start()
    server = HttpServer(Routes(service))
    if tls is not None:
        tls = replace(tls, alpn=ALPN)
    listener = await host.transport.listen(*address, tls, server.serve_connection)
    upkeep = {
        "s2-deletions": service.purger.run(),
        "s2-upkeep": service.upkeep.run(),
        "s2-idle-streams": service.logs.run(),
    }
    bound = (address[0], listener.address[1])
    _log.info("S2's clients are served", address=f"{bound[0]}:{bound[1]}")
    async with serve_until_left(
        listener,
        upkeep,
        drain=lambda: _drain(service, server),
        abort=lambda: server.close(0),
        close=service.logs.close,
    ):
        yield bound


def require_s2(address: str) -> None:
    """Raise `ConfigError` where a library is missing that S2's protocol needs at *address*."""
    with libraries_of("S2", S2FaceConfig.table, "address", address):
        import logdrive.net.http.server
        import logdrive.services.s2.server.routes
        import logdrive.services.s2.server.service  # noqa: F401


async def _drain(service: "S2Service", server: "HttpServer") -> None:
    """Let sessions move away, and other requests finish; then close all connections."""
    service.drain()
    seconds = _SESSION_SECONDS if service.store_is_open() else 0.0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await service.sessions.wait_until_none()
    await server.close(_REQUEST_SECONDS)
