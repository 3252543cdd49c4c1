"""Rule R6: which bytes a piece has, which marks are pieces, and which pieces form an event."""

from typing import Any
from uuid import UUID

import msgspec
import orjson
import pytest

from logdrive.model.batch import BatchHeader
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import EVENT_BYTES, PIECES_WITHIN, RECORD_BYTES
from logdrive.model.pieces import UnfinishedEvents, piece_in_header, piece_ranges, pieces_within


@pytest.mark.parametrize("size", [1, RECORD_BYTES, RECORD_BYTES + 1, 3 * RECORD_BYTES, EVENT_BYTES])
def test_pieces_fill_their_event_and_none_is_over_the_limit_of_a_record(size: int) -> None:
    found = list(piece_ranges(size))
    assert [start for start, _ in found[1:]] == [end for _, end in found[:-1]]
    assert (found[0][0], found[-1][1]) == (0, size)
    assert max(end - start for start, end in found) <= RECORD_BYTES


def header(mark: Any, size: int, records: int = 1) -> BatchHeader:
    source, raw = str(UUID(int=1)), msgspec.Raw(orjson.dumps(mark))
    return BatchHeader(
        kind="foreign",
        source=source,
        records=records,
        events=0,
        size=size,
        received=1,
        store="s",
        mark=raw,
    )


PIECE = {"event": "e", "start": 3, "end": 5, "bytes": 9}


def test_a_mark_says_what_a_piece_is_and_whether_it_is_the_last() -> None:
    piece = piece_in_header(header(PIECE, EVENT_HEAD + 2))
    assert piece is not None
    assert (piece.event, piece.start, piece.end, piece.bytes, piece.last) == ("e", 3, 5, 9, False)
    last = piece_in_header(header(PIECE | {"end": 9}, EVENT_HEAD + 6))
    assert last is not None
    assert last.last
    assert piece_in_header(header(None, 99)) is None
    assert piece_in_header(header({"reason": "dead_letter", "end": 9, "letter": "x"}, 0, 0)) is None


@pytest.mark.parametrize(
    ("mark", "size"),
    [
        (PIECE, EVENT_HEAD + 3),
        (PIECE | {"start": 5}, EVENT_HEAD),
        (PIECE | {"start": -1}, EVENT_HEAD + 6),
        (PIECE | {"end": 10}, EVENT_HEAD + 7),
        (PIECE | {"bytes": EVENT_BYTES + 1}, EVENT_HEAD + 2),
        (PIECE | {"start": "3"}, EVENT_HEAD + 2),
        ({"reason": "other", "end": 9, "letter": "x"}, 0),
        ({"reason": "dead_letter", "end": 9, "letter": "x"}, 10),
        ({}, 10),
        ([], 10),
    ],
    ids=range(10),
)
def test_a_mark_that_no_receiver_writes_is_refused(mark: Any, size: int) -> None:
    with pytest.raises(ValueError, match=r"piece|mark"):
        piece_in_header(header(mark, size))


def test_pieces_out_of_sequence_make_no_event() -> None:
    def met(*pieces: tuple[int, int, int], within: int = PIECES_WITHIN) -> list[bool]:
        unfinished = UnfinishedEvents(within)
        return [
            unfinished.add_piece(at, at + 5, "e", start, end, last=end == 9) is not None
            for at, start, end in pieces
        ]

    assert met((0, 0, 3), (5, 3, 6), (10, 6, 9)) == [False, False, True]
    assert met((0, 3, 6), (5, 6, 9)) == [False, False]
    assert met((0, 0, 3), (5, 6, 9), (10, 3, 9)) == [False, False, False]
    assert met((0, 0, 3), (5, 0, 6), (10, 6, 9)) == [False, False, True]
    assert met((0, 0, 3), (PIECES_WITHIN + 1, 3, 9)) == [False, False]
    assert met((0, 0, 3), (PIECES_WITHIN, 3, 9)) == [False, True]
    records = pieces_within("records")
    assert met((0, 0, 3), (records + 1, 3, 9), within=records) == [False, False]
    assert met((0, 0, 3), (records, 3, 9), within=records) == [False, True]
