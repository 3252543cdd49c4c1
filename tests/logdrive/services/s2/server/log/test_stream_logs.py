"""Open streams: shared, closed when idle, forgotten when deleted."""

import asyncio
from random import Random

import pytest

from logdrive.services.numbering.checkpoint import PREFIX
from logdrive.services.numbering.opened import IDLE_SECONDS
from logdrive.services.numbering.segments import NumberedSegments
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.stream_logs import StreamLogs
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.queries import ReadQuery
from tests.logdrive.services.s2.server.log.harness import bodies
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run


def made(store: Store, numbering: NumberedSegments | None = None) -> StreamLogs:
    clock = VirtualClock()
    numbering = numbering or NumberedSegments(store, clock=clock)
    return StreamLogs(numbering, clock=clock, random=Random(1))


def test_a_stream_is_opened_once_however_many_ask_at_the_same_time() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            logs = made(store)
            first, second = await asyncio.gather(
                logs.open(SEGMENT, LogSettings), logs.open(SEGMENT, LogSettings)
            )
            assert first is second
            with pytest.raises(NoSuchSegmentError):
                await logs.open("other/stream/0", LogSettings)
            assert logs.get("other/stream/0") is None
            await logs.close()
            assert logs.get(SEGMENT) is None

    run(main())


def test_only_idle_streams_are_closed() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            logs = made(store)
            log = await logs.open(SEGMENT, LogSettings)
            reading = await log.read(ReadQuery())
            await asyncio.sleep(IDLE_SECONDS + 1)
            await logs.close_idle()
            assert logs.get(SEGMENT) is log
            reading.close()
            await logs.close_idle()
            assert logs.get(SEGMENT) is None
            with pytest.raises(S2Error, match="closed"):
                log.submit(bodies(b"a"))
            again = await logs.open(SEGMENT, LogSettings)
            assert again is not log
            await again.submit(bodies(b"a"))
            await logs.close()

    run(main())


def test_a_deleted_stream_is_forgotten_with_its_index() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            numbering = NumberedSegments(store, clock=VirtualClock())
            logs = made(store, numbering)
            log = await logs.open(SEGMENT, LogSettings)
            for _ in range(3):
                await log.submit(bodies(*[b""] * 1000))
            await logs.close()
            await numbering.close()
            assert store.segments(PREFIX)
            await logs.forget(SEGMENT)
            assert not store.segments(PREFIX)

    run(main())


def test_a_stream_made_anew_by_another_face_is_opened_anew() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            logs = made(store)
            log = await logs.open(SEGMENT, LogSettings)
            await log.submit(bodies(b"a"))
            await store.delete(SEGMENT)
            await store.create(SEGMENT)
            with pytest.raises(S2Error, match="deleted"):
                await log.sync()
            again = await logs.open(SEGMENT, LogSettings)
            assert again is not log
            assert (await again.submit(bodies(b"b", match=0))).start.seq_num == 0
            await logs.close()

    run(main())
