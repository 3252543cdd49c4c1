"""Rule R8: packs become the rows that their bytes would be as blocks; one that lies is one row."""

from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logdrive.model.framing import frame_events
from logdrive.model.limits import PACK_BYTES
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PACK_HEAD, PackCodec, PackForm, make_pack
from logdrive.pipeline.bronze.rebuild import rebuild
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import BatchRow, batches_table
from logdrive.pipeline.decode.schema import DAMAGED_PACK, EVENTS, MALFORMED, NOT_JSON
from logdrive.records.blocks import BlockEncoder
from logdrive.records.chunk import TextChunk
from logdrive.records.full_records import FullEncoder
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment, as_records

patient = settings(deadline=None, max_examples=80)  # the first example loads Arrow's kernels
CODECS = pytest.mark.parametrize("codec", list(PackCodec), ids=lambda codec: codec.name.lower())
# a line as long as a block holds: longer ones are in several rows of other forms
SHORT = 90_000


def decoded(segment: Segment) -> tuple[pa.Table, list[BatchRow]]:
    decoder, at = Decoder(STREAM), 0
    tables, batches = [], []
    while at < len(segment.data):
        at, _ = decoder.decode_batches(SEGMENT, at, bytes(segment.data[at:]))
        table, some = decoder.take_tables()
        table.validate(full=True)
        assert table.schema.equals(EVENTS)
        tables.append(table)
        batches += some
    table = pa.concat_tables([EVENTS.empty_table(), *tables])
    assert sum(batch.rows for batch in batches) == table.num_rows
    return table, batches


def rows_alike(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows without what tells how they were stored."""
    kept = [
        name
        for name in table.column_names
        if name not in ("batch", "ordinal", "offset", "form", "received")
    ]
    rows: list[dict[str, Any]] = table.select(kept).to_pylist()
    return rows


odd = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"\n",
                b"\r\n",
                b"\r",
                b"\xff\xfe",
                "ä€🦫".encode(),
                b"\0" * 9,
                b'"\\',
                b"\xef\xbf\xbd",
            ]
        ),
        st.binary(max_size=9),
    )
).map(b"".join)


@CODECS
@patient
@given(data=odd, steps=st.lists(st.integers(1, 40), min_size=1, max_size=6))
@example(data=b"one\r\ntwo\r\n", steps=[4])
@example(data=b"x" * SHORT + b"\r\n" + b"\xff" * SHORT + b"\nlast", steps=[1000])
@example(data=b"\0" * SHORT, steps=[10])
@example(data=b"\n" * 30_000, steps=[10_000])
def test_r8_rows_of_packs_are_those_of_blocks(
    codec: PackCodec, data: bytes, steps: list[int]
) -> None:
    packed, blocks, at, turn = Segment(), Segment(), 0, 0
    lines = _by_lines(data)
    while at < len(lines):
        some = lines[at : at + steps[turn % len(steps)]]
        start = sum(map(len, lines[:at]))
        text = b"".join(some)
        packed.packed("a", text, start, codec)
        for run in BlockEncoder().encode_chunk(TextChunk(start, text, 0, len(text)), 0, 0):
            blocks.data_batch("a", start, run.position, run.records, run.events)
            start = run.position
        at, turn = at + len(some), turn + 1
    table, batches = decoded(packed)
    assert rows_alike(table) == rows_alike(decoded(blocks)[0])
    assert set(table["form"].to_pylist()) <= {"text"}
    assert b"".join(piece for _, piece in rebuild(table)) == data
    assert [batch.rows for batch in batches] == [batch.events for batch in batches]
    assert table["ordinal"].to_pylist() == [n for batch in batches for n in range(batch.rows)]


def _by_lines(data: bytes) -> list[bytes]:
    parts = [part + b"\n" for part in data.split(b"\n")]
    parts[-1] = parts[-1][:-1]
    return [part for part in parts if part]


def test_r8_a_line_as_long_as_a_pack_is_one_row() -> None:
    segment, line = Segment(), b"ab\0\xc3\xa4" * (PACK_BYTES // 5)
    line += b"c" * (PACK_BYTES - len(line) - 1) + b"\n"
    at = segment.packed("a", line)
    segment.packed("a", line[:-1], at)
    segment.packed("a", b"\n", 2 * len(line) - 1)
    table, _ = decoded(segment)
    assert table["eol"].to_pylist() == ["\n", "", "\n"]
    assert table["start"].to_pylist() == [0, PACK_BYTES, 2 * PACK_BYTES - 1]
    assert [row["message"] for row in rows_alike(table)] == [line[:-1].decode()] * 2 + [""]
    assert b"".join(piece for _, piece in rebuild(table)) == line * 2


def test_r8_real_logs_come_back_byte_for_byte(real_logs: list[Path]) -> None:
    for path in real_logs:
        segment, at, data = Segment(), 0, path.read_bytes()
        for end in [*range(700_000, len(data), 700_000), len(data)]:
            end = data.rfind(b"\n", 0, end) + 1 if end < len(data) else end
            at = segment.packed("a", data[at:end], at)
        table, batches = decoded(segment)
        assert b"".join(piece for _, piece in rebuild(table)) == data, path
        assert all(batch.rows == batch.events for batch in batches)


@CODECS
@patient
@given(
    events=st.lists(
        st.tuples(
            st.sampled_from([b"a\n", b"two\nlines\r\n", b"no end", b"\n", b"\xc3", b"\xa4\n"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_r8_lengths_cut_events_and_name_what_was_left_out(
    codec: PackCodec, events: list[tuple[bytes, bool]]
) -> None:
    edges = list(accumulate((len(event) for event, _ in events), initial=100))
    kept = [(event, edges[n]) for n, (event, keep) in enumerate(events) if keep]
    dropped = [(edges[n], edges[n + 1]) for n, (_, keep) in enumerate(events) if not keep]
    lengths = [len(event) if keep else -len(event) for event, keep in events]
    text = b"".join(event for event, _ in kept)
    segment = Segment()
    pack = make_pack(PackForm.CUT_TEXT, join_cuts(lengths, text), codec)
    skipped = sum(end - start for start, end in dropped)
    segment.pack("a", 100, edges[-1], pack, len(kept), skipped=skipped)
    table, (batch,) = decoded(segment)
    assert table["flag"].to_pylist() == [None] * len(kept)
    assert batch.dropped == dropped
    assert table["start"].to_pylist() == [start for _, start in kept]
    assert table["end"].to_pylist() == [start + len(event) for event, start in kept]
    rows = [piece for _, piece in rebuild(table)]
    assert b"".join(rows) == text


def test_r8_records_of_a_pack_are_rows_with_fields_of_their_own() -> None:
    encoder = FullEncoder(
        {"host": {"name": "h"}, "agent": {"type": "logdrive"}}, "/a.log", "0f" * 16, lambda: 10**12
    )
    data, plain, packed = b"one\r\n\xff\nthree\n", Segment(), Segment()
    at = 0
    for run in encoder.encode_chunk(TextChunk.from_whole_file(data), 0, 0):
        plain.data_batch("a", at, run.position, run.records, run.events)
        pack = make_pack(PackForm.RECORDS, frame_events(run.records), PackCodec.ZSTD)
        packed.pack("a", at, run.position, pack, run.events, form="records")
        at = run.position
    table, _ = decoded(packed)
    assert rows_alike(table) == rows_alike(decoded(plain)[0])
    assert set(table["form"].to_pylist()) == {"full"}
    assert b"".join(piece for _, piece in rebuild(table)) == data


def test_r8_a_record_of_a_pack_that_is_none_is_quarantined_alone() -> None:
    segment = Segment()
    records = [
        b"{",
        b'{"log":{"offset":1,"end":3,"lines":1},"message":"b\\n"}',
        b'{"log":{"offset":3,"end":5},"message":"c"}',
    ]
    pack = make_pack(PackForm.RECORDS, frame_events(records), PackCodec.DEFLATE)
    segment.pack("a", 0, 5, pack, 3, form="records")
    table, _ = decoded(segment)
    assert table["flag"].to_pylist() == [NOT_JSON, MALFORMED, None]
    assert table["original"].to_pylist() == [*records[:2], None]


TEXT = b"one\ntwo\n"
GOOD = make_pack(PackForm.TEXT, TEXT * 9, PackCodec.DEFLATE)
SIZE = len(TEXT) * 9


def _with_content(content: bytes, form: PackForm = PackForm.TEXT) -> bytes:
    """Return a pack of other content under the head of `GOOD`, but for the codec."""
    return bytes([form, PackCodec.STORED]) + GOOD[2:PACK_HEAD] + content


LIES: dict[str, tuple[bytes, int, int, dict[str, Any]]] = {
    "CRC-32": (GOOD[:6] + bytes(4) + GOOD[PACK_HEAD:], SIZE, 18, {}),
    "size": (GOOD[:5] + bytes([SIZE + 1]) + GOOD[6:], SIZE + 1, 18, {}),
    "not deflate": (GOOD[:PACK_HEAD] + b"\xff" * 20, SIZE, 18, {}),
    "cut off": (GOOD[:-3], SIZE, 18, {}),
    "more behind it": (GOOD + b"x", SIZE, 18, {}),
    "another codec": (bytes([1, 2]) + GOOD[2:], SIZE, 18, {}),
    "other bytes": (_with_content(TEXT * 8 + b"one\ntwo\r"), SIZE, 18, {}),
    "fewer events": (GOOD, SIZE, 19, {}),
    "more events": (GOOD, SIZE, 17, {}),
    "another interval": (GOOD, SIZE + 1, 18, {}),
    "another form": (GOOD, SIZE, 18, {"form": "records"}),
    "an unknown form": (b"\x09" + GOOD[1:], SIZE, 18, {}),
    "a head alone": (GOOD[:PACK_HEAD], SIZE, 18, {}),
    "left out": (GOOD, SIZE, 18, {"skipped": 1}),
}


@pytest.mark.parametrize("lie", LIES)
def test_r8_a_pack_that_lies_is_one_quarantined_row_and_harms_no_other(lie: str) -> None:
    pack, position, events, more = LIES[lie]
    segment = Segment()
    segment.packed("before", TEXT)
    segment.pack("liar", 0, position, pack, events, **more)
    segment.packed("behind", TEXT)
    table, batches = decoded(segment)
    assert [batch.rows for batch in batches] == [2, 1, 2]
    assert table["flag"].to_pylist() == [None, None, DAMAGED_PACK, None, None]
    row = table.slice(2, 1).to_pylist()[0]
    assert row["original"] == pack
    assert row["source"] == batches[1].source
    assert (row["start"], row["end"], row["message"]) == (None, None, "")
    assert orjson.loads(row["fields"])["error"]["message"]
    assert table["message"].to_pylist() == ["one", "two", "", "one", "two"]


def test_r8_a_form_is_the_headers_word_and_never_guessed_from_bytes() -> None:
    segment = Segment()
    segment.data_batch("a", 0, SIZE, [GOOD], 18)
    table, _ = decoded(segment)
    assert table["flag"].to_pylist() == [NOT_JSON]
    assert table["original"].to_pylist() == [GOOD]


def test_a_decoder_stops_where_it_holds_enough_and_goes_on_with_the_rest() -> None:
    segment, at = Segment(), 0
    for _ in range(8):
        at = segment.packed("a", b"line\n" * 20_000, at)
    decoder, place, rows = Decoder(STREAM, held_bytes=3 * 100_000), 0, []
    while place < len(segment.data):
        before = place
        place, used = decoder.decode_batches(SEGMENT, place, bytes(segment.data[place:]))
        assert place - before == used > 0
        rows.append(decoder.take_tables()[0].num_rows)
        assert not decoder.is_full
    assert sum(rows) == 160_000
    assert max(rows) == 20_000  # 64 bytes a row come on top of the text


def test_r8_packs_are_read_where_offsets_count_records() -> None:
    """As from S2 and Iggy: a batch of a pack counts two, its header and the pack."""
    segment = Segment()
    at = segment.packed("a", TEXT)
    segment.packed("b", TEXT * 9)
    segment.packed("a", TEXT, at)
    data, decoder = as_records(segment, 100), Decoder(STREAM, "records")
    assert decoder.decode_batches("s2/a", 100, data) == (106, len(data))
    table, batches = decoder.take_tables()
    assert [batch.rows for batch in batches] == [2, 18, 2]
    assert table["message"].to_pylist() == ["one", "two"] * 11


@pytest.mark.parametrize("name", [b'"web\xff1"', b"1e99999"])
@pytest.mark.parametrize("raw", [b'{"host":"\xff"}', b'["\xff"]', b"1e999"])
def test_r5_a_header_with_json_that_can_not_be_read_keeps_its_rows(name: bytes, raw: bytes) -> None:
    """A damaged one, or one that another client of the stream made up: readers go on behind it."""
    segment = Segment()
    content = b"one\ntwo\n"
    pack = make_pack(PackForm.TEXT, content, PackCodec.DEFLATE)
    segment.pack("a", 0, len(content), pack, 2, peer=msgspec.Raw(raw), mark=msgspec.Raw(raw))
    segment.data[:] = segment.data.replace(b'"web-1"', name)
    segment.packed("b", content)
    table, batches = decoded(segment)
    assert table["message"].to_pylist() == ["one", "two"] * 2
    assert table["host"].to_pylist()[2:] == ["web-1"] * 2
    assert [batch.position for batch in batches] == [len(content)] * 2
    batches_table(batches).validate(full=True)
