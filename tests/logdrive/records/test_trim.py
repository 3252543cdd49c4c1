"""A trimmed run has exactly the bytes after the number that the store has (rules D5, A2)."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.numbers import number_of
from logdrive.model.records import file_bytes
from logdrive.records.blocks import BlockEncoder, Encoder
from logdrive.records.chunk import TextChunk
from logdrive.records.full_records import FullEncoder
from logdrive.records.trim import trim_run

_LINES = st.lists(
    st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"") + b"\n"),
    min_size=1,
    max_size=8,
).map(b"".join)
_ENCODERS: list[Encoder] = [BlockEncoder(), FullEncoder({}, "/a", "0", lambda: 0)]


@given(_LINES, st.data(), st.sampled_from(_ENCODERS))
def test_a_run_from_another_number_on_holds_the_bytes_after_it(
    text: bytes, data: st.DataObject, encoder: Encoder
) -> None:
    chunk = TextChunk.from_whole_file(text)
    for run in encoder.encode_chunk(chunk, 0, 0):
        start = data.draw(st.integers(run.previous >> 16, run.position - 1))
        (later,) = trim_run(run, number_of(start, text[:start]))
        records = [orjson.loads(payload) for payload in later.records]
        assert b"".join(map(file_bytes, records)) == text[start : run.position]
        assert records[0]["log"]["offset"] == start
        assert later.events == sum(record["log"].get("lines", 1) for record in records)
        assert later.size == sum(EVENT_HEAD + len(payload) for payload in later.records)


@pytest.mark.parametrize("encoder", _ENCODERS)
def test_a_run_from_within_a_line_end_on_holds_only_its_newline(encoder: Encoder) -> None:
    text = b"\x80\r\n"  # not UTF-8: a record of its own, whose line end is apart from its text
    chunk = TextChunk.from_whole_file(text)
    (run,) = encoder.encode_chunk(chunk, 0, 0)
    for start in range(1, 3):
        (later,) = trim_run(run, number_of(start, text[:start]))
        assert [file_bytes(orjson.loads(payload)) for payload in later.records] == [text[start:]]
