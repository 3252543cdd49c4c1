"""Opens the stream that a URI names: at a service on the network, or in a store's directory."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from logdrive.address import StreamAddress, host_port
from logdrive.errors import ConfigError, Mistake
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.host.transport import ClientTls
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read.choose_reader import choose_reader
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.embedded.attach import attach_store
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.controller import Login
from logdrive.services.pravega.server import endpoint
from logdrive.services.reader import ServiceReader


@contextmanager
def open_stream(
    uri: str,
    tls: ClientTls | None = None,
    login: Login | None = None,
    token: str = "",
    *,
    local_reads: bool = True,
) -> Iterator[ServiceReader]:
    """Yield a reader of the stream *uri* that works inside the context. Raises `ConfigError`.

    With *local_reads* it reads the log files of a store on this host directly, where it can.
    If no process serves the store at a `file://` URI, a thread of this process does, with an event
    loop of its own: Spark's workers need to connect, too.
    """
    try:
        chosen = choose_reader(uri, tls, login, token, local_reads=local_reads)
    except ValueError as error:
        raise ConfigError("pipeline", [Mistake("from", "", str(error))]) from error
    if not isinstance(chosen, StreamAddress):  # a service on the network
        yield chosen
        return

    # The store is served in a thread, since the caller blocks in the context.
    ready: Future[StreamClient] = Future()
    loop, done = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=_serve_store,
        args=(loop, chosen, tls, local_reads, ready, done),
        name="logdrive-attach",
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
    local_reads: bool,
    ready: "Future[StreamClient]",
    done: asyncio.Event,
) -> None:
    async def serve() -> None:
        executor = ThreadExecutor("logdrive-store")
        try:
            async with attach_store(
                address,
                host=Host(
                    clock=SystemClock(),
                    disk=SystemDisk(),
                    transport=SystemTransport(),
                    executor=executor,
                ),
                tls=tls,
            ) as target:
                ready.set_result(StreamClient(target, address.scope, address.stream, local_reads))
                await done.wait()
        finally:
            executor.close()

    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())
    except BaseException as error:
        if ready.done():  # the caller is inside the context: the thread reports it
            raise
        ready.set_exception(error)  # raised by `open_stream`


def relocate_stream(uri: str, stream: ServiceReader) -> ServiceReader:
    """Return a reader for where the stream *uri* is served now.

    A receiver that was restarted serves its store on a new port. Returns *stream* itself if the URI
    names a service, or if no process has published an endpoint for the store.
    """
    address = choose_reader(uri)
    if not isinstance(address, StreamAddress):
        return stream
    published = endpoint.read_endpoint(SystemDisk(), address.path)
    if published is None:  # no process serves the store: calls fail until one does
        return stream
    assert isinstance(stream, StreamClient), "a store is read through its Pravega face"
    target = Target(*host_port(published.pravega), stream.target.tls, published.token)
    return StreamClient(target, stream.scope, stream.stream, stream.local_reads)
