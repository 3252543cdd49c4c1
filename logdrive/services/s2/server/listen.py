"""`serve_s2`: a listener for S2's clients while a context is open. Libraries for HTTP/2 and for
protobuf are imported only then.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from logdrive.host.host import Host
from logdrive.host.transport import ServerTls
from logdrive.services.auth.open import Access
from logdrive.services.auth.users import Users
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


@contextlib.asynccontextmanager
async def serve_s2_face(
    catalog: Catalog,
    numbering: NumberedSegments,
    config: S2FaceConfig | None,
    *,
    host: Host,
    access: Access | None,
) -> AsyncIterator[tuple[str, int] | None]:
    """Serve what *config* says with `serve_s2` while the context is open; nothing without it."""
    if config is None:
        yield None
        return
    users = access.users if access is not None else None
    address, tls = config.host_and_port, config.tls_settings
    async with serve_s2(catalog, numbering, address, tls, host=host, users=users) as bound:
        yield bound


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
    with libraries_of("S2", "listen.s2", "address", f"{address[0]}:{address[1]}"):
        from logdrive.net.http.server import ALPN, HttpServer
        from logdrive.services.s2.server.routes import Routes
        from logdrive.services.s2.server.service import S2Service

    service = S2Service(catalog, numbering, users=users, clock=host.clock, random=host.random)
    await service.start()
    server = HttpServer(Routes(service))
    if tls is not None:
        tls = replace(tls, alpn=ALPN)
    listener = await host.transport.listen(*address, tls, server.serve_connection)
    upkeep = [
        asyncio.create_task(service.purger.run(), name="s2-deletions"),
        asyncio.create_task(service.upkeep.run(), name="s2-upkeep"),
        asyncio.create_task(service.logs.run(), name="s2-idle-streams"),
    ]
    bound = (address[0], listener.address[1])
    _log.info("S2's clients are served", address=f"{bound[0]}:{bound[1]}")
    in_order = False
    try:
        yield bound
        in_order = True
    finally:
        await listener.close()
        if in_order:
            await _drain(service, server)
        else:  # something failed, or this is the end of a process that was killed
            await server.close(0)
        for task in upkeep:
            task.cancel()
        await asyncio.wait(upkeep)
        if in_order:
            await service.logs.close()


async def _drain(service: "S2Service", server: "HttpServer") -> None:
    """Let sessions move away, and other requests finish; then close all connections."""
    service.drain()
    seconds = _SESSION_SECONDS if service.store_is_open() else 0.0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await service.sessions.wait_until_none()
    await server.close(_REQUEST_SECONDS)
