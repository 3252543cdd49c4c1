"""Rules R1, R2 from end to end of the record: what the agent's encoders make of a file, the decoder
turns back into the file.
"""

from pathlib import Path

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logdrive.model.units import GIB
from logdrive.pipeline.bronze.rebuild import rebuild
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import BatchRow
from logdrive.records.blocks import LINE_PART_BYTES, BlockEncoder, Encoder
from logdrive.records.chunk import TextChunk
from logdrive.records.full_records import FullEncoder
from logdrive.records.pairs import PairEncoder, PairList, PairRecords
from logdrive.wire.lumberjack.frames import KeyValueFrame
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader
from receiver.dialects.events import record_of
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment

FULL = FullEncoder(
    {"host": {"name": "h"}, "agent": {"type": "logdrive"}},
    "/var/log/a.log",
    "0f" * 16,
    lambda: 1_790_000_000_000,
)
PAIRS = PairEncoder([("service", "web")], "h", "/var/log/a.log", "0f" * 16)
ENCODERS = [pytest.param(BlockEncoder(), id="blocks"), pytest.param(FULL, id="full records")]


def sent(encoder: Encoder, data: bytes) -> Segment:
    segment, at = Segment(), 0
    while at < len(data):  # an encoder may stop where the runs get too many
        for cut in encoder.encode_chunk(TextChunk(at, data, at, len(data)), 0, 0):
            segment.data_batch("a", at, cut.position, cut.records, cut.events)
            at = cut.position
    return segment


def back(segment: Segment) -> tuple[bytes, list[BatchRow]]:
    decoder = Decoder(STREAM, held_bytes=GIB)  # all at once
    assert decoder.decode_batches(SEGMENT, 0, bytes(segment.data))[0] == len(segment.data)
    rows, batches = decoder.take_tables()
    pieces = list(rebuild(rows))
    assert [at for at, _ in pieces] == [0][: len(pieces)]
    assert all(batch.rows == batch.events for batch in batches)
    assert set(rows["flag"].to_pylist()) <= {None}
    return b"".join(data for _, data in pieces), batches


odd = st.lists(
    st.one_of(
        st.sampled_from([b"\n", b"\r\n", b"\r", b"\xff\xfe", "ä€🦫".encode(), b"\0" * 9, b'"\\']),
        st.binary(max_size=9),
    )
).map(b"".join)


@pytest.mark.parametrize("encoder", ENCODERS)
@settings(deadline=None, max_examples=60)
@given(data=odd)
@example(
    data=b"x" * (2 * LINE_PART_BYTES + 7) + b"\r\n" + "ä".encode() * LINE_PART_BYTES + b"\n\xff" * 3
)
@example(data=b"\0" * 300_000)
@example(data=b"line\n" * 200_000)
def test_r2_what_the_agent_sends_becomes_the_file_again(encoder: Encoder, data: bytes) -> None:
    assert back(sent(encoder, data))[0] == data


@pytest.mark.parametrize("encoder", ENCODERS)
def test_r2_real_logs_come_back_byte_for_byte(encoder: Encoder, real_logs: list[Path]) -> None:
    for path in real_logs:
        data = path.read_bytes()[:600_000]
        assert back(sent(encoder, data))[0] == data, path


def test_full_records_over_plain_lumberjack_have_their_place_in_the_file_too() -> None:
    data = b"one\r\n\xff\nthree"
    segment = Segment()
    for cut in FULL.encode_chunk(TextChunk.from_whole_file(data), 0, 0):
        segment.foreign("agent", cut.records)
    decoder = Decoder(STREAM)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    rows, _ = decoder.take_tables()
    assert list(rebuild(rows)) == [(0, data)]
    assert set(rows["path"].to_pylist()) == {"/var/log/a.log"}


@given(data=odd)
@example(data=b"one\r\n\xff\nthree")
@example(data=b"x" * (LINE_PART_BYTES + 7) + b"\r\n")
@example(data=b"plain\n" * 2000)
def test_pairs_over_lumberjack_1_have_their_place_in_the_file_too__R2(data: bytes) -> None:
    segment = Segment()
    for cut in PAIRS.encode_chunk(TextChunk.from_whole_file(data), 0, 0) if data else []:
        assert isinstance(cut.records, PairRecords | PairList)
        frames = FrameReader(PLAIN_LUMBERJACK, side="reader", dialect="lumberjack").receive_data(
            cut.records.encode_frames(1)
        )
        segment.foreign(
            "agent", [record_of(frame) for frame in frames if isinstance(frame, KeyValueFrame)]
        )
    decoder = Decoder(STREAM)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    rows, _ = decoder.take_tables()
    assert b"".join(piece for _, piece in rebuild(rows)) == data
    assert set(rows["flag"].to_pylist()) <= {None}
    assert set(rows["path"].to_pylist()) <= {"/var/log/a.log"}
    assert set(rows["host"].to_pylist()) <= {"h"}
    assert all(orjson.loads(fields)["service"] == "web" for fields in rows["fields"].to_pylist())


@pytest.mark.parametrize(
    "odd", [{"line": 1}, {"offset": ["1", "2"]}, {"log.eol": None}, {"file": {}}]
)
def test_what_only_looks_like_pairs_of_ours_stays_as_it_came(odd: dict[str, object]) -> None:
    record = {"line": "x", "offset": "3", "file": "/f", "log.origin": "0f"} | odd
    segment = Segment()
    segment.foreign("somebody", [orjson.dumps(record)])
    decoder = Decoder(STREAM)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    (row,) = decoder.take_tables()[0].to_pylist()
    assert row["flag"] is None
    assert orjson.loads(row["fields"])["log.origin"] == "0f"


def test_r2_real_logs_come_back_from_the_table(real_logs: list[Path], tmp_path: Path) -> None:
    from logdrive.pipeline.bronze.rebuild import source_pieces
    from tests.logdrive.pipeline.segments import source_id

    segment = Segment()
    for path in real_logs:
        at, data = 0, path.read_bytes()
        for cut in BlockEncoder().encode_chunk(TextChunk.from_whole_file(data), 0, 0):
            segment.data_batch(path.name, at, cut.position, cut.records, cut.events)
            at = cut.position
    catch_up(tmp_path, segment)
    for path in real_logs:
        assert list(source_pieces(str(tmp_path), source_id(path.name))) == [(0, path.read_bytes())]


def test_r2_pairs_say_where_the_lines_of_an_event_are() -> None:
    segment = Segment()
    record = {
        "line": "a\nc",
        "offset": "0",
        "file": "/l",
        "log.origin": "0f" * 16,
        "log.parts": "0-2,4-6",
    }
    other = record | {"line": "b", "offset": "4", "log.parts": "2-4"}
    segment.foreign("ours", [orjson.dumps(record), orjson.dumps(other)])
    decoder = Decoder(STREAM, held_bytes=GIB)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    rows, _ = decoder.take_tables()
    assert list(rebuild(rows)) == [(0, b"a\nb\nc\n")]
