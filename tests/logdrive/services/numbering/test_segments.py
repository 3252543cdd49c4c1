"""Open numbered segments: one for all faces, closed when idle, forgotten when deleted."""

import asyncio
import contextlib
from random import Random

import pytest

from logdrive.services.numbering.checkpoint import PREFIX
from logdrive.services.numbering.opened import IDLE_SECONDS
from logdrive.services.numbering.segments import NumberedSegments, open_numbering
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.stream_logs import StreamLogs
from logdrive.store.errors import NoSuchSegmentError
from tests.logdrive.services.s2.server.log.harness import bodies
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run


def test_a_segment_is_opened_once_however_many_faces_ask_at_the_same_time() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            numbering = NumberedSegments(store, clock=VirtualClock())
            first, second = await asyncio.gather(numbering.open(SEGMENT), numbering.open(SEGMENT))
            assert first is second
            with pytest.raises(NoSuchSegmentError):
                await numbering.open("other/stream/0")
            assert numbering.get("other/stream/0") is None
            await numbering.close()
            assert numbering.get(SEGMENT) is None

    run(main())


def test_a_segment_in_use_stays_open_and_an_idle_one_is_closed() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            numbering = NumberedSegments(store, clock=VirtualClock())
            numbered = await numbering.open(SEGMENT)
            with numbered.in_use():
                await asyncio.sleep(IDLE_SECONDS + 1)
                await numbering.close_idle()
                assert numbering.get(SEGMENT) is numbered
            await numbering.close_idle()
            assert numbering.get(SEGMENT) is None
            assert not numbered.is_current

    run(main())


def test_a_segment_made_anew_is_opened_anew() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            numbering = NumberedSegments(store, clock=VirtualClock())
            numbered = await numbering.open(SEGMENT)
            await store.delete(SEGMENT)
            await store.create(SEGMENT)
            assert not numbered.is_current
            with pytest.raises(NoSuchSegmentError):
                await numbered.sync()
            assert await numbering.open(SEGMENT) is not numbered
            await numbering.close()

    run(main())


def test_indexes_of_segments_that_are_gone_are_deleted_at_a_start() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            await store.create(PREFIX + SEGMENT)
            await store.create(PREFIX + "gone/stream/0")
            async with open_numbering(store, clock=VirtualClock()):
                assert store.segments(PREFIX) == [PREFIX + SEGMENT]

    run(main())


def test_indexes_are_written_at_the_end_but_not_after_an_exception() -> None:
    async def main() -> None:
        async def fill(numbering: NumberedSegments) -> None:
            logs = StreamLogs(numbering, clock=VirtualClock(), random=Random(1))
            log = await logs.open(SEGMENT, LogSettings)
            for _ in range(3):
                await log.submit(bodies(*[b""] * 1000))
            await logs.close()

        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            with contextlib.suppress(ZeroDivisionError):
                async with open_numbering(store, clock=VirtualClock()) as numbering:
                    await fill(numbering)
                    raise ZeroDivisionError
            assert not store.segments(PREFIX)
            async with open_numbering(store, clock=VirtualClock()) as numbering:
                await fill(numbering)
            assert store.segments(PREFIX)

    run(main())


def test_two_faces_append_to_one_segment_and_each_learns_its_numbers() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=0.01) as store:
            await store.create(SEGMENT)
            numbering = NumberedSegments(store, clock=VirtualClock())
            faces = [
                StreamLogs(numbering, clock=VirtualClock(), random=Random(seed)) for seed in (1, 2)
            ]
            one, other = [await face.open(SEGMENT, LogSettings) for face in faces]
            answers = [
                (one, other)[at % 2].submit(bodies(*[b"%d" % at] * (1 + at % 3)))
                for at in range(40)
            ]
            # everything of this process is known, so a condition needs no wait
            last = one.submit(bodies(b"last", match=sum(1 + at % 3 for at in range(40))))
            number = 0
            for at, answer in enumerate(answers):
                assert (await answer).start.seq_num == number
                number += 1 + at % 3
            assert (await last).start.seq_num == number
            for face in faces:
                await face.close()
            await numbering.close()

    run(main())
