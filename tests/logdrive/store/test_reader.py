"""Reads: any range, over entries, other segments' entries between, files, small and large, with few files open."""

from random import Random

import pytest

from logdrive.limits import StoreLimits
from logdrive.store.errors import DamagedError
from tests.logdrive.store.harness import FIRST_FILE, SEGMENT, running, submit
from tests.support.memory_disk import MemoryDisk
from tests.support.virtual_time import run


@pytest.mark.parametrize("limits", [StoreLimits(), StoreLimits(log_file=500, open_files=1, read_ahead=150), StoreLimits(read_ahead=1)])
def test_any_range_over_entries_and_files_is_read_back(limits: StoreLimits) -> None:
    async def main() -> None:
        random, expected = Random(11), {SEGMENT: b"", "other": b""}
        async with running(MemoryDisk(), limits) as store:
            for name in expected:
                await store.create(name)
            for number in range(1, 80):
                name = random.choice(list(expected))
                data = random.randbytes(random.choice((0, 1, 30, 200, 900)))
                future = submit(store, data, number, segment=name)
                expected[name] += data
                if random.random() < 0.3:
                    await future
            await future
            for _ in range(300):
                name = random.choice(list(expected))
                offset, limit = random.randrange(len(expected[name]) + 5), random.choice((0, 1, 8, 100, 1000, 1 << 30))
                assert store.read(name, offset, limit) == expected[name][offset : offset + limit]
            with pytest.raises(ValueError, match="negative"):
                store.read(SEGMENT, -1, 5)

    run(main())


def test_an_entry_read_in_small_pieces_is_read_and_checked_once() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            data = Random(1).randbytes(100_000)
            await submit(store, data, 1)
            assert b"".join(store.read(SEGMENT, at, 1000) for at in range(0, 100_000, 1000)) == data
            assert len(store._reader._kept) == 1

    run(main())


def test_the_rest_of_an_entry_is_what_was_checked_whatever_the_disk_does_meanwhile() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(direct=False)) as store:  # so that the last byte is data
            await store.create(SEGMENT)
            data = Random(1).randbytes(10_000)
            await submit(store, data, 1)
            assert store.read(SEGMENT, 0, 10) == data[:10]
            disk.flip_bit(FIRST_FILE, disk.stat(FIRST_FILE).size - 1)
            assert store.read(SEGMENT, 10, 10_000) == data[10:]
            for number in range(2, 6):
                await submit(store, bytes(5 << 20), number)
                store.read(SEGMENT, store.info(SEGMENT).length - 1, 1)  # type: ignore[union-attr]
            assert sum(map(len, store._reader._kept.values())) <= store._reader._kept_bytes <= 16 << 20
            with pytest.raises(DamagedError):
                store.read(SEGMENT, 10, 10_000)

    run(main())
