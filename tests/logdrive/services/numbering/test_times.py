"""The first append of a time is found, however many there are."""

import asyncio

import pytest

from logdrive.services.numbering.times import appended_from
from tests.logdrive.store.harness import SEGMENT, running, submit
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import EPOCH_MS, run


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_the_first_append_of_a_time_or_later_is_found(count: int) -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            ends = [0]
            for n in range(count):
                # two of each time
                await asyncio.sleep(0 if n % 2 else 1)
                ends.append(await submit(store, b"x" * (1 + n % 7), n + 1))
            for seconds in range(count + 2):
                expected = ends[min(2 * max(0, seconds - 1), count)]
                found = appended_from(store, SEGMENT, 0, ends[-1], EPOCH_MS + 1000 * seconds - 500)
                assert found == expected
            # only between the bounds
            assert appended_from(store, SEGMENT, 0, ends[-1] // 2, 1 << 60) == ends[-1] // 2

    run(main())
