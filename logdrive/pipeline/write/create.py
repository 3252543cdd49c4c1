"""Makes the stream that rows are appended to, unless it is there."""

from logdrive.errors import ConfigError, Mistake
from logdrive.host.transport import Transport
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.discovery import is_controller
from logdrive.services.pravega.client.grpc_extra import connect_controller
from logdrive.services.pravega.reader.segments import SegmentLocation, locate_segments
from logdrive.services.pravega.reader.stream import list_first_segments
from logdrive.wire.pravega.names import segment_name


async def create_stream(stream: StreamClient, segments: int, transport: Transport) -> None:
    """Make *stream* with *segments* segments, unless it is there, with however many.

    Raises `TransientError`, `ConfigError`, `RequestRefusedError`.
    """
    target = stream.target
    if await is_controller(transport, target):
        async with connect_controller(target.host, target.port, target.tls, target.login) as asked:
            await asked.create_stream(stream.scope, stream.stream, segments)
        return
    async with connect_segment_store(
        transport, target.host, target.port, target.tls, token=target.token_of
    ) as client:
        if await list_first_segments(client, stream.scope, stream.stream):
            return
        # the first one last: who sees it sees all
        for number in reversed(range(segments)):
            await client.create_segment(segment_name(stream.scope, stream.stream, number))


async def find_or_create_stream(
    stream: StreamClient, segments: int | None, transport: Transport
) -> list[SegmentLocation]:
    """Return the segments of *stream*, for updates; make it with *segments* if it is not there.

    Raises `ConfigError` if it is not and that is None, and what `create_stream` raises.
    """

    async def locate() -> list[SegmentLocation]:
        return await locate_segments(
            transport, stream.target, stream.scope, stream.stream, update=True
        )

    located = await locate()
    if not located and segments is not None:
        await create_stream(stream, segments, transport)
        located = await locate()
    if not located:
        remedy = "there is no such stream: correct it, or say with `segments` how many to make"
        raise ConfigError("the stream to append to", [Mistake("uri", stream.uri, remedy)])
    return located
