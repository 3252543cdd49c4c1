"""Frames as S2's clients and servers send them, both ways: tests/vectors/s2/frames.json."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from logdrive.wire.s2 import protobuf
from logdrive.wire.s2.errors import SeqNumMismatchError
from logdrive.wire.s2.frames import S2Frame, S2FrameReader, encode_frame, encode_terminal
from logdrive.wire.s2.json import (
    Format,
    decode_append_ack,
    decode_append_input,
    decode_read_batch,
)

VECTORS = json.loads((Path(__file__).parents[3] / "vectors/s2/frames.json").read_text())


class Codec(NamedTuple):
    from_json: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


CODECS = {
    "append_input": Codec(
        lambda data: decode_append_input(data, Format.RAW),
        protobuf.encode_append_input,
        protobuf.decode_append_input,
    ),
    "append_ack": Codec(decode_append_ack, protobuf.encode_append_ack, protobuf.decode_append_ack),
    "read_batch": Codec(
        lambda data: decode_read_batch(data, Format.RAW),
        protobuf.encode_read_batch,
        protobuf.decode_read_batch,
    ),
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_value_becomes_the_bytes_of_its_vector(vector: dict[str, Any]) -> None:
    codec = CODECS[vector["message"]]
    value = codec.from_json(json.dumps(vector["value"]).encode())
    frame = encode_frame(
        codec.encode(value), reconnect_advised=vector.get("reconnect_advised", False)
    )
    assert frame.hex() == vector["frame"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_bytes_of_a_vector_become_its_value(vector: dict[str, Any]) -> None:
    codec = CODECS[vector["message"]]
    reader = S2FrameReader(terminals=False)
    reader.receive(bytes.fromhex(vector["frame"]))
    frame = reader.next_frame()
    reader.finish()
    assert frame is not None
    assert frame.reconnect_advised == vector.get("reconnect_advised", False)
    assert codec.decode(frame.message) == codec.from_json(json.dumps(vector["value"]).encode())


def test_a_terminal_frame_has_status_and_error() -> None:
    data = bytes.fromhex("00001980019c") + b'{"seq_num_mismatch":8}'
    assert encode_terminal(SeqNumMismatchError(8)) == data
    reader = S2FrameReader(terminals=True)
    reader.receive(data)
    frame = reader.next_frame()
    assert isinstance(frame, S2Frame)
    assert isinstance(frame.error, SeqNumMismatchError)
    assert frame.error.seq_num == 8
