"""Tables with many clients: conditions are compared with the newest state, memory is limited."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from logdrive.errors import TransientError
from logdrive.services.pravega.server.tables.cache import TableCache
from logdrive.services.pravega.server.tables.errors import (
    KeyVersionError,
    NoEntryError,
    NotATableError,
)
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.services.pravega.server.tables.tables import Tables
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.pravega.tables import NOT_THERE, TableEntry, TableKey
from tests.logdrive.store.harness import WRITER, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

T = "g/t_kvtable/0.#epoch.0"
KEY = TableKey(b"count")


def in_store(test: Callable[[Store, MemoryDisk], Awaitable[None]]) -> Callable[[], None]:
    """Return *test* as a test that runs in virtual time, with a store whose syncs take 10 ms."""

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(log_file=100_000), delay=0.01) as store:
            await test(store, disk)

    def plain() -> None:
        run(main())

    plain.__name__, plain.__doc__ = test.__name__, test.__doc__
    return plain


async def add_one(tables: Tables) -> bool:
    """Raise the count by compare-and-set, as synchronizers do; return False where that failed."""
    while True:
        try:
            (found,) = await tables.get_entries(T, [KEY])
            count = int(found.value or b"0")
            await tables.put_entries(
                T, [TableEntry(TableKey(KEY.key, found.key.version), b"%d" % (count + 1))]
            )
        except KeyVersionError:
            continue
        except TransientError:
            return False
        return True


@pytest.mark.parametrize("seed", range(10))
def test_compare_and_set_counts_every_change_once_whatever_happens_meanwhile(
    seed: int,
) -> None:
    @in_store
    async def counted(store: Store, disk: MemoryDisk) -> None:
        random = Random(seed)
        limits = TableLimits(compact_from=300, page=100)
        hands = [Tables(store, limits), Tables(store, limits)]
        await hands[0].create_table(T)
        done = [0, 0]

        async def client(tables: Tables) -> None:
            for _ in range(12):
                await asyncio.sleep(random.random() / 20)
                if random.random() < 0.1:
                    disk.fail_write(errno.ENOSPC, after=random.choice((0, 50, 150)))
                done[await add_one(tables)] += 1
                if random.random() < 0.3:
                    await tables.compact_table(T)

        async with asyncio.TaskGroup() as clients:
            for number in range(6):
                clients.create_task(client(hands[number % 2]))
        for tables in (*hands, Tables(store, limits)):
            (found,) = await tables.get_entries(T, [KEY])
            assert int(found.value) == done[True]
        assert done[True] + done[False] == 72

    counted()


@in_store
async def test_what_another_client_appended_is_seen_by_reads_and_deltas(
    store: Store, disk: MemoryDisk
) -> None:
    one, other = Tables(store), Tables(store)
    await one.create_table(T)
    await one.put_entries(T, [TableEntry(TableKey(b"a"), b"1")])
    assert [
        entry.value for entry in await other.get_entries(T, [TableKey(b"a"), TableKey(b"b")])
    ] == [
        b"1",
        b"",
    ]
    await other.put_entries(T, [TableEntry(TableKey(b"b"), b"2")])
    assert [entry.value for entry in await one.list_entries(T, b"", b"", b"", 9)] == [b"1", b"2"]
    assert [entry.value for entry in (await one.read_delta(T, 0, 9)).entries] == [b"1", b"2"]


@in_store
async def test_garbage_in_a_table_is_reported_and_nothing_is_appended_after_it(
    store: Store, disk: MemoryDisk
) -> None:
    tables = Tables(store)
    await tables.create_table(T)
    await tables.put_entries(T, [TableEntry(TableKey(b"a"), b"1")])
    await store.append(T, b"no entry of a table", writer=WRITER, expected=None, number=1, events=1)
    length = store.info(T).length  # type: ignore[union-attr]
    with pytest.raises(NoEntryError):
        await tables.put_entries(T, [TableEntry(TableKey(b"b"), b"2")])
    assert store.info(T).length == length  # type: ignore[union-attr]


@in_store
async def test_the_keys_of_a_table_are_limited(store: Store, disk: MemoryDisk) -> None:
    tables = Tables(store, TableLimits(keys=3))
    await tables.create_table(T)
    await tables.put_entries(T, [TableEntry(TableKey(b"%d" % number), b"") for number in range(3)])
    with pytest.raises(ValueError, match="up to 3 keys"):
        await tables.put_entries(
            T, [TableEntry(TableKey(b"1"), b"new"), TableEntry(TableKey(b"4"), b"")]
        )
    await tables.put_entries(T, [TableEntry(TableKey(b"1"), b"new")])
    await tables.remove_keys(T, [TableKey(b"2")])
    await tables.put_entries(T, [TableEntry(TableKey(b"4"), b"")])
    assert (await tables.table_info(T)).keys == 3


@in_store
async def test_the_least_recently_used_indexes_are_dropped_and_loaded_again(
    store: Store, disk: MemoryDisk
) -> None:
    limits = TableLimits(keys=5)
    tables, kept = Tables(store, limits), TableCache(store, limits)
    for name in ("a", "b", "c"):
        await tables.create_table(name)
        await tables.put_entries(
            name, [TableEntry(TableKey(b"%d" % number), name.encode()) for number in range(2)]
        )
    first = await kept.get_table("a")
    await kept.get_table("b")
    assert await kept.get_table("a") is first
    await kept.get_table("c")
    assert await kept.get_table("a") is first  # b had to go
    assert len(await kept.get_table("b")) == 2


def test_other_tasks_run_while_many_values_are_read_and_moved() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            tables, turns = Tables(store, TableLimits(compact_from=1000)), 0
            await tables.create_table(T)
            keys = [TableKey(b"%04d" % number) for number in range(1000)]
            for turn in range(5):
                await asyncio.gather(
                    *(tables.put_entries(T, [TableEntry(key, b"%d" % turn)]) for key in keys)
                )

            async def others() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            going_on = asyncio.create_task(others())
            assert tables.is_compaction_due(T)
            for work in (
                tables.get_entries(T, keys),
                tables.list_entries(T, b"", b"", b"", 1000),
                tables.compact_table(T),
            ):
                before = turns
                found = await work
                assert turns - before >= len(keys) // 100
                assert found is None or {entry.value for entry in found} == {b"4"}
            going_on.cancel()
            assert not tables.is_compaction_due(T)
            assert {entry.value for entry in await tables.get_entries(T, keys)} == {b"4"}

    run(main())


@pytest.mark.parametrize("many", [1, 300])
def test_values_of_a_deleted_table_are_not_read_from_its_successor(many: int) -> None:
    @in_store
    async def told(store: Store, disk: MemoryDisk) -> None:
        tables = Tables(store)
        await tables.create_table(T)
        keys = [TableKey(b"%04d" % number) for number in range(many)]
        await tables.put_entries(T, [TableEntry(key, b"old") for key in keys])
        await tables.get_entries(T, keys)
        await store.delete(T)  # behind its back
        await Tables(store).create_table(T)
        await Tables(store).put_entries(
            T, [TableEntry(TableKey(b"%04d" % (number + 7)), b"new") for number in range(many)]
        )
        assert {entry.value for entry in await tables.get_entries(T, keys)} <= {b"new", b""}

    told()


@in_store
async def test_a_segment_with_data_is_not_a_table_and_does_not_become_one(
    store: Store, disk: MemoryDisk
) -> None:
    tables = Tables(store)
    await store.create("plain")
    await store.append("plain", b"x", writer=WRITER, expected=None, number=1, events=1)
    with pytest.raises(NotATableError):
        await tables.table_info("plain")
    assert not await tables.create_table("plain")


@in_store
async def test_a_table_survives_its_process(store: Store, disk: MemoryDisk) -> None:
    tables = Tables(store)
    await tables.create_table(T, 2)
    (version,) = await tables.put_entries(T, [TableEntry(TableKey(b"ab", NOT_THERE), b"1")])
    async with running(disk.killed()) as next_life:
        found = Tables(next_life)
        assert await found.get_entries(T, [TableKey(b"ab")]) == [
            TableEntry(TableKey(b"ab", version), b"1")
        ]
        assert (await found.table_info(T)).key_length == 2
