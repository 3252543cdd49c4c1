"""`logdrive.wire.s2.protobuf`: round trips, protobuf's own encoder as witness, garbage."""

from collections.abc import Callable

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2 import messages_pb2 as pb
from logdrive.wire.s2.protobuf import (
    decode_append_ack,
    decode_append_input,
    decode_read_batch,
    encode_append_ack,
    encode_append_input,
    encode_read_batch,
    encode_read_batch_from,
    encode_varint,
    record_fragment,
    record_of,
)
from logdrive.wire.s2.records import (
    AppendAck,
    AppendInput,
    ReadBatch,
    Record,
    SequencedRecord,
    StreamPosition,
)
from tests.logdrive.wire.s2.samples import acks, batches, inputs, refusal, sequenced, u64s

BAD_PROTO = (400, "bad_proto")
INVALID = (422, "invalid")

DECODERS: list[Callable[..., object]] = [
    decode_append_input,
    decode_append_ack,
    decode_read_batch,
    lambda data, framed=False: record_of(0, data),
]


def same_bytes(message: Message, data: bytes) -> bool:
    """Whether protobuf's own encoder gives the same bytes for what *message* read in *data*."""
    message.ParseFromString(data)
    return message.SerializeToString(deterministic=True) == data


@given(inputs)
def test_an_append_is_read_as_it_was_written(append: AppendInput) -> None:
    data = encode_append_input(append)
    assert decode_append_input(data) == append
    assert same_bytes(pb.AppendInput(), data)


@given(acks)
def test_an_acknowledgement_is_read_as_it_was_written(ack: AppendAck) -> None:
    data = encode_append_ack(ack)
    assert decode_append_ack(data) == ack
    assert same_bytes(pb.AppendAck(), data)


@given(batches)
def test_a_batch_is_read_as_it_was_written(batch: ReadBatch) -> None:
    data = encode_read_batch(batch)
    assert decode_read_batch(data) == batch
    assert same_bytes(pb.ReadBatch(), data)


@given(sequenced)
def test_a_fragment_is_a_record_without_its_number(record: SequencedRecord) -> None:
    fragment = record_fragment(record.timestamp, record.headers, record.body)
    assert record_of(record.seq_num, fragment) == record
    assert same_bytes(pb.SequencedRecord(), fragment)


def test_a_batch_is_put_together_from_fragments() -> None:
    batch = ReadBatch(
        (SequencedRecord(0, 0, (), b""), SequencedRecord(1, 7, ((b"n", b"v"),), b"body")),
        StreamPosition(2, 7),
    )
    fragments = [
        (r.seq_num, record_fragment(r.timestamp, r.headers, r.body)) for r in batch.records
    ]
    assert encode_read_batch_from(fragments, batch.tail) == encode_read_batch(batch)


@given(u64s, st.integers(0, 63))
def test_numbers_of_all_lengths_are_written_as_protobuf_does(number: int, bits: int) -> None:
    for value in (number, 1 << bits, (1 << bits) - 1):
        expected = pb.StreamPosition(seq_num=value).SerializeToString()
        assert value == 0 or b"\x08" + encode_varint(value) == expected


@pytest.mark.parametrize(
    ("match", "token"), [(None, None), (0, None), (None, ""), (0, ""), (7, "token")]
)
def test_absent_conditions_differ_from_zero_and_empty(match: int | None, token: str | None) -> None:
    append = AppendInput((Record(b""),), match, token)
    assert decode_append_input(encode_append_input(append)) == append


@pytest.mark.parametrize("decode", DECODERS)
def test_bytes_that_are_no_message_are_refused(decode: Callable[..., object]) -> None:
    for data in (b"\x0a\x05x", b"\xff", b"\x0b", b"\x08" + b"\xff" * 11):
        assert refusal(decode, data) == BAD_PROTO


@pytest.mark.parametrize("decode", DECODERS[:3])
def test_within_a_frame_they_are_a_bad_frame(decode: Callable[..., object]) -> None:
    assert refusal(lambda: decode(b"\xff", framed=True)) == (400, "bad_frame")


@given(st.binary(max_size=200), st.sampled_from(DECODERS))
def test_garbage_raises_nothing_else(data: bytes, decode: Callable[..., object]) -> None:
    assert refusal(lambda: decode(data)) in (None, BAD_PROTO, INVALID)


@given(inputs, st.data())
def test_a_damaged_append_raises_nothing_else(append: AppendInput, data: st.DataObject) -> None:
    encoded = bytearray(encode_append_input(append))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    assert refusal(lambda: decode_append_input(bytes(encoded))) in (None, BAD_PROTO, INVALID)


def test_a_fencing_token_that_is_not_utf_8_is_refused() -> None:
    assert refusal(lambda: decode_append_input(b"\x0a\x00\x1a\x01\xff")) == BAD_PROTO


def test_too_many_records_are_refused_before_they_are_objects() -> None:
    assert len(decode_append_input(b"\x0a\x00" * 1000).records) == 1000
    for count in (0, 1001, 1_000_000):
        assert refusal(decode_append_input, b"\x0a\x00" * count) == INVALID


def test_unknown_fields_are_ignored() -> None:
    assert decode_append_input(b"\x0a\x04\x1a\x02hi\x78\x05").records == (Record(b"hi"),)
