"""A log that is written past the page cache ends with zeros while it grows: a crash leaves them there, and nobody minds."""

import pytest

from logdrive.store.verify import verify
from tests.logdrive.store.harness import PATH, SEGMENT, content, running, submit
from tests.support.memory_disk import MemoryDisk
from tests.support.virtual_time import run


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
def test_the_zeros_that_fill_the_last_block_up_are_cut_without_a_word(size: int) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, clean=False) as store:
            await store.create(SEGMENT)
            await submit(store, bytes(size), 1)
        killed = disk.killed()
        assert not verify(killed, PATH).torn_bytes
        async with running(killed) as store:
            assert content(store) == bytes(size)
            assert store.recovery.cut_file == ""
            await submit(store, b"on", 2)
            assert content(store) == bytes(size) + b"on"

    run(main())
