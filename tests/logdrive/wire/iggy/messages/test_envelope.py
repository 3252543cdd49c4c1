"""A message is stored plainly where it can be; what looks like an envelope and is none is plain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.framing import frame_event, unframe_events
from logdrive.wire.iggy.messages.envelope import (
    StoredMessage,
    chosen_id,
    decode_message,
    encode_enveloped,
    encode_event,
)
from tests.logdrive.wire.iggy.messages.samples import SOURCE, messages


@given(messages)
def test_a_message_is_read_as_it_was_stored(message: StoredMessage) -> None:
    (payload,) = unframe_events(encode_enveloped(message))
    assert decode_message(payload) == decode_message(memoryview(payload)) == message
    assert chosen_id(payload) == message.id
    (payload,) = unframe_events(encode_event(message))
    assert decode_message(payload)._replace(origin=0) == message._replace(origin=0)
    assert chosen_id(payload) == message.id


def test_a_message_of_nothing_but_a_payload_is_stored_as_it_is() -> None:
    assert encode_event(StoredMessage(b"line", origin=5)) == frame_event(b"line")
    assert encode_event(StoredMessage(b"")) == frame_event(b"")
    assert decode_message(b"line") == StoredMessage(b"line")
    assert chosen_id(b"line") == 0


def test_an_envelope_has_the_bytes_that_were_decided() -> None:
    stored = encode_event(StoredMessage(b"x", SOURCE, id=2**64 + 1, origin=7))
    assert stored[8:40].hex() == (
        "ff494701" + "0100000000000000" + "0100000000000000" + "0700000000000000" + "24000000"
    )
    assert stored[40:] == SOURCE + b"x"
    assert encode_event(StoredMessage(b"\xffS2"))[8:] == b"\xffIG\x01" + bytes(28) + b"\xffS2"


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",
        b"\xffIG\x01",
        b"\xffIG\x01" + bytes(27),
        b"\xffIG\x02" + bytes(28),
        b"\xffS2R\x01" + bytes(40),
        b"\xffIG\x01" + bytes(24) + b"\x01\0\0\0",  # no header of one byte
        b"\xffIG\x01" + bytes(24) + b"\x01\0\0\0" + b"\x02",
        b"\xffIG\x01" + bytes(24) + b"\xff\xff\xff\xff" + b"x" * 300,
    ],
)
def test_what_only_begins_like_an_envelope_is_plain(payload: bytes) -> None:
    assert decode_message(payload) == StoredMessage(payload)
    assert chosen_id(payload) == 0


@given(st.binary(max_size=80))
def test_any_payload_is_a_message(tail: bytes) -> None:
    for payload in (tail, b"\xffIG\x01" + tail):
        message = decode_message(payload)
        assert message == StoredMessage(payload) or unframe_events(encode_enveloped(message)) == [
            payload
        ]
