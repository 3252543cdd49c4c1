"""Lines as a person reads them: one whose end was left out ends where the next one begins."""

from typing import Any

import orjson
import pytest

from logdrive.model.records import TRUNCATED, block_record, lean_record
from logdrive.services.lines import end_cut_events, foreign_line, record_text


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([4, 6], b"one\ntwo th"),  # the second one goes on in the next run
        ([2, 2, 6], b"one\ntwo th"),  # parts of one line
        ([3, -5, 7], b"one\n\ntwo th"),
        ([-9, 10, -2], b"one\ntwo th\n"),
        ([4, -3, 6, -1, -1], b"one\ntwo th\n"),
    ],
)
def test_an_event_whose_end_was_left_out_ends_with_a_newline(
    lengths: list[int], text: bytes
) -> None:
    assert end_cut_events(b"one\ntwo th", lengths) == text
    size = sum(map(abs, lengths))
    assert record_text(block_record(0, size, 2, "one\ntwo th", lengths)) == text


def test_a_lean_record_that_was_cut_ends_with_a_newline() -> None:
    cut = {"flags": [TRUNCATED]}
    assert record_text(lean_record(0, 9, "one", eol="", log=cut)) == b"one\n"
    assert record_text(lean_record(0, 9, "one", log=cut)) == b"one\n"
    assert record_text(lean_record(0, 3, "one", eol="")) == b"one", "the file goes on there"


@pytest.mark.parametrize(
    "more",
    [
        {"lengths": "long"},
        {"lengths": [1]},
        {"log": {"flags": 7}},
        {"log": {"flags": "truncated"}},
        {"log": {"flags": ["multiline", "truncated"]}},
    ],
)
def test_another_shippers_record_is_its_message(more: dict[str, Any]) -> None:
    record = orjson.dumps({"message": "one"} | more)
    assert record_text(record) == b"one\n"
    assert foreign_line(record) == ("", b"one\n")


def test_an_event_over_lumberjack_1_that_was_cut_ends_with_a_newline() -> None:
    pairs = {"line": "one", "log.eol": "", "log.flags": "truncated"}
    assert foreign_line(orjson.dumps(pairs)) == ("", b"one\n")
    assert foreign_line(orjson.dumps(pairs | {"log.flags": "partial"})) == ("", b"one")
