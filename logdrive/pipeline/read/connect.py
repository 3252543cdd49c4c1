"""Opens the stream that a URI names: at a service on the network, or in a store's directory."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from logdrive.address import StreamAddress, host_port, stream_address
from logdrive.errors import ConfigError, Mistake
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.net.stream import ClientTls
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read.stream import StreamClient, stream_client
from logdrive.services.embedded.attach import attached
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.controller import Login
from logdrive.services.pravega.server import endpoint


@contextmanager
def open_stream(
    uri: str, tls: ClientTls | None = None, login: Login | None = None
) -> Iterator[StreamClient]:
    """Yield a client of the stream *uri* that works inside the context. Raises `ConfigError`.

    If no process serves the store at a `file://` URI, a thread of this process does, with an event
    loop of its own: Spark's workers need to connect, too.
    """
    try:
        address = None if uri.startswith("pravega:") else stream_address(uri)
        there = stream_client(uri, tls, login) if address is None else None
    except ValueError as error:
        raise ConfigError("pipeline", [Mistake("from", "", str(error))]) from error
    if address is None:
        assert there is not None
        yield there
        return
    ready: Future[StreamClient] = Future()
    loop, done = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=_serve_store, args=(loop, address, tls, ready, done), name="logdrive-attach"
    )
    thread.start()
    try:
        yield ready.result()
    finally:
        with suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(done.set)
        thread.join()


def _serve_store(
    loop: asyncio.AbstractEventLoop,
    address: StreamAddress,
    tls: ClientTls | None,
    ready: "Future[StreamClient]",
    done: asyncio.Event,
) -> None:
    async def serve() -> None:
        executor = ThreadExecutor("logdrive-store")
        try:
            async with attached(
                address,
                disk=SystemDisk(),
                executor=executor,
                clock=SystemClock(),
                transport=SystemTransport(),
                tls=tls,
            ) as target:
                ready.set_result(StreamClient(target, address.scope, address.stream))
                await done.wait()
        finally:
            executor.close()

    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)


def relocate_stream(uri: str, stream: StreamClient) -> StreamClient:
    """Return a client for where the stream *uri* is served now.

    A receiver that was restarted serves its store on a new port. Returns *stream* itself if the URI
    names a service, or if no process has published an endpoint for the store.
    """
    if uri.startswith("pravega:"):
        return stream
    found = endpoint.read_endpoint(SystemDisk(), stream_address(uri).path)
    if found is None:
        return stream
    target = Target(*host_port(found.pravega), stream.target.tls, found.token)
    return StreamClient(target, stream.scope, stream.stream)
