"""`store verify --deep` opens each pack of a store, whatever lies around it (R8)."""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from uuid import UUID

import pytest

from logdrive.model.framing import Part, frame_event, split_events
from logdrive.services.numbering.heads import RECORD, encode_payload
from logdrive.services.s2.batches import PendingBatch
from logdrive.services.s2.server.log.payload import encode_fields
from logdrive.services.stored_packs import StoredPacks
from logdrive.wire.iggy.messages.envelope import StoredMessage, encode_event
from logdrive.wire.s2.records import Record, metered_size
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.segments import text_block as block
from tests.logdrive.services.iggy.reader.memory_topic import as_sent
from tests.logdrive.services.pack_batches import (
    cut_text_batch,
    lying_batch,
    records_batch,
    source_id,
    text_batch,
)

NAME = "logs/app/0.#epoch.0"
GOOD = [
    text_batch("a", 0, b"one\n"),
    cut_text_batch("a", 4, b"two\n", [4, -7]),
    records_batch("b", 0, 9, [b"{}", b"{}"]),
]


def looked_at(appends: Sequence[Part], start: int = 0, missing: Sequence[int] = ()) -> StoredPacks:
    """Return what is found in *appends*, of which those with the numbers *missing* are missing."""

    def placed() -> Iterator[tuple[int, Part]]:
        offset = start
        for number, append in enumerate(appends):
            if number not in missing:
                yield offset, append
            offset += len(append)

    packs = StoredPacks()
    packs.inspect_segment(NAME, placed())
    return packs


def counts(found: StoredPacks) -> tuple[int, int]:
    return found.opened, found.faulty


def test_packs_between_other_batches_are_opened() -> None:
    segment, data = Segment(), lines("c", 0, 5)
    segment.data_batch("c", 0, len(data), [block(data, 0)], 5)
    segment.foreign("f", [b'{"message":"x"}'])
    segment.gap("c", len(data), len(data) + 1, "removed")
    segment.stray(b"a record of another program")
    assert counts(looked_at([bytes(segment.data), *GOOD, bytes(segment.data), *GOOD])) == (6, 0)


def test_a_lie_is_named_and_what_follows_is_opened() -> None:
    found = looked_at([*GOOD, lying_batch("bad", 10, 60), *GOOD], start=1000)
    assert counts(found) == (7, 1)
    (fault,) = found.faults
    place = 1000 + sum(map(len, GOOD))
    assert fault[:5] == (NAME, place, source_id("bad"), 10, 60)


def test_one_source_s_many_lies_do_not_hide_those_of_others() -> None:
    lies = [lying_batch("bad", 10 * n, 10 * n + 10) for n in range(2000)]
    found = looked_at([*lies, lying_batch("other", 10, 60), *lies])
    assert counts(found) == (4001, 4001)
    named = [fault.source for fault in found.faults]
    assert 1 < named.count(source_id("bad")) < 101
    assert named.count(source_id("other")) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"events": 3}, "events"),
        ({"position": 9}, "bytes"),
        ({"form": "records"}, "records"),
        ({"previous": 1}, "bytes"),
        ({"skipped": 1}, "left out"),
    ],
)
def test_a_header_that_contradicts_its_pack_is_a_lie(
    changes: dict[str, object], reason: str
) -> None:
    found = looked_at([text_batch("a", 0, b"one\ntwo\n", changes=changes)])
    assert counts(found) == (1, 1)
    assert reason in found.faults[0].reason


def test_after_appends_that_can_not_be_read_the_others_are_opened() -> None:
    appends = [*GOOD, *GOOD, *GOOD]
    for number in range(len(appends)):
        assert counts(looked_at(appends, missing=[number])) == (8, 0)


def test_appends_may_be_cut_anywhere() -> None:
    whole = b"".join([*GOOD, lying_batch("bad", 0, 50), *GOOD])
    for size in (1, 7, 100, 1000):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert counts(looked_at(pieces)) == (7, 1)


def test_segments_of_other_programs_are_passed_over() -> None:
    for data in (b"\xff" * 5000, b"plain text\n" * 500, bytes(5000), b""):
        assert counts(looked_at([data] * 300)) == (0, 0)


def test_the_headers_of_a_topic_of_iggy_are_in_envelopes() -> None:
    segment = Segment()
    segment.data += b"".join([*GOOD, lying_batch("bad", 0, 50), *GOOD])
    messages = as_sent(segment)
    found = looked_at([encode_event(message) for message in messages])
    assert counts(found) == (7, 1)
    assert found.faults[0].source == source_id("bad")
    # a pack was lost, or its header
    for lost in (0, 1, 2, 3):
        left = [message for at, message in enumerate(messages) if at != lost]
        assert counts(looked_at([encode_event(message) for message in left])) == (6, 1)


@pytest.mark.parametrize("clock_went_back", [False, True])
def test_the_headers_that_came_over_s2_are_in_envelopes(clock_went_back: bool) -> None:
    """Also the packs are, where the clock went back."""

    def stored(record: Record) -> bytes:
        if not record.headers and not clock_went_back:
            return record.body
        fields = encode_fields(record.headers, record.body)
        return encode_payload(RECORD, 1, metered_size(record), fields)

    async def records() -> list[Record]:
        batches = [*GOOD, lying_batch("bad", 0, 50), *GOOD]
        pending = [PendingBatch([batch], UUID(int=1), 1, Random(1)) for batch in batches]
        return [record for one in pending for record in one.records]

    appends = [frame_event(stored(record)) for record in asyncio.run(records())]
    assert counts(looked_at(appends)) == (7, 1)


def test_an_envelope_of_another_client_hides_no_pack_behind_it() -> None:
    foreign = encode_event(StoredMessage(b"{}", headers=b"\0" * 10))
    stored = list(split_events(GOOD[0]))
    assert counts(looked_at([foreign, *map(frame_event, stored)])) == (1, 0)


def test_faults_are_counted_and_only_the_first_are_kept() -> None:
    found = looked_at([lying_batch(f"bad {n}", 0, 50) for n in range(1200)])
    assert (found.opened, found.faulty, len(found.faults)) == (1200, 1200, 1000)
