"""Batches are read from header to header, without their records (rules R4, R5)."""

from collections.abc import Sequence
from random import Random
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import StorageError
from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import frame_event, frame_events
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.reader.segment import SegmentReader
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world


def header(records: Sequence[bytes], **changes: object) -> bytes:
    size = sum(8 + len(record) for record in records)
    fields = {
        "kind": "foreign",
        "source": str(UUID(int=1)),
        "records": len(records),
        "events": len(records),
        "size": size,
    }
    return BatchHeader(**(fields | {"received": 1, "store": "s"} | changes)).encode()  # type: ignore[arg-type]


def batch(records: Sequence[bytes], **changes: object) -> bytes:
    return frame_event(header(records, **changes)) + frame_events(records)


async def stored(made: World, *batches: bytes) -> list[int]:
    """Append *batches*; returns where each begins, and the end."""
    await made.store.create(S)
    places = [0]
    for number, data in enumerate(batches, 1):
        places.append(
            await made.store.append(S, data, writer=W, expected=None, number=number, events=1)
        )
    return places


async def hops(made: World, start: int, end: int) -> list[BatchRef]:
    async with connect_segment_store(made.client, "server", made.port) as client:
        return [hop async for hop in SegmentReader(client, S).read_batch_refs(start, end)]


async def batches(made: World, start: int, end: int) -> list[tuple[BatchRef, bytes]]:
    async with connect_segment_store(made.client, "server", made.port) as client:
        return [found async for found in SegmentReader(client, S).read_batches(start, end)]


SIZES = st.lists(st.lists(st.sampled_from([0, 3, 700, 40_000, 300_000]), max_size=3), max_size=12)


@given(SIZES, st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_hops_and_batches_find_what_was_appended(sizes: list[list[int]], seed: int) -> None:
    """Rule R4: `bytes` leads from header to header, whatever the batches hold."""
    runs = [[b"r" * size for size in run] for run in sizes]

    async def main(made: World) -> None:
        places = await stored(made, *(batch(run) for run in runs))
        found = await hops(made, 0, places[-1])
        assert [hop.offset for hop in found] == places[:-1]
        assert [hop.next for hop in found] == places[1:]
        assert [hop.payload for hop in found] == [header(run) for run in runs]
        assert [records for _, records in await batches(made, 0, places[-1])] == [
            frame_events(run) for run in runs
        ]
        assert [hop for hop, _ in await batches(made, 0, places[-1])] == found

    in_world(main, random=Random(seed))()


@in_world
async def test_hopping_does_not_transfer_the_records(made: World) -> None:
    places = await stored(made, *(batch([b"r" * 300_000]) for _ in range(10)))
    async with connect_segment_store(made.client, "server", made.port) as client:
        transferred = 0
        read = client.read_segment

        async def counted(segment: str, offset: int, length: int):  # type: ignore[no-untyped-def]
            nonlocal transferred
            chunk = await read(segment, offset, length)
            transferred += len(chunk.data)
            return chunk

        client.read_segment = counted  # type: ignore[method-assign]
        assert (
            len([hop async for hop in SegmentReader(client, S).read_batch_refs(0, places[-1])])
            == 10
        )
    assert transferred <= 10 * 4096


@in_world
async def test_only_whole_batches_before_the_end_are_given(made: World) -> None:
    places = await stored(made, *(batch([b"r" * 100]) for _ in range(3)))
    for end in (places[-1] - 1, places[2] + 8, places[2] + 3, places[2]):
        assert [hop.next for hop in await hops(made, 0, end)] == places[1:3]
        assert [hop.next for hop, _ in await batches(made, 0, end)] == places[1:3]
    assert [hop.offset for hop in await hops(made, places[1], places[-1])] == places[1:3]


@in_world
async def test_a_record_that_looks_like_a_header_is_none(made: World) -> None:
    """Rule R5, history 10: a header is known by its place only."""
    fake = header([b"x" * 5000])
    places = await stored(made, batch([b"a", fake, b"b"]), batch([fake]))
    found = await hops(made, 0, places[-1])
    assert [hop.offset for hop in found] == places[:-1]
    assert [hop.header.records for hop in found if hop.header] == [3, 1]


@pytest.mark.parametrize(
    "odd",
    [
        b'{"message":"no header"}',
        b"",
        b'{"logdrive":{"v":2,"kind":"data"}}',
        header([], size=-5),
        header([], size=1 << 40),
        header([], kind="data"),
        header([], attributes=b'"' + b"x" * 40_000 + b'"'),
        header([], mark=msgspec.Raw(b'{"event":"e","start":0,"end":9,"bytes":9}')),
        header([], mark=msgspec.Raw(b'{"event":"e","start":5,"end":5,"bytes":9}')),
        header([b"x" * 9], mark=msgspec.Raw(b'{"event":"e","start":0,"end":9,"bytes":99000000}')),
        header([], mark=msgspec.Raw(b'{"other":1}')),
    ],
)
def test_what_is_no_header_at_a_headers_place_is_headless_and_stands_for_itself(odd: bytes) -> None:
    """Rule R5."""

    @in_world
    async def headless(made: World) -> None:
        places = await stored(made, batch([b"a"]), frame_event(odd), batch([b"b"]))
        found = await hops(made, 0, places[-1])
        assert [hop.offset for hop in found] == places[:-1]
        assert found[1].header is None
        assert found[1].payload == odd
        assert [(hop, records) for hop, records in await batches(made, 0, places[-1])][1] == (
            found[1],
            b"",
        )

    headless()


@in_world
async def test_a_segment_without_events_is_refused_in_words(made: World) -> None:
    places = await stored(made, b"these are not frame_event events at all")
    with pytest.raises(StorageError, match="was not written by logdrive"):
        await hops(made, 0, places[-1])


@in_world
async def test_a_reader_finds_the_last_header_that_a_restored_store_still_has(made: World) -> None:
    """Rule R5: offsets are checked by the CRC of the header last read; on a mismatch it goes back
    to the last one that matches.
    """
    places = await stored(made, *(batch([b"old %d" % n], received=n) for n in range(20)))
    marks = await hops(made, 0, places[-1])
    other = "restored"
    await made.store.create(other)
    data = made.store.read(S, 0, places[13])
    await made.store.append(
        other, data + batch([b"new"], received=99) * 9, writer=W, expected=None, number=1, events=1
    )
    info = made.store.info(other)
    assert info is not None
    async with connect_segment_store(made.client, "server", made.port) as client:
        assert await SegmentReader(client, S).count_known_headers(marks, 0, places[-1]) == 20
        assert await SegmentReader(client, other).count_known_headers(marks, 0, info.length) == 13
        assert await SegmentReader(client, other).count_known_headers([], 0, info.length) == 0
        assert await SegmentReader(client, S).count_known_headers(marks, 0, places[5]) == 5
