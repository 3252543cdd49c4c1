"""Connects a reader to a service of Iggy."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from logdrive.host.transport import Transport
from logdrive.services.iggy.client.session import IggyClientSession
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session


@asynccontextmanager
async def connect_service(
    transport: Transport, target: IggyTarget
) -> AsyncIterator[IggyClientSession]:
    """Yield a session of *target*'s user, which is closed afterwards.

    Raises `TransientError`, `IggyError` for a login that is refused, and `ConfigError` for
    certificates that can't be used.
    """
    session = await open_session(transport, target)
    try:
        yield session
    except BaseException:
        session.abort()
        raise
    await session.close()
