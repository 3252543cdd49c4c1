"""Answers to changes of tables, and to reads of keys (specification, sections 5 and 0)."""

import asyncio
from typing import Any

import pytest

from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.wire.pravega.attributes import TABLE
from logdrive.wire.pravega.control import (
    ErrorMessage,
    KeepAlive,
    NoSuchSegment,
    OperationUnsupported,
    SegmentAlreadyExists,
    SegmentIsSealed,
    SegmentIsTruncated,
    TableKeyBadVersion,
    TableKeyDoesNotExist,
    TableSegmentNotEmpty,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    NO_VALUE,
    CreateSegment,
    DeleteSegment,
    MergeSegmentsBatch,
    SegmentDeleted,
    UpdateSegmentAttribute,
)
from logdrive.wire.pravega.tables import (
    NOT_THERE,
    CreateTableSegment,
    DeleteTableSegment,
    GetTableSegmentInfo,
    ReadTable,
    ReadTableEntriesDelta,
    ReadTableKeys,
    TableEntriesUpdated,
    TableKey,
    TableKeysRemoved,
    TableRead,
    TableSegmentInfo,
)
from tests.support.pravega.peer import World, in_world
from tests.support.pravega.tables import T, content, entry, put, remove, table, versions


@in_world
async def test_a_table_is_created_once(made: World) -> None:
    peer = await table(made)
    assert await peer.ask(CreateTableSegment(2, T)) == SegmentAlreadyExists(2, T)
    answer = await peer.ask(CreateTableSegment(3, "other", "", False, 257))
    assert isinstance(answer, ErrorMessage)
    assert await peer.ask(GetTableSegmentInfo(4, T)) == TableSegmentInfo(4, T, 0, 0, 0, 0)
    assert await peer.ask(GetTableSegmentInfo(5, "none")) == NoSuchSegment(5, "none", "", -1)


@in_world
async def test_a_creation_that_a_crash_cut_in_half_is_completed_by_the_next(made: World) -> None:
    await made.store.create(T)
    peer = await table(made)
    assert await peer.ask(GetTableSegmentInfo(4, T)) == TableSegmentInfo(4, T, 0, 0, 0, 0)


@in_world
async def test_keys_are_answered_in_the_order_of_the_request_and_missing_ones_marked(
    made: World,
) -> None:
    peer = await table(made)
    one, two = await versions(peer, entry(b"a", b"1"), entry(b"b", b""))
    assert 0 <= one < two
    asked = (TableKey(b"b"), TableKey(b"none"), TableKey(b"a"))
    expected = (entry(b"b", b"", two), entry(b"none", b"", NOT_THERE), entry(b"a", b"1", one))
    assert await peer.ask(ReadTable(2, T, "", asked)) == TableRead(2, T, expected)
    (newer,) = await versions(peer, entry(b"a", b"one"))
    assert newer > two
    assert await peer.ask(ReadTable(3, T, "", (TableKey(b"a"),))) == TableRead(
        3, T, (entry(b"a", b"one", newer),)
    )


@in_world
async def test_versions_are_compared_and_a_batch_is_all_or_nothing(made: World) -> None:
    peer = await table(made)
    (one,) = await versions(peer, entry(b"a", b"1", NOT_THERE))
    for wrong in (NOT_THERE, one + 1):
        assert await peer.ask(
            put(entry(b"b", b"2"), entry(b"a", b"3", wrong))
        ) == TableKeyBadVersion(7, T, "")
        assert await peer.ask(remove(TableKey(b"a", wrong))) == TableKeyBadVersion(8, T, "")
    assert await peer.ask(put(entry(b"b", b"2"), entry(b"c", b"3", 5))) == TableKeyDoesNotExist(
        7, T, ""
    )
    assert await peer.ask(remove(TableKey(b"a"), TableKey(b"c", 5))) == TableKeyDoesNotExist(
        8, T, ""
    )
    assert await content(peer) == {b"a": b"1"}
    (two,) = await versions(peer, entry(b"a", b"2", one))
    assert await peer.ask(remove(TableKey(b"a", two))) == TableKeysRemoved(8, T)
    assert await content(peer) == {}


@in_world
async def test_removing_a_missing_key_succeeds_and_writes_nothing(made: World) -> None:
    peer = await table(made)
    assert await peer.ask(remove(TableKey(b"a"), TableKey(b"b", NOT_THERE))) == TableKeysRemoved(
        8, T
    )
    assert await peer.ask(GetTableSegmentInfo(4, T)) == TableSegmentInfo(4, T, 0, 0, 0, 0)


@in_world
async def test_a_change_may_depend_on_where_the_log_ends(made: World) -> None:
    peer = await table(made)
    assert isinstance(await peer.ask(put(entry(b"a", b"1"), at=0)), TableEntriesUpdated)
    length = 17 + 2
    assert await peer.ask(put(entry(b"a", b"2"), at=0)) == SegmentIsTruncated(7, T, length, "", 0)
    assert await peer.ask(remove(TableKey(b"a"), at=5)) == SegmentIsTruncated(8, T, length, "", 5)
    assert await peer.ask(remove(TableKey(b"a"), at=length)) == TableKeysRemoved(8, T)


MOST = TableLimits()


@pytest.mark.parametrize(
    "request_",
    [
        put(entry(b"", b"x")),
        put(entry(b"a", b"x"), entry(b"k" * (MOST.key + 1), b"")),
        put(entry(b"k", bytes(MOST.entry - 17))),
        remove(TableKey(b"")),
        ReadTable(7, T, "", tuple([TableKey(b"big")] * 9)),
        ReadTableEntriesDelta(7, T, "", 1, 10),
        ReadTableEntriesDelta(7, T, "", 1 << 30, 10),
        ReadTableEntriesDelta(7, T, "", -1, 10),
    ],
)
def test_requests_beyond_the_limits_are_refused_with_a_message_and_change_nothing(
    request_: Any,
) -> None:
    """Section 0, numbers 10 and 12; an empty key hangs a real Pravega."""

    @in_world
    async def refused(made: World) -> None:
        peer = await table(made)
        await versions(peer, entry(b"big", bytes(MOST.entry - 20)))
        answer = await peer.ask(request_)
        assert isinstance(answer, ErrorMessage)
        assert answer.request_id == request_.request_id
        assert list(await content(peer)) == [b"big"]

    refused()


@in_world
async def test_the_largest_key_and_value_are_accepted(made: World) -> None:
    peer = await table(made)
    key, value = b"k" * MOST.key, bytes(MOST.entry - 17 - MOST.key)
    await versions(peer, entry(key, value))
    assert await content(peer) == {key: value}


@in_world
async def test_keys_of_a_fixed_length_are_checked_and_have_no_delta(made: World) -> None:
    peer = await table(made, 4)
    assert await peer.ask(GetTableSegmentInfo(4, T)) == TableSegmentInfo(4, T, 0, 0, 0, 4)
    assert isinstance(await peer.ask(put(entry(b"abc", b""))), ErrorMessage)
    await versions(peer, entry(b"abcd", b"1"))
    assert await content(peer) == {b"abcd": b"1"}
    assert await peer.ask(ReadTableEntriesDelta(5, T, "", 0, 9)) == OperationUnsupported(
        5, "ReadTableEntriesDelta"
    )
    assert await peer.ask(DeleteTableSegment(6, T, True)) == OperationUnsupported(
        6, "DeleteTableSegment"
    )
    assert await peer.ask(DeleteTableSegment(7, T, False)) == SegmentDeleted(7, T)


@in_world
async def test_a_table_is_deleted_and_its_name_is_free_for_an_empty_one(made: World) -> None:
    peer = await table(made)
    await versions(peer, entry(b"a", b"1"))
    assert await peer.ask(DeleteTableSegment(2, T, True)) == TableSegmentNotEmpty(2, T, "")
    assert await peer.ask(DeleteTableSegment(3, T, False)) == SegmentDeleted(3, T)
    assert await peer.ask(DeleteTableSegment(4, T, False)) == NoSuchSegment(4, T, "", -1)
    await table(made)
    assert await content(peer) == {}
    assert await peer.ask(DeleteTableSegment(5, T, True)) == SegmentDeleted(5, T)


@pytest.mark.parametrize("delete", [DeleteSegment(3, T), None])
def test_a_table_that_was_deleted_as_a_segment_is_read_as_a_new_one(delete: Message | None) -> None:
    @in_world
    async def seen(made: World) -> None:
        peer = await table(made)
        await versions(peer, entry(b"a", b"1"))
        await (peer.ask(delete) if delete is not None else made.store.delete(T))
        assert await peer.ask(ReadTable(2, T, "", ())) == NoSuchSegment(2, T, "", -1)
        await table(made)
        await versions(peer, entry(b"b", b"2"))
        assert await content(peer) == {b"b": b"2"}

    seen()


@in_world
async def test_table_requests_for_a_plain_segment_are_refused_with_a_message(made: World) -> None:
    peer = await made.peer()
    await peer.ask(CreateSegment(1, T))
    assert isinstance(await peer.ask(put(entry(b"a", b"1"))), ErrorMessage)
    assert isinstance(await peer.ask(ReadTableKeys(2, T, "", 9)), ErrorMessage)
    assert await peer.ask(KeepAlive()) == KeepAlive()


@in_world
async def test_a_sealed_table_is_read_and_not_changed(made: World) -> None:
    peer = await table(made)
    await versions(peer, entry(b"a", b"1"))
    await made.store.seal(T)
    assert await peer.ask(put(entry(b"a", b"2"))) == SegmentIsSealed(7, T, "", -1)
    assert await content(peer) == {b"a": b"1"}


@pytest.mark.parametrize("kind", [-1, 0, 258, 1 << 60])
def test_an_invalid_segment_type_makes_no_table(kind: int) -> None:
    @in_world
    async def none(made: World) -> None:
        peer = await made.peer()
        await peer.ask(CreateSegment(1, T))
        await peer.ask(UpdateSegmentAttribute(2, T, TABLE, kind, NO_VALUE))
        assert isinstance(await peer.ask(GetTableSegmentInfo(3, T)), ErrorMessage)

    none()


@in_world
async def test_the_change_that_makes_compaction_due_does_not_wait_for_it(
    made: World,
) -> None:
    peer = await table(made)
    keys = [b"%d" % number for number in range(50)]
    for _ in range(4):
        for key in keys:
            await versions(peer, entry(key, bytes(60_000)))
    assert await peer.ask(KeepAlive()) == KeepAlive()
    before = made.store.info(T)
    assert before is not None
    assert before.start == 0, "it is not shortened yet"
    peer.stream.abort()
    await asyncio.sleep(100)
    after = made.store.info(T)
    assert after is not None
    assert after.start > 0, "though who changed it is gone"
    assert (await content(await made.peer())).keys() <= set(keys)


@in_world
async def test_an_answer_longer_than_a_frame_ends_only_its_connection(
    made: World,
) -> None:
    peer, other = await made.peer(), await made.peer()
    await other.ask(CreateSegment(1, "t"))
    await peer.say(MergeSegmentsBatch(1, "t", ("x" * 250,) * 65_536))
    assert await peer.rest() == []
    assert await other.ask(KeepAlive()) == KeepAlive()
    assert made.network.failures == []
