"""Readers find a stream's segments of all epochs, each at the segment store that has it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from random import Random
from uuid import UUID

from logdrive.host.transport import ByteStream, ClientTls
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.controller import (
    ControllerClient,
    Login,
    SegmentStoreAddress,
    StreamSegment,
    Successor,
)
from logdrive.services.pravega.reader.journal import segments_in_journal
from logdrive.services.pravega.reader.segments import connect_segments, locate_segments
from logdrive.services.pravega.reader.stream import ReadableSegment, follow_lines, read_all_lines
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.state import StreamConfig
from logdrive.store.streams.streams import Streams
from tests.logdrive.services.pack_batches import no_fault
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork
from tests.support.pravega.peer import World, in_world
from tests.support.virtual_time import VirtualClock, run

WRITER = UUID(int=1)


async def scaled(streams: Streams) -> None:
    """Make logs/app of two segments, and split the first."""
    await streams.create_scope("logs")
    await streams.create("logs", "app", StreamConfig(min_segments=2))
    await streams.scale("logs", "app", [0], [(0.0, 0.25), (0.25, 0.5)])


@in_world
async def test_a_face_alone_shows_the_segments_of_all_epochs(made: World) -> None:
    target = Target("server", made.port)
    streams = Streams(Catalog(made.store, clock=VirtualClock(), random=Random(1), slack=0))
    assert await locate_segments(made.client, target, "logs", "app") == []
    await scaled(streams)
    await made.store.create("logs/raw/0.#epoch.0")
    assert await streams.streams("logs") == ["app", "raw"]
    await made.store.create("logs/later/0.#epoch.0")  # by a sink: the journal does not know of it
    for stream, names in (
        ("app", ["0.#epoch.0", "1.#epoch.0", "2.#epoch.1", "3.#epoch.1"]),
        ("raw", ["0.#epoch.0"]),
        ("later", ["0.#epoch.0"]),
    ):
        found = await locate_segments(made.client, target, "logs", stream)
        assert [one.state.segment for one in found] == [f"logs/{stream}/{name}" for name in names]
        assert [one.number for one in found] == list(range(len(names)))
    await streams.truncate("logs", "app", {1: 0, 1 << 32 | 2: 0, 1 << 32 | 3: 0})
    assert [one.number for one in await locate_segments(made.client, target, "logs", "app")] == [
        1,
        2,
        3,
    ]
    await streams.seal("logs", "app")
    await streams.delete("logs", "app")
    assert await locate_segments(made.client, target, "logs", "app") == []


@in_world
async def test_the_journal_is_read_while_it_is_written_anew(made: World) -> None:
    streams = Streams(Catalog(made.store, clock=VirtualClock(), random=Random(1), slack=0))
    await scaled(streams)
    made.network.link("client", "server").delay = 0.005  # longer than a change takes

    async def change() -> None:
        for n in range(30):
            await streams.configure("logs", "app", StreamConfig(tags=(str(n),) * 500))

    async with (
        connect_segment_store(made.client, "server", made.port) as client,
        asyncio.TaskGroup() as group,
    ):
        changing = group.create_task(change())
        while not changing.done():
            assert len(await segments_in_journal(client, "logs", "app") or ()) == 4
            await asyncio.sleep(0.001)


class Spread:
    """A controller of a stream of two segments, each at a store of its own."""

    async def create_stream(self, scope: str, stream: str, segments: int) -> None:
        raise NotImplementedError

    async def current_segments(self, scope: str, stream: str) -> list[StreamSegment]:
        raise NotImplementedError

    async def oldest_segments(self, scope: str, stream: str) -> list[int]:
        return [0, 1]

    async def successors_of(self, scope: str, stream: str, segment: int) -> list[Successor]:
        return []

    async def locate_segment(self, segment: StreamSegment) -> SegmentStoreAddress:
        return SegmentStoreAddress(f"store-{segment.number}", 6000)

    async def delegation_token(self, scope: str, stream: str, *, update: bool = True) -> str:
        return ""


@contextlib.asynccontextmanager
async def at_spread(
    host: str, port: int, tls: ClientTls | None, login: Login | None
) -> AsyncIterator[ControllerClient]:
    yield Spread()


def line(number: int) -> bytes:
    """Return one record as an event."""
    text = f'{{"message":"line {number}"}}'.encode()
    return b"\0\0\0\0" + len(text).to_bytes(4, "big") + text


@in_world
async def test_who_follows_a_stream_goes_on_with_the_segments_of_a_scaling(made: World) -> None:
    streams = Streams(Catalog(made.store, clock=VirtualClock(), random=Random(1)))
    await streams.create_scope("logs")
    await streams.create("logs", "app", StreamConfig(min_segments=1))
    target = Target("server", made.port)

    async def write(number: int, epoch: int) -> None:
        segment = f"logs/app/{number}.#epoch.{epoch}"
        await made.store.append(
            segment, line(number), writer=WRITER, expected=None, number=1, events=1
        )

    async with contextlib.AsyncExitStack() as stack:

        async def later(known: AbstractSet[str]) -> list[ReadableSegment]:
            fresh = [
                one
                for one in await locate_segments(made.client, target, "logs", "app")
                if one.state.segment not in known
            ]
            return await stack.enter_async_context(connect_segments(made.client, fresh))

        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def follow() -> None:
            async for _, text in follow_lines(await later(set()), later, no_fault):
                await arrived.put(text)

        following = asyncio.create_task(follow())
        await write(0, 0)
        assert await arrived.get() == b"line 0\n"
        await streams.scale("logs", "app", [0], [(0.0, 0.5), (0.5, 1.0)])
        await streams.scale("logs", "app", [1 << 32 | 2], [(0.5, 1.0)])
        await write(1, 1)
        await write(3, 2)
        assert sorted([await arrived.get(), await arrived.get()]) == [b"line 1\n", b"line 3\n"]
        following.cancel()
        await asyncio.wait([following])


async def greet(stream: ByteStream) -> None:
    """Say what a server of HTTP/2 says first."""
    await stream.write([b"\0\0\0\4\0\0\0\0\0"])


def test_lines_are_read_from_each_store_that_has_some() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        async with contextlib.AsyncExitStack() as stack:
            for number in range(2):
                store = await stack.enter_async_context(running(MemoryDisk()))
                segment = f"logs/app/{number}.#epoch.0"
                await store.create(segment)
                await store.append(
                    segment, line(number), writer=WRITER, expected=None, number=1, events=1
                )
                host = network.host(f"store-{number}")
                serving = serve_segment_store(
                    store,
                    f"store-{number}",
                    6000,
                    None,
                    transport=host,
                    disk=MemoryDisk(["/store"]),
                )
                await stack.enter_async_context(serving)
            await network.host("controller").listen("controller", 9090, None, greet)
            reader = network.host("reader")
            there = await locate_segments(
                reader, Target("controller", 9090), "logs", "app", controllers=at_spread
            )
            segments = await stack.enter_async_context(connect_segments(reader, there))
            assert len({id(one.client) for one in segments}) == 2
            assert (
                b"".join([text async for _, text in read_all_lines(segments, no_fault)])
                == b"line 0\nline 1\n"
            )

    run(main())
