"""Marks of gap and end records, which headers repeat and every reader parses (P4, R4)."""

import base64
from typing import Any
from uuid import UUID

import pytest

from logdrive.model.records import (
    end_record,
    exact_lean_record,
    file_bytes,
    gap_record,
    lean_record,
    mark_in_record,
)


@pytest.mark.parametrize(
    "record",
    [
        gap_record(0, 9, "removed"),
        gap_record(5, 9, "elsewhere", end_exact=False, store=UUID(int=1)),
        end_record(9, "removed"),
        end_record(9, "x", end_exact=False),
    ],
)
def test_a_mark_is_the_very_object_of_its_record(record: bytes) -> None:
    mark = mark_in_record(record)
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
def test_a_mark_that_some_reader_could_not_parse_is_refused(mark: bytes) -> None:
    for kind in (b"gap", b"ended"):
        with pytest.raises(ValueError, match="not a gap or end record"):
            mark_in_record(b'{"log":{"' + kind + b'":' + mark + b"}}")


@pytest.mark.parametrize(
    "record", [b"", b"{}", b'{"log":{}}', b'{"message":"text"}', b"\xff", b'{"log":[]}']
)
def test_any_other_record_has_no_mark(record: bytes) -> None:
    with pytest.raises(ValueError, match="not a gap or end record"):
        mark_in_record(record)


@pytest.mark.parametrize("exact", [b"\xff", b'caf\xe9 "\\\t\x00', "€ ".encode() + b"\xf0\x9f"])
def test_a_lean_record_of_exact_bytes_is_the_one_that_is_written_key_by_key__R2(
    exact: bytes,
) -> None:
    message, original = exact.decode(errors="replace"), base64.b64encode(exact).decode()
    assert exact_lean_record(70_000, 70_004, message, exact) == lean_record(
        70_000, 70_004, message, original=original
    )


@pytest.mark.parametrize(
    ("more", "data"),
    [
        ({}, "ä\n".encode()),
        ({"event": {"original_base64": "/w=="}}, b"\xff\n"),
        ({"event": {"original": "a line", "kind": "event"}}, b"a line\n"),
        ({"log": {"end": 9, "encoding": "utf-16-le", "eol": "\n\0"}}, b"\xe4\0\n\0"),
        # another shipper's
        ({"log": {}, "event": {"original": "a line"}}, "ä\n".encode()),
        ({"log": {"encoding": "latin-1"}}, "ä\n".encode()),
        ({"log": {"lines": 1}, "message": "ä\r\n"}, "ä\r\n".encode()),
    ],
)
def test_a_record_has_the_bytes_of_its_line(more: dict[str, Any], data: bytes) -> None:
    assert file_bytes({"log": {"offset": 0, "end": 9}, "message": "ä"} | more) == data


@pytest.mark.parametrize("encoding", ["no such", "idna", "punycode", "undefined", "zlib", "ascii"])
def test_an_encoding_that_no_file_has_is_refused(encoding: str) -> None:
    log = {"offset": 0, "end": 9, "encoding": encoding}
    with pytest.raises(ValueError, match="encod"):
        file_bytes({"log": log, "message": "ä"})
