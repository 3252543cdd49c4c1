"""A face at an address, from before the first connection to after the last, announced in the store's directory."""

import contextlib
from collections.abc import AsyncIterator

from logdrive.disk import Disk
from logdrive.net.stream import ServerTls, Transport
from logdrive.store import endpoint
from logdrive.store.engine import Store
from logdrive.store.pravega.face import POLL_SECONDS, PravegaFace


@contextlib.asynccontextmanager
async def listening(
    store: Store, host: str, port: int, tls: ServerTls | None, *, transport: Transport, disk: Disk, poll_seconds: float = POLL_SECONDS
) -> AsyncIterator[tuple[str, int]]:
    """Serve *store* while the context lasts, yielding the address, with the real port where 0 was asked for.

    At the end connections get what they still wait for to be durable, within a few seconds: leave before the store closes. Raises
    `ConfigError` where it can't bind.
    """
    face = PravegaFace(store, poll_seconds=poll_seconds)
    listener = await transport.listen(host, port, tls, face.serve)
    try:
        endpoint.publish(disk, store.path, endpoint.endpoint_of(host, listener.address[1], tls=tls is not None))
        yield listener.address
    finally:
        with contextlib.suppress(OSError):  # a stale file does no harm once the lock is free
            endpoint.withdraw(disk, store.path)
        await listener.close()
        await face.close()
