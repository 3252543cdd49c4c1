"""A face at an address, from before the first connection to after the last, announced in the
store's directory.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import structlog

from logdrive.errors import os_error_text
from logdrive.host.disk import Disk
from logdrive.net.retry import retry_async, wait_fixed
from logdrive.net.stream import ServerTls, Transport
from logdrive.services.auth.gate import TokenVerifier
from logdrive.services.pravega.server import endpoint
from logdrive.services.pravega.server.segments.server import POLL_SECONDS, SegmentStoreServer
from logdrive.store.engine import Store
from logdrive.wire.pravega.limits import PRAVEGA_HELD_BYTES

_log = structlog.get_logger("logdrive.store.pravega")
_RETRY_SECONDS = 10.0


@contextlib.asynccontextmanager
async def listening(
    store: Store,
    host: str,
    port: int,
    tls: ServerTls | None,
    *,
    transport: Transport,
    disk: Disk,
    poll_seconds: float = POLL_SECONDS,
    random: Random | None = None,
    gate: TokenVerifier | None = None,
    held_bytes: int = PRAVEGA_HELD_BYTES,
) -> AsyncIterator[tuple[str, int]]:
    """Serve *store* while the context lasts, yielding the address, with the real port where 0 was
    asked for.

    Where there is a *gate*, the store's owner finds its pass in the directory. At the end
    connections get what they still wait for to be durable, within a few seconds: leave before the
    store closes. Raises `ConfigError` where it can't bind.
    """
    face = SegmentStoreServer(
        store, poll_seconds=poll_seconds, random=random, gate=gate, held_bytes=held_bytes
    )
    listener = await transport.listen(host, port, tls, face.serve)
    where = endpoint.endpoint_of(
        host,
        listener.address[1],
        tls=tls is not None,
        token=gate.own_pass if gate is not None else "",
    )
    later: asyncio.Task[None] | None = None
    try:
        try:
            endpoint.publish(disk, store.path, where)
        except OSError as error:
            _log.warning(
                "the face can't be announced yet to other programs on this host",
                store=store.path,
                reason=os_error_text(error),
            )
            later = asyncio.create_task(_publish_later(disk, store.path, where), name="endpoint")
        yield listener.address
    finally:
        if later is not None:
            later.cancel()
            await asyncio.wait([later])
        with contextlib.suppress(OSError):  # a stale file does no harm once the lock is free
            endpoint.withdraw(disk, store.path)
        await listener.close()
        await face.close()


async def _publish_later(disk: Disk, directory: str, where: endpoint.PublishedEndpoint) -> None:
    """Announce the face once the disk, which had no room for that at the start, has some."""

    async def publish() -> None:
        endpoint.publish(disk, directory, where)

    await asyncio.sleep(_RETRY_SECONDS)
    until_published = retry_async(OSError, sleep=asyncio.sleep, wait=wait_fixed(_RETRY_SECONDS))
    await until_published(publish)
