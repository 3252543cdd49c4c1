"""A bit flipped anywhere in a store is found by `verify`, and never served to a reader.

A start refuses the damage or repairs it. The store is small and has everything: appends,
attributes, a sealed, a truncated, a merged and a deleted segment, a table, reclaimed log files,
both indexes. Every byte is flipped once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from logdrive.errors import StorageError
from logdrive.services.pravega.server.tables.tables import Tables
from logdrive.store.engine import Store
from logdrive.store.errors import StoreDamagedError
from logdrive.store.limits import StoreLimits
from logdrive.store.verify.verify import verify
from logdrive.wire.pravega.tables import TableEntry, TableKey
from tests.logdrive.store.harness import (
    FIRST_FILE,
    OTHER,
    PATH,
    SEGMENT,
    WRITER,
    opened,
    running,
    submit,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

LIMITS = StoreLimits(log_file=700, copy=300)
KEPT, SEALED, TABLE = "kept", "sealed", "g/t_kvtable/0.#epoch.0"
KEYS = [b"one", b"two", b"three"]


@dataclass(frozen=True)
class Served:
    """Everything a store serves: each segment's start, attributes and bytes."""

    segments: dict[str, tuple[int, int, int, bytes]]
    table: list[bytes]


async def served(store: Store) -> Served:
    """Read all of it. Raises what a read raises."""
    found: dict[str, tuple[int, int, int, bytes]] = {}
    for name in store.segments():
        info = store.info(name)
        assert info is not None
        data = b""
        while info.start + len(data) < info.length:
            data += store.read(name, info.start + len(data), info.length)
        found[name] = (
            info.start,
            store.attribute(name, WRITER),
            store.attribute(name, OTHER),
            data,
        )
    table = await Tables(store).get_entries(TABLE, [TableKey(key) for key in KEYS])
    return Served(found, [entry.value for entry in table])


async def everything(*, clean: bool) -> tuple[MemoryDisk, Served]:
    """Return a disk with a store that has something of everything, and what it serves."""
    disk = MemoryDisk()
    async with running(disk, LIMITS, clean=clean) as store:
        tables = Tables(store)
        await tables.create_table(TABLE)
        for name in (KEPT, SEALED, SEGMENT, "gone"):
            await store.create(name)
        await submit(store, b"sealed", 1, segment=SEALED)
        await store.seal(SEALED)
        for number in range(1, 5):
            side = f"{KEPT}#transaction.{number:032x}"
            await store.create(side)
            await submit(store, b"side%d" % number, number, segment=side, writer=OTHER)
            await store.merge(KEPT, side)
            await tables.put_entries(
                TABLE, [TableEntry(TableKey(KEYS[number % 3]), b"value %d" % number)]
            )
            length = await submit(store, b"%d" % number * 100, number)
            if number % 2 == 0:
                await store.truncate(SEGMENT, length - 40)
                await store.update(SEGMENT, OTHER, None, number)
        await store.delete("gone")
        truth = await served(store)
    assert FIRST_FILE not in disk.paths()
    return disk, truth


def places(disk: MemoryDisk) -> Iterator[tuple[str, int]]:
    """Yield every byte of the store; the lock file is empty."""
    for path in disk.paths():
        for offset in range(disk.stat(path).size):
            yield path, offset


async def after_a_start(disk: MemoryDisk) -> Served | None:
    """Return what a started store serves; None if the start, or a read, reports damage."""
    try:
        store = await opened(disk, LIMITS)
    except StorageError:
        return None
    try:
        return await served(store)
    except StoreDamagedError:
        return None
    finally:
        await store.close()


def test_after_a_clean_stop_every_flipped_bit_is_found_and_none_is_served() -> None:
    async def main() -> None:
        whole, truth = await everything(clean=True)
        assert await after_a_start(whole.killed()) == truth
        for path, offset in places(whole):
            disk = whole.killed()
            disk.flip_bit(path, offset, offset % 8)
            found = verify(disk, PATH)
            assert found.damages, (path, offset)
            assert found.damages[0].file == path, (path, offset, found.damages)
            assert await after_a_start(disk) in (None, truth), (path, offset)

    run(main())


def test_after_a_crash_a_flipped_bit_costs_at_most_the_group_written_last() -> None:
    """Damage there can't be distinguished from a torn write, and nothing of it is served."""

    async def main() -> None:
        whole, truth = await everything(clean=False)
        last = max(path for path in whole.paths() if "/log-" in path)
        for offset in range(whole.stat(last).size):
            disk = whole.killed()
            disk.flip_bit(last, offset, offset % 8)
            found, served_now = verify(disk, PATH), await after_a_start(disk)
            if found.damages or served_now is None:
                assert served_now in (None, truth), offset
                assert found.damages, offset
            else:
                assert found.torn_bytes > 0, offset
                assert served_now.segments.keys() == truth.segments.keys() | {"gone"}, (
                    "the deletion, which came last, is what is lost"
                )

    run(main())


def test_a_bit_that_flips_while_a_store_runs_is_never_served() -> None:
    async def main() -> None:
        disk, truth = await everything(clean=True)
        async with running(disk, LIMITS, clean=False) as store:
            refused = 0
            for path, offset in places(disk):
                if "/log-" not in path:
                    continue
                disk.flip_bit(path, offset, offset % 8)
                try:
                    assert await served(store) == truth, (path, offset)
                except StoreDamagedError:
                    refused += 1
                disk.flip_bit(path, offset, offset % 8)
            assert refused > 500
            assert await served(store) == truth

    run(main())
