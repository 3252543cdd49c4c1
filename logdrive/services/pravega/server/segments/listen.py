"""`serve_segment_store`: a segment store that listens while a context is open.

Its address is published in the store's directory, for programs on this host.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import structlog

from logdrive.errors import os_error_text
from logdrive.host.disk import Disk
from logdrive.host.transport import ServerTls, Transport
from logdrive.net.retry import retry_async, wait_fixed
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.pravega.server import endpoint
from logdrive.services.pravega.server.segments.server import POLL_SECONDS, SegmentStoreServer
from logdrive.store.engine import Store
from logdrive.store.store_files import StoreFiles, find_store_files
from logdrive.wire.pravega.limits import PRAVEGA_HELD_BYTES

_log = structlog.get_logger("logdrive.store.pravega")
_RETRY_SECONDS = 10.0
"""Seconds between two tries to publish the address."""


@contextlib.asynccontextmanager
async def serve_segment_store(
    store: Store,
    host: str,
    port: int,
    tls: ServerTls | None,
    *,
    transport: Transport,
    disk: Disk,
    poll_seconds: float = POLL_SECONDS,
    random: Random | None = None,
    verifier: TokenVerifier | None = None,
    held_bytes: int = PRAVEGA_HELD_BYTES,
) -> AsyncIterator[tuple[str, int]]:
    """Serve *store* at *host*:*port* while the context is open; yield host and the port bound.

    Given a *verifier*, requests need a token; its local token is published with the address. Leave
    the context before the store closes: appends under way become durable and are acknowledged
    first, within a few seconds. *poll_seconds* and *held_bytes* are those of `SegmentStoreServer`.
    Raises `ConfigError` where it can't bind.
    """
    files: StoreFiles | None = None
    with contextlib.suppress(OSError):  # then all clients read over the network
        files = find_store_files(disk, store.path)
    face = SegmentStoreServer(
        store,
        poll_seconds=poll_seconds,
        random=random,
        verifier=verifier,
        held_bytes=held_bytes,
        files=files,
    )
    listener = await transport.listen(host, port, tls, face.serve_connection)
    where = endpoint.endpoint_of(
        host,
        listener.address[1],
        tls=tls is not None,
        token=verifier.local_token if verifier is not None else "",
    )
    later: asyncio.Task[None] | None = None
    try:
        try:
            endpoint.publish_endpoint(disk, store.path, where)
        except OSError as error:
            _log.warning(
                "the address can't be published yet to other programs on this host",
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
            endpoint.withdraw_endpoint(disk, store.path)
        await listener.close()
        await face.close()


async def _publish_later(disk: Disk, directory: str, where: endpoint.PublishedEndpoint) -> None:
    """Publish the address once the disk, which had no room at the start, has some."""

    async def publish() -> None:
        endpoint.publish_endpoint(disk, directory, where)

    await asyncio.sleep(_RETRY_SECONDS)
    until_published = retry_async(OSError, sleep=asyncio.sleep, wait=wait_fixed(_RETRY_SECONDS))
    await until_published(publish)
