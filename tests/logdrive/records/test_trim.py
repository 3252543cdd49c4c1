"""A trimmed run has exactly the bytes after the number that the store has (rules D5, A2)."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import RECORD_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.packs.pack import PackCodec
from logdrive.records.blocks import BlockEncoder, Encoder
from logdrive.records.chunk import TextChunk
from logdrive.records.full_packs import FullPackEncoder
from logdrive.records.full_records import FullEncoder
from logdrive.records.pack_sizes import TEXT_BYTES
from logdrive.records.packed import PackEncoder
from logdrive.records.run_pack import Packing, RunPack
from logdrive.records.trim import trim_run
from tests.support.run_bytes import bytes_of_run

_LINES = st.lists(
    st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"") + b"\n"),
    min_size=1,
    max_size=8,
).map(b"".join)
_PACKING = Packing(PackCodec.DEFLATE, 1)
_FULL = FullEncoder({}, "/a", "0", lambda: 0)
_ENCODERS: list[Encoder] = [
    BlockEncoder(),
    _FULL,
    PackEncoder(_PACKING),
    FullPackEncoder(_FULL, _PACKING),
]
_IDS = ["blocks", "full records", "packs of text", "packs of full records"]


@pytest.mark.parametrize("encoder", _ENCODERS, ids=_IDS)
@given(_LINES, st.data(), st.booleans())
@settings(max_examples=60)
def test_a_run_from_another_number_on_holds_the_bytes_after_it__D3(
    encoder: Encoder, text: bytes, data: st.DataObject, compressed: bool
) -> None:
    chunk = TextChunk.from_whole_file(text)
    for run in encoder.encode_chunk(chunk, 0, 0):
        if compressed:
            assert list(run.records), "a pack is compressed by that"
        start = data.draw(st.integers(run.previous >> 16, run.position - 1))
        number = number_of(start, text[:start])
        (later,) = trim_run(run, number)
        assert bytes_of_run(later) == (text[start : run.position], later.events)
        assert (later.previous, later.number) == (number, run.number)
        assert later.size >= sum(EVENT_HEAD + len(payload) for payload in later.records)
        assert isinstance(later.records, RunPack) == isinstance(run.records, RunPack)


@pytest.mark.parametrize("encoder", _ENCODERS, ids=_IDS)
def test_a_run_from_within_a_line_end_on_holds_only_its_newline(encoder: Encoder) -> None:
    text = b"\x80\r\n"  # not UTF-8: a record of its own, whose line end is apart from its text
    chunk = TextChunk.from_whole_file(text)
    (run,) = encoder.encode_chunk(chunk, 0, 0)
    for start in range(1, 3):
        (later,) = trim_run(run, number_of(start, text[:start]))
        assert bytes_of_run(later) == (text[start:], 1)


def test_what_is_left_of_a_long_line_still_fits_a_record__R3() -> None:
    # its second half can't be compressed
    line = b"x" * (2 * TEXT_BYTES) + random.Random(5).randbytes(RECORD_BYTES - 8192) + b"\n"
    line = line.replace(b"\n", b"") + b"\n"
    (run,) = PackEncoder(_PACKING).encode_chunk(TextChunk.from_whole_file(line), 0, 0)
    runs = trim_run(run, number_of(TEXT_BYTES, line[:TEXT_BYTES]))
    assert b"".join(bytes_of_run(later)[0] for later in runs) == line[TEXT_BYTES:]
    assert runs[-1].number == run.number
    at = position_of(runs[0].previous)
    assert at == TEXT_BYTES
    for later in runs:
        assert len(later.records[0]) <= RECORD_BYTES
