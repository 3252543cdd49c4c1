"""The sink and its client at our store and at a real Pravega alike (rules S1, S2, S4; what a cut
connection leaves).
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from logdrive.errors import TransientError
from logdrive.host.transport import ClientTls
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT, CLOSED
from logdrive.net.system_stream import SystemStream
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.cluster import Cluster
from logdrive.services.pravega.sink import PravegaSink
from logdrive.services.sink import NumberConflictError
from tests.pravega.sites import Site, Sites, contents, service

SOURCE = UUID("00112233-4455-6677-8899-aabbccddeeff")
STORE_ID = UUID(int=7)
SECONDS = 280  # Spark takes most of it, on a machine with other things to do


def at_a_site(scenario: Callable[[Site], Coroutine[Any, Any, None]]) -> Callable[[Sites], None]:
    """Run *scenario* once at each place."""

    @wraps(scenario)
    def test(sites: Sites) -> None:
        async def main() -> None:
            async with asyncio.timeout(SECONDS), sites() as site:
                await scenario(site)

        asyncio.run(main())

    del test.__wrapped__  # pytest looks at the arguments
    return test


def fresh() -> str:
    """Return a stream's name that nobody had before: Pravega keeps the names of deleted ones for a
    while.
    """
    return f"s{uuid4().hex[:12]}"


async def of_stream(at: Cluster, stream: str, segments: int = 1) -> PravegaSink:
    return await PravegaSink.open_stream(at, "logs", stream, segments=segments, store_id=STORE_ID)


@at_a_site
async def test_a_stream_is_made_through_the_controller_and_found_again(site: Site) -> None:
    stream = fresh()
    async with service(site) as at:
        made = await of_stream(at, stream, 4)
        assert sorted(made.segments) == [f"logs/{stream}/{n}.#epoch.0" for n in range(4)]
        assert (await of_stream(at, stream, 2)).segments == made.segments
        current = {
            segment.name: segment
            for segment in await site.controller.current_segments("logs", stream)
        }
        assert {made.segment_for(UUID(int=n).hex) for n in range(50)} == set(current)


@at_a_site
async def test_what_is_acknowledged_is_read_back_byte_for_byte_and_its_number_told__S1_D2(
    site: Site,
) -> None:
    stream = fresh()
    async with service(site) as at:
        sink = await of_stream(at, stream)
        (segment,) = sink.segments
        assert await sink.open_writer(segment, SOURCE) == ABSENT
        random = Random(1)
        batches = [
            frame_event(random.randbytes(random.choice((1, 1000, 900_000)))) for _ in range(20)
        ]
        previous = ABSENT
        for number, batch in enumerate(batches, 1):
            stored = sink.append_batch(
                segment, SOURCE, [batch[:3], batch[3:]], 1, previous, number << 16
            )
            previous = number << 16
        assert await sink.open_writer(segment, SOURCE) == previous  # waits for what was submitted
        assert stored.done()
        with pytest.raises(NumberConflictError):
            sink.append_batch(segment, SOURCE, [b"again"], 1, 1 << 16, 99 << 16)
    (where,) = await site.controller.current_segments("logs", stream)
    assert await contents(site, where) == b"".join(batches)


@at_a_site
async def test_of_two_receivers_the_one_that_set_up_last_appends__S2(site: Site) -> None:
    stream = fresh()
    async with service(site) as first, service(site) as second:
        old, new = await of_stream(first, stream), await of_stream(second, stream)
        (segment,) = old.segments
        assert await old.open_writer(segment, SOURCE) == ABSENT
        await old.append_batch(segment, SOURCE, [frame_event(b"one")], 1, ABSENT, 10)
        assert await new.open_writer(segment, SOURCE) == 10
        await new.append_batch(segment, SOURCE, [frame_event(b"two")], 1, 10, 20)
        with pytest.raises(TransientError):
            await old.append_batch(segment, SOURCE, [frame_event(b"late")], 1, 10, 15)
        assert await old.open_writer(segment, SOURCE) == 20
        await old.append_batch(segment, SOURCE, [frame_event(b"three")], 1, 20, 30)
        assert await new.open_writer(segment, SOURCE) == 30
    (where,) = await site.controller.current_segments("logs", stream)
    assert await contents(site, where) == b"".join(map(frame_event, (b"one", b"two", b"three")))


@at_a_site
async def test_closed_numbers_and_those_of_many_writers_are_kept__S4(site: Site) -> None:
    stream = fresh()
    writers = [UUID(int=n) for n in range(1, 200)]
    async with service(site) as at:
        sink = await of_stream(at, stream, 2)
        stored = [
            sink.append_batch(
                sink.segment_for(w.hex), w, [frame_event(b"x")], 1, ABSENT, CLOSED + n
            )
            for n, w in enumerate(writers)
        ]
        await asyncio.gather(*stored)
    async with service(site) as at:
        sink = await of_stream(at, stream, 2)
        numbers = await asyncio.gather(
            *(sink.open_writer(sink.segment_for(w.hex), w) for w in writers)
        )
        assert numbers == [CLOSED + n for n in range(len(writers))]


async def number_of(sink: PravegaSink, segment: str) -> int:
    """Return the durable number of the one source, however often that has to be asked; 0 for
    none.
    """
    while True:
        with contextlib.suppress(TransientError):
            return max(await sink.open_writer(segment, SOURCE), 0)


class CuttingTransport(SystemTransport):
    """The machine's sockets, which can all be cut at once."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[SystemStream] = []

    async def connect(self, host: str, port: int, tls: ClientTls | None) -> SystemStream:
        stream = await super().connect(host, port, tls)
        self._open.append(stream)
        return stream

    def cut(self) -> None:
        """Abort every connection."""
        streams, self._open = self._open, []
        for stream in streams:
            stream.abort()


@at_a_site
async def test_connections_cut_at_any_moment_neither_lose_nor_double_a_batch__D3_S2(
    site: Site,
) -> None:
    stream, random, transport = fresh(), Random(3), CuttingTransport()
    batches = [frame_event(b"%06d " % n * random.randint(1, 3000)) for n in range(600)]
    async with service(site, transport) as at:
        sink = await of_stream(at, stream)
        (segment,) = sink.segments

        async def cut() -> None:
            for _ in range(40):
                await asyncio.sleep(random.random() * 0.15)
                transport.cut()

        cutting = asyncio.create_task(cut())
        while (stored := await number_of(sink, segment)) < len(batches):
            pending: list[asyncio.Future[None]] = []
            with contextlib.suppress(TransientError, NumberConflictError):
                for number in range(stored + 1, min(stored + 20, len(batches)) + 1):
                    pending.append(
                        sink.append_batch(
                            segment, SOURCE, [batches[number - 1]], 1, number - 1 or ABSENT, number
                        )
                    )
                    await asyncio.sleep(0.002)
            await asyncio.gather(*pending, return_exceptions=True)
        await cutting
    (where,) = await site.controller.current_segments("logs", stream)
    assert await contents(site, where) == b"".join(batches)
