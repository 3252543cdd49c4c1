"""`serve_iggy`: a listener for Iggy's clients while a context is open. What its protocol needs is
imported only then.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import structlog

from logdrive.host.executor import Executor, ThreadExecutor
from logdrive.host.host import Host
from logdrive.services.auth.open import Access
from logdrive.services.auth.users import Users
from logdrive.services.face_life import serve_until_left
from logdrive.services.iggy.server.config import IggyFaceConfig
from logdrive.services.numbering.segments import NumberedSegments
from logdrive.services.optional_libraries import libraries_of
from logdrive.store.streams.catalog import Catalog

if TYPE_CHECKING:
    from logdrive.services.iggy.server.handlers.service import IggyService
    from logdrive.services.iggy.server.server import IggyServer

_log = structlog.get_logger("logdrive.store.iggy")


def serve_iggy_face(
    catalog: Catalog,
    numbering: NumberedSegments,
    config: IggyFaceConfig | None,
    *,
    host: Host,
    access: Access | None,
) -> AbstractAsyncContextManager[tuple[str, int] | None]:
    """Serve what *config* says with `serve_iggy` while the context is open; nothing without it."""
    if config is None:
        return contextlib.nullcontext()
    users = access.users if access is not None else None
    return serve_iggy(catalog, numbering, config, host=host, users=users)


@contextlib.asynccontextmanager
async def serve_iggy(
    catalog: Catalog,
    numbering: NumberedSegments,
    config: IggyFaceConfig,
    *,
    host: Host,
    users: Users | None,
    executors: Callable[[str], Executor] = ThreadExecutor,
) -> AsyncIterator[tuple[str, int]]:
    """Serve the streams of *catalog* to Iggy's clients; yield host and the port bound.

    Without *users* there is one user, iggy, whose password is iggy. *executors* makes, from a name,
    the executor that compares passwords: 40 ms each. Leave the context before the store closes:
    what is under way becomes durable and is answered, within some seconds; after an exception all
    is dropped at once. Raises `ConfigError` where it can't bind, or a library is missing.
    """
    require_iggy(config.address)
    logins = executors("logdrive-iggy-logins")
    service, server = _make_face(catalog, numbering, config, host, users, logins)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(logins.close)
        await service.start()
        address, port = config.host_and_port
        listener = await host.transport.listen(
            address, port, config.tls_settings, server.serve_connection
        )
        bound = service.address = (address, listener.address[1])
        _log.info("Iggy's clients are served", address=f"{bound[0]}:{bound[1]}")
        upkeep = {
            "iggy-upkeep": service.run(),
            "iggy-heartbeats": server.evict_silent_clients(host.clock),
        }

        async def abort() -> None:
            server.abort()

        async with serve_until_left(
            listener, upkeep, drain=server.close, abort=abort, close=service.close
        ):
            yield bound


def _make_face(
    catalog: Catalog,
    numbering: NumberedSegments,
    config: IggyFaceConfig,
    host: Host,
    users: Users | None,
    logins: Executor,
) -> "tuple[IggyService, IggyServer]":
    from logdrive.services.iggy.server.handlers.handlers import Handlers
    from logdrive.services.iggy.server.handlers.service import IggyService
    from logdrive.services.iggy.server.server import IggyServer
    from logdrive.services.iggy.server.sessions import IggySessions
    from logdrive.wire.iggy.revision import Revision

    sessions = IggySessions(host.random)
    service = IggyService(
        catalog,
        numbering,
        sessions,
        users=users,
        clock=host.clock,
        random=host.random,
        executor=logins,
        deduplication=config.deduplication,
    )
    fixed = Revision[config.revision.upper()] if config.revision != "auto" else None
    server = IggyServer(Handlers(service), sessions, fixed=fixed, nameless=users is None)
    return service, server


def require_iggy(address: str) -> None:
    """Raise `ConfigError` where a library is missing that Iggy's protocol needs at *address*."""
    with libraries_of("Iggy", IggyFaceConfig.table, "address", address):
        import logdrive.services.iggy.server.handlers.handlers
        import logdrive.services.iggy.server.server  # noqa: F401
