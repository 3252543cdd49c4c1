"""Text packs hold each byte of a file once, whatever the bytes are, and keep every limit (R2, R3,
R8).
"""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import PACK_BYTES, RECORD_BYTES, TAIL_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.model.records import DATA
from logdrive.packs.pack import PackCodec, PackForm, parse_head
from logdrive.records.chunk import TextChunk
from logdrive.records.pack_sizes import TEXT_BYTES
from logdrive.records.packed import PackEncoder
from logdrive.records.run_pack import Packing, RunPack
from logdrive.records.runs import Run
from tests.support.packs import Unpacked, unpacked

CODECS = pytest.mark.parametrize("codec", PackCodec)
_STRETCHES = st.tuples(
    st.sampled_from([b"x", b"\0", b"\xff", "ä€😀".encode(), b"\n", b"a\r\n", b"line of text\n"]),
    st.integers(1, 300_000),
)


def encoder(codec: PackCodec = PackCodec.DEFLATE) -> PackEncoder:
    return PackEncoder(Packing(codec, 1))


def chunk(text: bytes, start: int) -> TextChunk:
    """Return *text* as a chunk: after the bytes before it, and before bytes that were not taken."""
    before = random.Random(start).randbytes(min(start, TAIL_BYTES))
    return TextChunk(start, before + text + b"partial", len(before), len(before) + len(text))


def held(run: Run) -> Unpacked:
    """Return what the pack of *run* holds, which is compared with what the run says."""
    (pack,) = run.records
    header = {
        "form": "text",
        "previous": position_of(run.previous),
        "position": run.position,
        "events": run.events,
        "skipped": 0,
    }
    return unpacked(pack, header)


def check(runs: list[Run], whole: TextChunk) -> bytes:
    """Return the bytes of *runs*, the runs of *whole*, after checking their limits and numbers."""
    number, text = number_of(whole.start, whole.tail_at(whole.start)), b""
    for run in runs:
        assert (run.kind, run.previous, run.mark) == (DATA, number, None)
        ((start, data),) = held(run).pieces
        assert start == whole.start + len(text)
        number, text = run.number, text + data
        assert number == whole.number_at(run.position)
        assert len(run.records[0]) <= RECORD_BYTES
        assert EVENT_HEAD + len(run.records[0]) <= run.size
    return text


@CODECS
@given(text=st.binary(min_size=1, max_size=200), start=st.integers(0, 2**45))
@example(text=b"\n", start=0)
@example(text=b"\r", start=255)
def test_any_bytes_come_back_exactly__R2(codec: PackCodec, text: bytes, start: int) -> None:
    whole = chunk(text, start)
    (run,) = encoder(codec).encode_chunk(whole, whole.number_at(start), 7)
    assert check([run], whole) == text
    assert run.read_ms == 7


@CODECS
@given(st.lists(_STRETCHES, min_size=1, max_size=4), st.integers(0, 2**40))
@example([(b"x", TEXT_BYTES), (b"\n", 1)], 0)
@example([(b"x", TEXT_BYTES - 1), (b"\n", 1), (b"x", TEXT_BYTES), (b"\n", 2)], 0)
@example([(b"\n", 2 * TEXT_BYTES)], 0)
@settings(max_examples=25, deadline=None)
def test_long_stretches_keep_the_limits__R3(
    codec: PackCodec, stretches: list[tuple[bytes, int]], start: int
) -> None:
    text = b"".join(unit * count for unit, count in stretches)
    whole = chunk(text, start)
    assert check(encoder(codec).encode_chunk(whole, whole.number_at(start), 0), whole) == text


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size", [TEXT_BYTES + 1, PACK_BYTES - 2])
def test_a_long_line_is_one_event__R8(size: int, end: bytes) -> None:
    text = (b"words of a line " * size)[:size] + end
    whole = chunk(b"before\n" + text + b"after\n" * (end != b""), 100)
    runs = encoder().encode_chunk(whole, whole.number_at(100), 0)
    check(runs, whole)
    (long,) = (run for run in runs if run.position - position_of(run.previous) > TEXT_BYTES)
    assert (long.events, held(long).pieces[0][1]) == (1, text)


@pytest.mark.parametrize(
    "line",
    [random.Random(1).randbytes(2 * TEXT_BYTES).replace(b"\n", b""), b"ab" * (PACK_BYTES // 2 + 1)],
    ids=["its pack is no record", "over the limit of a pack"],
)
def test_a_line_that_no_pack_holds_is_cut_into_events_that_fit__R8(line: bytes) -> None:
    whole = chunk(line + b"\nnext\n", 0)
    runs = encoder().encode_chunk(whole, 0, 0)
    assert check(runs, whole) == line + b"\nnext\n"
    *cut, _ = (run for run in runs if position_of(run.previous) < len(line))
    assert {(run.events, run.position - position_of(run.previous)) for run in cut} == {
        (1, TEXT_BYTES)
    }


def test_a_cut_line_is_cut_between_characters__R8() -> None:
    line = b"x" + "€".encode() * (PACK_BYTES // 3 + 1)
    runs = encoder().encode_chunk(chunk(line, 0), 0, 0)
    assert len(runs) > 1
    assert "".join(held(run).pieces[0][1].decode() for run in runs) == line.decode()


def test_text_is_kept_until_it_is_compressed_and_then_only_its_pack() -> None:
    text = b"a line\n" * 1000
    (run,) = encoder().encode_chunk(chunk(text, 0), 0, 0)
    pack = run.records
    assert isinstance(pack, RunPack)
    assert (pack.is_compressed, pack.content) == (False, text)
    size = len(pack.pack)
    assert (pack.is_compressed, pack.content) == (True, text)
    assert size < len(text) / 10
    assert list(pack) == [pack.pack], "it is compressed once"


@pytest.mark.parametrize(
    ("size", "codec"),
    [(511, PackCodec.STORED), (512, PackCodec.DEFLATE)],
)
def test_a_very_short_text_is_left_to_the_envelope_of_its_window(
    size: int, codec: PackCodec
) -> None:
    (run,) = encoder().encode_chunk(chunk(b"a" * (size - 1) + b"\n", 0), 0, 0)
    assert parse_head(run.records[0]).codec is codec


def test_a_pack_is_read_while_a_thread_compresses_it() -> None:
    """A connection is lost meanwhile, and the run is cut for the next one."""
    seen: list[bytes] = []

    def frame_records() -> bytes:
        if not seen:  # amid its compression
            seen.append(b"")
            seen.append(pack.content)
            seen.append(pack.pack)
        return b"a record" * 1000

    pack = RunPack(PackForm.RECORDS, frame_records, Packing(PackCodec.DEFLATE, 1))
    assert seen[1:] == []
    whole = pack.pack
    assert seen[1:] == [b"a record" * 1000, whole]
    assert pack.content == b"a record" * 1000
