"""Rules R1, R2 from end to end of the record: what the agent's encoders make of a file, the decoder turns back into the file."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.encoder import PIECE_BYTES, BlockEncoder, Encoder
from agent.full import FullEncoder
from agent.generation import Chunk
from logdrive.pipeline.decode import Decoder
from logdrive.pipeline.headers import BatchRow
from logdrive.pipeline.rebuild import rebuild
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment

FULL = FullEncoder({"host": {"name": "h"}, "agent": {"type": "logdrive"}}, "/var/log/a.log", "0f" * 16, lambda: 1_790_000_000_000)
ENCODERS = [pytest.param(BlockEncoder(), id="blocks"), pytest.param(FULL, id="full records")]


def sent(encoder: Encoder, data: bytes) -> Segment:
    segment, at = Segment(), 0
    while at < len(data):  # an encoder may stop where the runs get too many
        for cut in encoder.encode(Chunk(at, data, at, len(data))):
            segment.data_batch("a", at, cut.end, cut.records, cut.events)
            at = cut.end
    return segment


def back(segment: Segment) -> tuple[bytes, list[BatchRow]]:
    decoder = Decoder(STREAM)
    assert decoder.feed(SEGMENT, 0, bytes(segment.data)) == len(segment.data)
    rows, batches = decoder.take()
    pieces = list(rebuild(rows))
    assert [at for at, _ in pieces] == [0][: len(pieces)]
    assert all(batch.rows == batch.events for batch in batches)
    assert set(rows["flag"].to_pylist()) <= {None}
    return b"".join(data for _, data in pieces), batches


odd = st.lists(
    st.one_of(st.sampled_from([b"\n", b"\r\n", b"\r", b"\xff\xfe", "ä€🦫".encode(), b"\0" * 9, b'"\\']), st.binary(max_size=9))
).map(b"".join)


@pytest.mark.parametrize("encoder", ENCODERS)
@settings(deadline=None, max_examples=60)
@given(data=odd)
@example(data=b"x" * (2 * PIECE_BYTES + 7) + b"\r\n" + "ä".encode() * PIECE_BYTES + b"\n\xff" * 3)
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
    for cut in FULL.encode(Chunk.whole(data)):
        segment.foreign("agent", cut.records)
    decoder = Decoder(STREAM)
    decoder.feed(SEGMENT, 0, bytes(segment.data))
    rows, _ = decoder.take()
    assert list(rebuild(rows)) == [(0, data)]
    assert set(rows["path"].to_pylist()) == {"/var/log/a.log"}


def test_r2_real_logs_come_back_from_the_table(real_logs: list[Path], tmp_path: Path) -> None:
    from logdrive.pipeline.rebuild import source_pieces
    from tests.logdrive.pipeline.segments import source_id

    segment = Segment()
    for path in real_logs:
        at, data = 0, path.read_bytes()
        for cut in BlockEncoder().encode(Chunk.whole(data)):
            segment.data_batch(path.name, at, cut.end, cut.records, cut.events)
            at = cut.end
    catch_up(tmp_path, segment)
    for path in real_logs:
        assert list(source_pieces(str(tmp_path), source_id(path.name))) == [(0, path.read_bytes())]
