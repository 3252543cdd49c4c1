"""Packs as runs of records in the open: every byte, in order, under numbers that are true (rules
R1, R2, R3, R8, P1).
"""

import random
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.limits import PACK_BYTES
from logdrive.model.numbers import check_in, check_of, position_of
from logdrive.model.records import lean_record
from logdrive.packs.pack import PackError, PackForm
from logdrive.records.chunk import TextChunk
from logdrive.records.full_records import FullEncoder
from logdrive.wire.lumberjack.run_reader import RunReceived
from receiver.config import Unpack
from receiver.dialects.unpacking.unpack import unpack_run
from tests.receiver.dialects.unpacking.runs import (
    READ,
    assert_takes_the_place,
    of_cut_text,
    of_records,
    of_text,
    received,
    records_of,
    text_of,
)
from tests.support.record_bytes import bytes_of

ORIGIN = UUID(int=0xA)
ATTRIBUTES = b'{"host":"web-1","agent":"a-1","path":"/a.log","fields":{"team":"x"},"tags":["t"]}'
LINES = b"".join(b'%d "GET /" caf\xc3\xa9\n' % number for number in range(60_000))
RANDOM = random.Random(16)


def opened(packed: RunReceived, form: Unpack = "blocks") -> list[RunReceived]:
    """Return the runs that take the place of *packed*."""
    return list(unpack_run(packed, form, ATTRIBUTES, ORIGIN))


TEXTS = {
    "lines": LINES,
    "no newline at the end": LINES + b"rest",
    "one line": b"x\n",
    "no line end at all": b"x",
    "empty lines": b"\n" * 5000,
    "CR LF": b"a\r\nb\r\n\r\n" * 1000,
    "NULs": bytes(100_000) + b"\n" + bytes(300_000),
    "not UTF-8": b"\xff\xfe\n\xe9t\xe9\nabc\n" * 3000,
    "dense, then not": b"\n" * 100_000 + b"z" * 2_000_000 + b"\n" + LINES,
    "random": RANDOM.randbytes(300_000),
    "a line of 4 MiB": "é".encode() * (PACK_BYTES // 2 - 1) + b"\n",
    "a line of 4 MiB that is not UTF-8": b"\x80" * PACK_BYTES,
    "a long line among others": LINES + b"y" * 1_500_000 + b"\n" + LINES,
}


@pytest.mark.parametrize("start", [0, 5, 1 << 40])
@pytest.mark.parametrize("name", TEXTS)
def test_r2_blocks_of_a_pack_hold_each_byte_of_its_text(name: str, start: int) -> None:
    packed = of_text(TEXTS[name], start)
    runs = opened(packed)
    assert_takes_the_place(runs, packed, TEXTS[name])
    assert text_of(runs, start) == TEXTS[name]


@pytest.mark.parametrize("name", TEXTS)
def test_r2_full_records_of_a_pack_hold_each_byte_of_its_text(name: str) -> None:
    packed = of_text(TEXTS[name], 5)
    runs = opened(packed, "full")
    assert_takes_the_place(runs, packed, TEXTS[name])
    assert full_text(records_of(runs), 5) == TEXTS[name]


def full_text(records: list[dict[str, Any]], start: int) -> bytes:
    """Return the bytes of full records, which say where they begin and must lie back to back."""
    pieces: list[bytes] = []
    at = start
    for each in records:
        assert each["log"]["offset"] == at
        pieces.append(bytes_of(each)[0])
        at += len(pieces[-1])
    return b"".join(pieces)


@given(st.binary(min_size=1, max_size=3000), st.integers(0, 600))
def test_r2_any_bytes_are_the_same_in_blocks(text: bytes, start: int) -> None:
    packed = of_text(text, start)
    runs = opened(packed)
    assert_takes_the_place(runs, packed, text)
    assert text_of(runs, start) == text


def test_p1_numbers_between_runs_have_a_check_where_the_bytes_are_in_the_pack() -> None:
    text = LINES * 3
    for start in (0, 1000):
        packed = of_text(text, start)
        runs = opened(packed)
        assert len(runs) > 2
        for run in runs[:-1]:
            end = position_of(run.run.number) - start
            assert check_in(run.run.number) == check_of(text[:end])
        assert runs[-1].run.number == packed.run.number


def test_p1_numbers_between_runs_of_records_have_no_check() -> None:
    packed = of_records([record(9 + 20 * number) for number in range(1500)], 9, 40_000)
    runs = opened(packed)
    assert [check_in(run.run.number) for run in runs[:-1]] == [0]


def test_no_step_encodes_more_than_some_thousand_lines() -> None:
    text = b"\xff\n" * 100_000
    # each line is a record, so that runs end where the encoder was asked to stop
    runs = opened(of_text(text))
    assert all(run.run.events <= 999 for run in runs)
    short = [run for run in runs if run.run.events < 999]
    assert len(short) >= 100_000 // 8192


def test_full_records_are_those_of_an_agent_that_sends_full_records() -> None:
    text = b"a\nb\r\n\xff\n" + LINES[:50_000]
    records = records_of(opened(of_text(text, 77), "full"))
    agent = FullEncoder(
        {
            "host": {"name": "web-1"},
            "agent": {"id": "a-1", "type": "logdrive"},
            "fields": {"team": "x"},
            "tags": ["t"],
        },
        "/a.log",
        ORIGIN.hex,
        lambda: READ,
    )
    theirs = agent.encode_chunk(TextChunk(77, text, 0, len(text)), 0, READ)
    assert records == [orjson.loads(record) for run in theirs for record in run.records]


# Events that are not single lines, and bytes left out -------------------------------------------

TRACE = b"Error\n  at a\n  at b\n"


def test_r1_events_of_several_lines_are_a_block_with_lengths() -> None:
    text = TRACE + b"next\n"
    (run,) = opened(of_cut_text(text, [-7, len(TRACE), -3, 5], start=100))
    assert run.run.skipped == 10
    assert run.run.events == 2
    assert records_of([run]) == [
        {
            "log": {"offset": 100, "end": 100 + 10 + len(text), "lines": 2},
            "message": text.decode(),
            "lengths": [-7, len(TRACE), -3, 5],
        }
    ]


def test_r1_full_records_of_such_events_leave_out_bytes_in_blocks_without_text() -> None:
    text = TRACE + b"next\r\n"
    (run,) = opened(of_cut_text(text, [-7, len(TRACE), -3, 6], start=100), "full")
    gap, trace, other, following = records_of([run])
    assert gap == {
        "log": {"offset": 100, "end": 107, "lines": 0},
        "message": "",
        "lengths": [-7],
    }
    assert (trace["message"], trace["log"]["offset"]) == (TRACE.decode()[:-1], 107)
    assert trace["@timestamp"].startswith("2023-11-14T22:13:20.123")
    assert other["lengths"] == [-3]
    assert (following["message"], following["log"]["eol"]) == ("next", "\r\n")
    assert (run.run.events, run.run.skipped) == (2, 10)


@pytest.mark.parametrize("form", ["blocks", "full"])
@given(st.data())
def test_r1_any_cut_of_any_bytes_is_kept_to_the_byte(form: Unpack, data: st.DataObject) -> None:
    sizes = st.integers(-400, 400).filter(bool)
    lengths = data.draw(st.lists(sizes, min_size=1, max_size=12).filter(lambda s: max(s) > 0))
    size = sum(length for length in lengths if length > 0)
    letters = data.draw(st.sampled_from([b"a\n", b"\x00", b"\xc3\xa9", b"\xff\r\n"]))
    text = (letters * size)[:size]
    packed = of_cut_text(text, lengths, start=10)

    runs = opened(packed, form)
    assert_takes_the_place(runs, packed, b"")
    at, kept, dropped = 10, b"", 0
    for each in records_of(runs):
        assert each["log"]["offset"] == at
        piece = bytes_of(each)[0]
        out = -sum(length for length in each.get("lengths", ()) if length < 0)
        kept, dropped, at = kept + piece, dropped + out, at + len(piece) + out
    assert (kept, dropped) == (text, packed.run.skipped)


def test_r3_many_such_events_are_runs_that_fit_a_batch_each() -> None:
    text = b"\xff" * 40_000
    packed = of_cut_text(text, [4] * 10_000)
    runs = opened(packed)
    assert len(runs) == 11
    assert_takes_the_place(runs, packed, text)


# Records ----------------------------------------------------------------------------------------


def record(at: int, size: int = 10) -> bytes:
    """Return a record of *size* bytes of message whose event begins *at*."""
    return b'{"log":{"offset":%d},"message":"%b"}' % (at, b"x" * size)


def test_packed_records_come_unchanged_and_the_next_record_says_where_a_run_ends() -> None:
    records = [record(1000 + 11 * number) for number in range(2500)]
    packed = of_records(records, 1000, 1000 + 11 * 2500)
    for form in ("blocks", "full"):
        runs = opened(packed, "blocks" if form == "blocks" else "full")
        assert [payload for run in runs for payload in run.payloads] == records
        assert_takes_the_place(runs, packed, b"")
        assert [position_of(run.run.number) for run in runs] == [
            1000 + 11 * 999,
            1000 + 11 * 1998,
            1000 + 11 * 2500,
        ]
        assert [run.run.events for run in runs] == [999, 999, 502]


def test_packed_records_that_fit_one_batch_need_no_places() -> None:
    records = [b'{"message":"no place"}'] * 999
    (run,) = opened(of_records(records, 5, 50))
    assert run.payloads == records


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([b'{"message":"no place"}'] * 1000, "does not say where"),
        ([b'{"log":{"offset":"9"}}'] * 1000, "does not say where"),
        ([b"not JSON"] * 1000, "does not say where"),
        ([b"[" * 100_000] * 40, "does not say where"),
        ([record(0)] * 1000, "follow one another"),
        ([record(1 << 62)] * 1000, "follow one another"),
        ([record(at) for at in (*range(900), *range(1500, 400, -1))], "follow one another"),
    ],
    ids=["no place", "no number", "no JSON", "deep", "same", "beyond", "backwards"],
)
def test_packed_records_that_can_not_be_cut_are_refused(records: list[bytes], reason: str) -> None:
    with pytest.raises(PackError, match=reason):
        opened(of_records(records, 0, 1 << 40))


def test_packed_records_that_leave_out_bytes_say_which() -> None:
    records = [lean_record(20 * number, 20 * number + 11, "x" * 10) for number in range(1500)]
    packed = of_records(records, 0, 20 * 1500, skipped=9 * 1500)
    runs = opened(packed)
    assert [payload for run in runs for payload in run.payloads] == records
    assert [run.run.skipped for run in runs] == [9 * 999, 9 * 501]
    assert [position_of(run.run.number) for run in runs] == [20 * 999, 20 * 1500]


@pytest.mark.parametrize(
    "records",
    [
        [record(0)],
        [lean_record(0, 11, "x" * 10)],
        [lean_record(0, 11, "x" * 10), lean_record(0, 100, "x" * 10)],
        [lean_record(0, 0, "")],
    ],
)
def test_packed_records_that_don_t_say_which_bytes_they_leave_out_are_refused(
    records: list[bytes],
) -> None:
    with pytest.raises(PackError, match=r"leave(s)? out"):
        opened(of_records(records, 0, 100, skipped=5))


# Lies -------------------------------------------------------------------------------------------


def test_a_pack_whose_inside_is_not_what_its_run_says_is_refused_before_the_first_run() -> None:
    packed = received(PackForm.TEXT, LINES, 0, len(LINES), 59_999)
    with pytest.raises(PackError, match="60000 events"):
        unpack_run(packed, "blocks", ATTRIBUTES, ORIGIN)


def test_r2_events_whose_lines_take_turns_stay_in_one_batch() -> None:
    def tied(at: int) -> list[bytes]:
        """Two events of 30 bytes each: the second one's lines lie between the first one's."""
        places = [(at, [[at, at + 20], [at + 50, at + 60]]), (at + 30, [[at + 20, at + 50]])]
        return [
            orjson.dumps(
                {"log": {"offset": start, "end": start + 30, "parts": parts}, "message": "x" * 29}
            )
            for start, parts in places
        ]

    alone = [record(20 * number) for number in range(998)]
    at = 20 * len(alone)
    records = [*alone, *(one for number in range(700) for one in tied(at + 60 * number))]
    # the 999th record of the first batch would be the first of two
    runs = opened(of_records(records, 0, at + 60 * 700))
    assert [run.run.events for run in runs] == [998, 998, 402]
    assert_takes_the_place(runs, of_records(records, 0, at + 60 * 700), b"")

    # the agent dropped the last one
    (run,) = opened(of_records(tied(0)[:1], 0, 60, skipped=30))
    assert run.run.skipped == 30
