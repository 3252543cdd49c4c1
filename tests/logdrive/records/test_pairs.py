"""Pairs of Lumberjack v1: D frames of text, from which the file can be rebuilt byte for byte (R1,
R2).
"""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdrive.model.limits import RECORD_BYTES, RUN_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.records.blocks import LINE_PART_BYTES
from logdrive.records.chunk import TextChunk
from logdrive.records.flatten import flatten_fields, flatten_labels
from logdrive.records.pairs import PairEncoder, PairList, PairRecords, SamePairs
from logdrive.records.run_pack import encode_parts
from logdrive.records.runs import Run
from logdrive.wire.lumberjack.frames import KeyValueFrame
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader
from tests.agent.v1_model import file_bytes_of

FIELDS = [("service", "web"), ("app.name", "shöp")]
ENCODER = PairEncoder(FIELDS, "h", "/var/log/a.log", "0f" * 16)
VECTORS = Path(__file__).parents[2] / "vectors" / "lumberjack" / "frames.json"


def runs_of(data: bytes, start: int = 0, encoder: PairEncoder = ENCODER) -> list[Run]:
    """Return all runs of *data*, the end of a file, which begins at *start*."""
    runs, at, previous = list[Run](), 0, number_of(start, None)
    while at < len(data):  # an encoder may stop where the runs get too many
        chunk = TextChunk(start + at, data, at, len(data))
        runs += encoder.encode_chunk(chunk, previous, 0)
        previous, at = runs[-1].number, runs[-1].position - start
    return runs


def frames_of(run: Run, first: int = 1) -> list[KeyValueFrame]:
    """Return the frames of *run* as a receiver reads them."""
    reader = FrameReader(PLAIN_LUMBERJACK, side="reader", dialect="lumberjack")
    frames = reader.receive_data(b"".join(encode_parts(run.encode_frames(first))))
    assert reader.version == b"1"
    data = [frame for frame in frames if isinstance(frame, KeyValueFrame)]
    assert len(data) == len(frames) == run.events
    assert [frame.sequence for frame in data] == list(range(first, first + len(data)))
    return data


def test_a_line_is_text_with_its_place_and_the_fields_of_its_input() -> None:
    (run,) = runs_of("first\nzwölf\n".encode(), 100)
    assert isinstance(run.records, PairRecords)
    same = (("host", "h"), ("file", "/var/log/a.log"), ("log.origin", "0f" * 16), *FIELDS)
    assert [frame.pairs for frame in frames_of(run, 7)] == [
        (("line", "first"), ("offset", "100"), *same),
        (("line", "zwölf"), ("offset", "106"), *same),
    ]
    assert [
        KeyValueFrame(number, frame.pairs).encode()
        for number, frame in enumerate(frames_of(run), 7)
    ] == [b"1D" + number.to_bytes(4) + payload for number, payload in enumerate(run.records, 7)]


def test_the_frame_is_the_golden_one() -> None:
    (vector,) = [
        each
        for each in json.loads(VECTORS.read_text())
        if each["name"] == "data frame as the agent sends it"
    ]
    (run,) = runs_of(b"hello\n", 42, PairEncoder([("service", "web")], "h", "/a", "0f"))
    assert b"".join(encode_parts(run.encode_frames(1))) == bytes.fromhex(vector["hex"])


def test_a_line_that_is_not_plain_has_pairs_that_say_so() -> None:
    (run,) = runs_of(b"crlf\r\n\xff\nopen")
    assert isinstance(run.records, PairList)
    crlf, binary, unfinished = (dict(frame.pairs) for frame in frames_of(run))
    assert (crlf["line"], crlf["log.eol"]) == ("crlf", "\r\n")
    assert (binary["line"], binary["event.original_base64"]) == ("\ufffd", "/w==")
    assert (unfinished["line"], unfinished["log.eol"]) == ("open", "")


def test_a_long_line_comes_in_pieces_that_say_so() -> None:
    data = b"x" * (2 * LINE_PART_BYTES + 7) + b"\n"
    frames = [dict(frame.pairs) for run in runs_of(data) for frame in frames_of(run)]
    assert [len(frame["line"]) for frame in frames] == [LINE_PART_BYTES, LINE_PART_BYTES, 7]
    assert [frame.get("log.flags") for frame in frames] == ["partial", "partial", None]


odd = st.lists(
    st.one_of(
        st.sampled_from([b"\n", b"\r\n", b"\r", b"\xff\xfe", "ä€🦫".encode(), b"\0" * 9, b"\x7f"]),
        st.binary(max_size=9),
    )
).map(b"".join)


@given(odd, st.integers(0, 2**40))
@example(b"line\n" * 3000, 0)
@example(b"\n" * 3000, 9)
@example(b"\0" * 300_000 + b"\n\xff" * 3, 0)
@example(b"\n".join(b"y" * length for length in range(0, 3000, 40)) + b"\n", 5)
def test_any_file_can_be_rebuilt_and_runs_stay_within_their_limit__R2(
    data: bytes, start: int
) -> None:
    runs = runs_of(data, start)
    assert (
        b"".join(file_bytes_of(dict(frame.pairs)) for run in runs for frame in frames_of(run))
        == data
    )
    at = start
    for run in runs:
        assert position_of(run.previous) == at
        assert run.size == sum(8 + len(payload) for payload in run.records) <= RUN_BYTES
        assert next(int(dict(frame.pairs)["offset"]) for frame in frames_of(run)) == at
        at = run.position
    assert at == start + len(data) or not data


@pytest.mark.parametrize(
    ("fields", "tags", "pairs"),
    [
        ({}, [], []),
        (
            {"a": "b", "n": 7, "f": 1.5, "t": True, "z": None},
            [],
            [("a", "b"), ("n", "7"), ("f", "1.5"), ("t", "true"), ("z", "null")],
        ),
        ({"a": {"b": {"c": "d"}, "e": []}, "g": {}}, [], [("a.b.c", "d"), ("a.e", "[]")]),
        ({"l": [1, {"m": "n"}]}, ["x", "y"], [("l", '[1,{"m":"n"}]'), ("tags", '["x","y"]')]),
        (
            {"line": "mine", "log": {"origin": "too"}},
            [],
            [("fields.line", "mine"), ("fields.log.origin", "too")],
        ),
    ],
)
def test_fields_are_flattened_with_dots(
    fields: dict[str, Any], tags: list[str], pairs: list[tuple[str, str]]
) -> None:
    assert flatten_labels(fields, tags) == pairs


@pytest.mark.parametrize("fields", [{"a.b": 1, "a": {"b": 2}}, {"host": 1, "fields": {"host": 2}}])
def test_no_field_takes_the_place_of_another(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rename one"):
        flatten_labels(fields, [])


def test_long_keys_of_lines_are_not_kept() -> None:
    tracemalloc.start()
    try:
        same, before = SamePairs([]), tracemalloc.get_traced_memory()[0]
        for number in range(200):
            record = same.encode_between([], [(f"{number}" + "k" * 100_000, "x")])
            assert len(record) > 100_000
        del record
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    finally:
        tracemalloc.stop()


def test_deeply_nested_fields_take_no_more_memory_than_a_record() -> None:
    # each of many fields repeats the long names of those that it is in
    fields: dict[str, Any] = {str(number): number for number in range(1000)}
    for _ in range(60):
        fields = {"k" * 1000: fields}
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="fit a record"):
            flatten_fields(fields, frozenset(), 1024)
        assert tracemalloc.get_traced_memory()[1] < 8 * RECORD_BYTES
    finally:
        tracemalloc.stop()
    with pytest.raises(ValueError, match="fit a record"):
        flatten_fields({"a": 1, "b": {"c": 2, "d": 3}}, frozenset(), 2)
