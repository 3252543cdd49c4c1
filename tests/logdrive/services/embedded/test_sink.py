"""The sink that receivers use where the store is in their own process."""

import asyncio
import contextlib
import errno
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from logdrive.errors import StorageError, TransientError
from logdrive.model.numbers import ABSENT
from logdrive.services.embedded.sink import EmbeddedSink, stream_segments
from logdrive.services.sink import NumberConflictError, Sink
from logdrive.store.limits import StoreLimits
from tests.logdrive.store.harness import content, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

SOURCE = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_a_new_stream_gets_its_segments_and_keys_spread_over_them() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            sink = await EmbeddedSink.open_stream(store, "logs", "app", 4)
            as_sink: Sink = sink
            assert as_sink.keeps_numbers
            assert as_sink.store_id == store.store_id
            assert (
                sink.segments
                == tuple(f"logs/app/{n}.#epoch.0" for n in range(4))
                == tuple(sorted(store.segments()))
            )
            assert sink.segment_for("hello") == "logs/app/2.#epoch.0"
            assert {sink.segment_for(UUID(int=n).hex) for n in range(50)} == set(sink.segments)

    run(main())


def test_a_stream_keeps_its_segments_and_one_that_was_being_made_is_completed() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create("logs/app/2.#epoch.0")  # all that a start cut short had made
            sink = await EmbeddedSink.open_stream(store, "logs", "app", 3)
            assert len(sink.segments) == 3
            await sink.append_batch(sink.segments[1], SOURCE, [b"x"], 1, ABSENT, 1)
            for configured in (1, 5):
                again = await EmbeddedSink.open_stream(store, "logs", "app", configured)
                assert again.segments == sink.segments
            assert stream_segments(store, "logs", "ap") == []

    run(main())


def test_appends_are_conditional_and_numbers_are_told_once_durable() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            sink = await EmbeddedSink.open_stream(store, "logs", "app", 1)
            segment = sink.segment_for(SOURCE.hex)
            assert await sink.open_writer(segment, SOURCE) == ABSENT
            first = sink.append_batch(segment, SOURCE, [b"head", b"record"], 2, ABSENT, 65537)
            second = sink.append_batch(segment, SOURCE, [b"more"], 2, 65537, 131073)
            with pytest.raises(NumberConflictError, match="131073"):
                sink.append_batch(segment, SOURCE, [b"again"], 2, 65537, 200000)
            assert not first.done()
            assert await sink.open_writer(segment, SOURCE) == 131073
            await asyncio.gather(first, second)
            assert content(store, segment) == b"headrecordmore"

    run(main())


def test_a_full_disk_is_transient_and_a_failed_sync_is_not() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        with contextlib.suppress(StorageError):  # the store's own end, which its process shares
            async with running(disk, StoreLimits(pending=10_000)) as store:
                sink = await EmbeddedSink.open_stream(store, "logs", "app", 1)
                segment = sink.segments[0]
                disk.fail_write(errno.ENOSPC)
                with pytest.raises(TransientError, match="No space left"):
                    await sink.append_batch(segment, SOURCE, [b"x"], 1, ABSENT, 1)
                stored = sink.append_batch(segment, SOURCE, [bytes(9_000)], 1, ABSENT, 1)
                with pytest.raises(TransientError, match="wait for the disk"):
                    await sink.append_batch(segment, SOURCE, [bytes(9_000)], 1, 1, 2)
                await stored
                disk.fail_sync()
                with pytest.raises(StorageError):
                    await sink.append_batch(segment, SOURCE, [b"x"], 1, 1, 2)
                with pytest.raises(StorageError):
                    await sink.open_writer(segment, SOURCE)

    run(main())


def test_closing_waits_for_what_was_submitted_even_if_its_submitter_does_not() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            sink = await EmbeddedSink.open_stream(store, "logs", "app", 1)
            sink.append_batch(sink.segments[0], SOURCE, [b"x"], 1, ABSENT, 1).cancel()
            await asyncio.sleep(0)
            await sink.close()
            await sink.close()
            assert content(store, sink.segments[0]) == b"x"
            assert await store.create("the store goes on")

    run(main())


def test_a_sealed_segment_takes_nothing_and_is_told_of_once() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            sink = await EmbeddedSink.open_stream(store, "logs", "app", 1)
            segment = sink.segment_for(SOURCE.hex)
            await sink.append_batch(segment, SOURCE, [b"x"], 1, ABSENT, 1)
            await store.seal(segment)
            for _ in range(3):
                with pytest.raises(TransientError, match="sealed"):
                    await sink.append_batch(segment, SOURCE, [b"y"], 1, 1, 2)
            assert await sink.open_writer(segment, SOURCE) == 1

    with capture_logs() as said:
        run(main())
    assert [entry["segment"] for entry in said if entry["log_level"] == "error"] == [
        "logs/app/0.#epoch.0"
    ]
