"""Iterators over tables, and deltas of their logs (specification, section 5)."""

from logdrive.wire.pravega.tables import (
    GetTableSegmentInfo,
    ReadTableEntries,
    ReadTableEntriesDelta,
    ReadTableKeys,
    TableEntriesDeltaRead,
    TableEntriesRead,
    TableEntriesUpdated,
    TableEntry,
    TableKey,
    TableKeysRead,
    TableSegmentInfo,
)
from tests.support.pravega.peer import World, in_world
from tests.support.pravega.tables import T, content, entry, put, remove, table, versions


@in_world
async def test_iterators_return_all_keys_in_pages_and_end_with_an_empty_one(
    made: World,
) -> None:
    peer = await table(made)
    keys = [b"%03d" % number for number in range(25)]
    written = dict(
        zip(keys, await versions(peer, *(entry(key, key * 2) for key in keys)), strict=True)
    )
    token, found, pages = b"", list[TableEntry](), 0
    while True:
        answer = await peer.ask(ReadTableEntries(9, T, "", 10, token))
        assert isinstance(answer, TableEntriesRead)
        token = answer.continuation_token
        if not answer.entries:
            break
        found += answer.entries
        pages += 1
    assert found == [entry(key, key * 2, written[key]) for key in keys]
    assert pages == 3
    assert await peer.ask(ReadTableKeys(9, T, "", 2)) == TableKeysRead(
        9, T, tuple(TableKey(k, written[k]) for k in keys[:2]), keys[1]
    )
    answer = await peer.ask(ReadTableKeys(9, T, "", 99, b"", b"", b"007", b"009"))
    assert isinstance(answer, TableKeysRead)
    assert [key.key for key in answer.keys] == keys[7:10]


@in_world
async def test_an_iterator_misses_and_repeats_no_key_that_exists_all_along(made: World) -> None:
    peer = await table(made)
    await versions(peer, *(entry(b"%d" % number, b"") for number in range(1, 9)))
    token, found = b"", list[bytes]()
    for change in (
        remove(TableKey(b"1"), TableKey(b"4")),
        remove(TableKey(b"8")),
        put(entry(b"0", b""), entry(b"5", b"new")),
        put(),
    ):
        answer = await peer.ask(ReadTableKeys(9, T, "", 3, token))
        assert isinstance(answer, TableKeysRead)
        found += [key.key for key in answer.keys]
        token = answer.continuation_token
        await peer.ask(change)
    assert found == [b"1", b"2", b"3", b"5", b"6", b"7"]


@in_world
async def test_a_page_has_two_mebibytes_or_one_entry_more(made: World) -> None:
    peer = await table(made)
    for number in range(4):
        await versions(peer, entry(b"%d" % number, bytes(900_000)))
    answer = await peer.ask(ReadTableEntries(9, T, "", 100))
    assert isinstance(answer, TableEntriesRead)
    assert [found.key.key for found in answer.entries] == [b"0", b"1", b"2"]


@in_world
async def test_a_delta_has_the_newest_value_of_each_key_and_the_next_position(made: World) -> None:
    peer = await table(made)
    assert await peer.ask(ReadTableEntriesDelta(5, T, "", 0, 9)) == TableEntriesDeltaRead(
        5, T, (), False, True, 0
    )
    one, two, three = [
        (await versions(peer, entry(key, value)))[0]
        for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    ]
    await peer.ask(remove(TableKey(b"b")))
    end = three + 19 + 18
    first = TableEntriesDeltaRead(
        5, T, (entry(b"a", b"1", one), entry(b"b", b"2", two)), False, False, three
    )
    assert await peer.ask(ReadTableEntriesDelta(5, T, "", 0, 2)) == first
    assert await peer.ask(ReadTableEntriesDelta(5, T, "", three, 9)) == TableEntriesDeltaRead(
        5, T, (entry(b"a", b"3", three),), False, True, end
    )
    assert await peer.ask(ReadTableEntriesDelta(5, T, "", end, 9)) == TableEntriesDeltaRead(
        5, T, (), False, True, end
    )


@in_world
async def test_a_mostly_dead_log_is_compacted_and_older_positions_must_start_anew(
    made: World,
) -> None:
    peer = await table(made)
    (kept,) = await versions(peer, entry(b"kept", b"k"))
    for number in range(30):
        (newest,) = await versions(peer, entry(b"a", bytes([number]) * 100_000))
    info = await peer.ask(GetTableSegmentInfo(4, T))
    assert isinstance(info, TableSegmentInfo)
    assert info.length - info.start_offset < 1_500_000
    assert info.start_offset > 0
    assert await content(peer) == {b"a": bytes([29]) * 100_000, b"kept": b"k"}
    delta = await peer.ask(ReadTableEntriesDelta(5, T, "", 0, 100))
    assert isinstance(delta, TableEntriesDeltaRead)
    assert (delta.should_clear, delta.reached_end, delta.last_position) == (True, True, info.length)
    assert {found.key for found in delta.entries} == {
        TableKey(b"kept", kept),
        TableKey(b"a", newest),
    }
    assert await peer.ask(put(entry(b"kept", b"K", kept))) == TableEntriesUpdated(7, (info.length,))
