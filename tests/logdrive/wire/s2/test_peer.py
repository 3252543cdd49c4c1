"""S2's own Python client, as a library: it reads what we write, and we read what it writes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from logdrive.wire.s2.compression import Compression
from logdrive.wire.s2.errors import (
    FencingTokenMismatchError,
    SeqNumMismatchError,
    stream_not_found,
)
from logdrive.wire.s2.frames import S2FrameReader, encode_frame, encode_terminal
from logdrive.wire.s2.protobuf import (
    decode_append_input,
    encode_append_ack,
    encode_read_batch,
)
from logdrive.wire.s2.records import (
    AppendAck,
    AppendInput,
    ReadBatch,
    Record,
    SequencedRecord,
    StreamPosition,
    fence_record,
    metered_size,
    trim_record,
)

pytest.importorskip("s2_sdk", reason="S2's client is not installed")

import s2_sdk
from s2_sdk import _mappers as mappers
from s2_sdk._generated.s2.v1 import s2_pb2
from s2_sdk._s2s import _protocol as protocol

PEERS = {
    Compression.NONE: s2_sdk.Compression.NONE,
    Compression.ZSTD: s2_sdk.Compression.ZSTD,
    Compression.GZIP: s2_sdk.Compression.GZIP,
}
HEADERS = ((b"n", b"v"), (b"empty", b""), (b"n", b"again"))


async def split(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 100):
        yield data[at : at + 100]


def read_by_the_peer(data: bytes) -> list[protocol.Message]:
    async def read() -> list[protocol.Message]:
        return [message async for message in protocol.read_messages(split(data))]

    return asyncio.run(read())


@pytest.mark.parametrize("compression", Compression)
def test_the_peer_reads_our_batches(compression: Compression) -> None:
    records = tuple(
        SequencedRecord(n, 1000 + n, HEADERS if n % 2 else (), b"x" * n) for n in range(200)
    )
    batch = ReadBatch(records, StreamPosition(200, 1199))
    frame = encode_frame(encode_read_batch(batch), compression=compression, reconnect_advised=True)
    (message,) = read_by_the_peer(frame)
    assert message.reconnect_advised
    read = mappers.read_batch_from_proto(s2_pb2.ReadBatch.FromString(message.body))
    assert [(r.seq_num, r.timestamp, tuple(r.headers), r.body) for r in read.records] == [
        (r.seq_num, r.timestamp, r.headers, r.body) for r in records
    ]
    assert read.tail is not None
    assert (read.tail.seq_num, read.tail.timestamp) == (200, 1199)


def test_the_peer_reads_our_acknowledgements() -> None:
    ack = AppendAck(StreamPosition(1, 2), StreamPosition(3, 4), StreamPosition(5, 6))
    read = mappers.append_ack_from_proto(s2_pb2.AppendAck.FromString(encode_append_ack(ack)))
    assert (read.start.seq_num, read.end.timestamp, read.tail.seq_num) == (1, 4, 5)


@pytest.mark.parametrize("compression", Compression)
def test_we_read_the_appends_of_the_peer(compression: Compression) -> None:
    sent = s2_sdk.AppendInput(
        records=[
            s2_sdk.Record(b"x" * 2000, headers=list(HEADERS), timestamp=0),
            s2_sdk.Record(b""),
            s2_sdk.CommandRecord.fence("token"),
            s2_sdk.CommandRecord.trim(42),
        ],
        match_seq_num=0,
        fencing_token="",
    )
    body = mappers.append_input_to_proto(sent).SerializeToString()
    packed, used = protocol.maybe_compress(body, PEERS[compression])
    reader = S2FrameReader(terminals=False)
    reader.receive(protocol.frame_message(protocol.Message(packed, False, used)))
    frame = reader.next_frame()
    reader.finish()
    assert frame is not None
    assert decode_append_input(frame.message, framed=True) == AppendInput(
        (Record(b"x" * 2000, HEADERS, 0), Record(b""), fence_record("token"), trim_record(42)),
        0,
        "",
    )


def test_both_measure_a_record_alike() -> None:
    peer = s2_sdk.Record(b"body", headers=list(HEADERS))
    assert s2_sdk.metered_bytes([peer]) == metered_size(Record(b"body", HEADERS))


def test_the_peer_knows_our_terminal_frames() -> None:
    with pytest.raises(s2_sdk.SeqNumMismatchError) as number:
        read_by_the_peer(encode_terminal(SeqNumMismatchError(8)))
    assert number.value.expected_seq_num == 8
    with pytest.raises(s2_sdk.FencingTokenMismatchError) as token:
        read_by_the_peer(encode_terminal(FencingTokenMismatchError("t")))
    assert token.value.expected_fencing_token == "t"
    with pytest.raises(s2_sdk.S2ServerError) as other:
        read_by_the_peer(encode_terminal(stream_not_found("s")))
    assert (other.value.status_code, other.value.code) == (404, "stream_not_found")
