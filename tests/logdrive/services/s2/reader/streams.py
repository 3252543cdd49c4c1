"""S2 streams that hold batches as a receiver writes them: one record for each event."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from logdrive.address import S2Address
from logdrive.model.framing import split_events
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import S2Target, target_of
from logdrive.services.s2.reader.stream import S2StreamReader
from logdrive.wire.s2.records import AppendInput, Record
from tests.logdrive.pipeline.segments import Segment

BASIN = "reader-tests"
STREAM = "logs/a b"
SEGMENT = f"{BASIN}/{STREAM}"


def stream_at(port: int, name: str = STREAM) -> S2StreamReader:
    address = S2Address("127.0.0.1", port, BASIN, name)
    return S2StreamReader(
        target_of(address, tls=None, plain=False, token=None, environ={}), address
    )


def play(target: S2Target, act: Callable[[S2Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), S2Client(SystemTransport(), target) as client:
            await act(client)

    asyncio.run(main())


def records_of(segment: Segment) -> list[list[bytes]]:
    """Return the records of each batch of *segment*, the header first."""
    data = bytes(segment.data)
    return [
        [batch.payload, *split_events(data, batch.body, batch.next)]
        for batch in walk_batches(segment.name, 0, data)
    ]


def append(stream: S2StreamReader, *appends: Sequence[Record]) -> None:
    """Append each of *appends*, as one append; create the stream if it is missing."""

    async def act(client: S2Client) -> None:
        await client.ensure_stream(stream.address.stream)
        for records in appends:
            await client.append(stream.address.stream, AppendInput(tuple(records)))

    play(stream.target, act)


def append_segment(stream: S2StreamReader, segment: Segment) -> None:
    """Append the batches of *segment*."""
    append(stream, *([Record(body) for body in bodies] for bodies in records_of(segment)))
