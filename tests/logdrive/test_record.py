"""Marks of gap and end records, which stand in headers and which every reader parses (P4, R4)."""

from uuid import UUID

import pytest

from logdrive.record import ended, gap, mark_of


@pytest.mark.parametrize(
    "record",
    [gap(0, 9, "removed"), gap(5, 9, "elsewhere", end_exact=False, store=UUID(int=1)), ended(9, "removed"), ended(9, "x", end_exact=False)],
)
def test_a_mark_is_the_very_object_of_its_record(record: bytes) -> None:
    mark = mark_of(record)
    assert mark.startswith(b"{")
    assert mark in record


@pytest.mark.parametrize(
    "mark",
    [
        b"5",
        b"null",
        b"[]",
        b'"text"',
        b'{"reason":"\xff"}',
        b'{"reason":"\\ud800"}',
        b'{"start":1e999}',
        b'{"a":{}}',
        b"[" * 5000 + b"]" * 5000,
    ],
)
def test_a_mark_that_some_reader_would_fail_on_is_none(mark: bytes) -> None:
    for kind in (b"gap", b"ended"):
        with pytest.raises(ValueError, match="not a gap or end record"):
            mark_of(b'{"log":{"' + kind + b'":' + mark + b"}}")


@pytest.mark.parametrize("record", [b"", b"{}", b'{"log":{}}', b'{"message":"text"}', b"\xff", b'{"log":[]}'])
def test_any_other_record_has_no_mark(record: bytes) -> None:
    with pytest.raises(ValueError, match="not a gap or end record"):
        mark_of(record)
