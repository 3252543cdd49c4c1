"""After a look at its log, what a store's segments hold is shown to another's eyes."""

from collections.abc import Iterator

from logdrive.model.framing import Part
from logdrive.store.verify.verify import Verification, verify
from tests.logdrive.store.harness import FIRST_FILE, PATH, SEGMENT, filled, running, submit
from tests.logdrive.store.verify.test_verify import KEPT, LIMITS, busy
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


class Seen:
    """What was shown of each segment: its pieces by offset."""

    def __init__(self) -> None:
        self.segments: dict[str, dict[int, bytes]] = {}

    def inspect(self, segment: str, appends: Iterator[tuple[int, Part]]) -> None:
        self.segments[segment] = {offset: bytes(data) for offset, data in appends}


def looked_at(disk: MemoryDisk) -> tuple[Verification, Seen, list[tuple[int, int]]]:
    seen, told = Seen(), list[tuple[int, int]]()
    found = verify(
        disk,
        PATH,
        inspect=seen.inspect,
        inspected=lambda done, whole: told.append((done, whole)),
    )
    return found, seen, told


def test_each_append_is_shown_once_also_where_logs_were_reclaimed_and_segments_merged() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await busy(disk, clean=False)
        found, seen, told = looked_at(disk)
        assert (found.damages, found.unread_bytes) == ([], 0)
        async with running(disk, LIMITS) as store:
            for segment in (KEPT, SEGMENT):
                info = store.info(segment)
                assert info is not None
                pieces = seen.segments.pop(segment)
                assert min(pieces) == info.start
                whole = b"".join(pieces[offset] for offset in sorted(pieces))
                assert whole == store.read(segment, info.start, info.length)
        assert seen.segments == {}
        assert told[-1][0] == told[-1][1]

    run(main())


def test_a_damaged_append_is_missing_and_its_bytes_are_counted() -> None:
    async def main() -> None:
        disk, batches = MemoryDisk(), [b"%d" % number * 100 for number in range(10)]
        await filled(disk, batches, clean=True)
        disk.flip_bit(FIRST_FILE, disk.content(FIRST_FILE).index(batches[4]) + 50)
        found, seen, _ = looked_at(disk)
        assert len(found.damages) == 1
        assert found.unread_bytes == len(batches[4])
        others = {100 * at: batch for at, batch in enumerate(batches) if at != 4}
        assert seen.segments == {SEGMENT: others}

    run(main())


def test_of_a_store_in_use_what_it_held_at_the_beginning_is_shown() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            await submit(store, b"first", 1)
            found, seen, _ = looked_at(disk)
            assert (found.held, found.damages, found.unread_bytes) == (True, [], 0)
            assert seen.segments == {SEGMENT: {0: b"first"}}
            await submit(store, b"second", 2)

    run(main())


def test_of_a_store_whose_log_can_not_be_followed_nothing_is_shown() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await busy(disk, clean=True)
        for path in [path for path in disk.paths() if "index" in path]:
            disk.remove(path)
        found, seen, _ = looked_at(disk)
        assert found.damages
        assert seen.segments == {}

    run(main())
