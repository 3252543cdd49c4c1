"""The messages of a client's send, as intervals of its bytes, in Python; see `iggy_plain`."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_forms import CLASSIC, RECORDS, MessageBytes
from logdrive.kernel.iggy_polled import FaultyMessagesError, read_frame

_LENGTH: Final = struct.Struct("<I")
_U64: Final = 0xFFFFFFFFFFFFFFFF


class SentMessage(NamedTuple):
    """A message that was sent: its headers and its payload as intervals."""

    id: bytes
    origin: int
    headers: int
    headers_end: int
    payload: int
    payload_end: int
    # where the bytes begin that its checksum covers, up to its end; 0: it was sent with none
    summed: int = 0
    sum: int = 0


def check_contents(message: SentMessage, data: MessageBytes, typed: bool) -> None:
    """Raise `FaultyMessagesError` for a wrong checksum, or user headers that can't be read."""
    _, _, headers, headers_end, _, payload_end, summed, checksum = message
    if summed and xxh3_64_intdigest(data[summed : max(payload_end, headers_end)]) != checksum:
        raise FaultyMessagesError(forms.MESSAGE_SUM)
    if headers == headers_end:
        return
    fault = forms.headers_fault(data, headers, headers_end, typed)
    if fault:
        raise FaultyMessagesError(fault)


def envelope_of(message: SentMessage, data: MessageBytes, typed: bool) -> bytes:
    """Return the envelope that precedes the payload of *message* in its event; b"" without one.

    It keeps a chosen id and user headers; and a payload that begins like an envelope has one.
    """
    size = message.payload_end - message.payload
    if (
        message.id == forms.NO_ID
        and message.headers == message.headers_end
        and not (size and data[message.payload] == forms.MAGIC[0])
    ):
        return b""
    kept = bytes(data[message.headers : message.headers_end])
    if not typed:
        kept = forms.add_key_kinds(kept)
    return forms.ENVELOPE.pack(forms.MAGIC, message.id, message.origin, len(kept)) + kept


def sent_messages(layout: int, data: MessageBytes, count: int) -> Iterator[SentMessage]:
    """Yield the messages in *data*, of which there are *count* where the layout has the number.

    Raises `FaultyMessagesError`.
    """
    if layout == CLASSIC:
        return _sent_classic(data)
    if layout == RECORDS:
        return _sent_record(data, count)
    return _sent_indexed(data, count, forms.HEAD_BYTES[layout])


def _sent_classic(data: MessageBytes) -> Iterator[SentMessage]:
    at, size, head = 0, len(data), forms.CLASSIC_SENT.size
    if not size:
        raise FaultyMessagesError(forms.COUNT)
    while at < size:
        if size - at < head:
            raise FaultyMessagesError(forms.CUT)
        named, length = forms.CLASSIC_SENT.unpack_from(data, at)
        headers = at + head
        headers_end = headers + length
        if headers_end + 4 > size:
            raise FaultyMessagesError(forms.CUT)
        start = headers_end + 4
        at = start + _LENGTH.unpack_from(data, headers_end)[0]
        if at > size:
            raise FaultyMessagesError(forms.CUT)
        yield SentMessage(named, 0, headers, headers_end, start, at)


def _sent_indexed(data: MessageBytes, count: int, head: int) -> Iterator[SentMessage]:
    entry = forms.INDEX_ENTRY.size
    begin, size = count * entry, len(data)
    if count <= 0:
        raise FaultyMessagesError(forms.COUNT)
    if begin > size:
        raise FaultyMessagesError(forms.INDEX)
    at = begin
    for place in range(0, begin, entry):
        offset, end, timestamp = forms.INDEX_ENTRY.unpack_from(data, place)
        end += begin
        if offset:
            raise FaultyMessagesError(forms.OFFSET)
        if timestamp:
            raise FaultyMessagesError(forms.TIMESTAMP)
        if end > size or end - at < head:
            raise FaultyMessagesError(forms.INDEX)
        _, named, _, _, origin, headers, payload = forms.HEAD.unpack_from(data, at)
        start = at + head
        at = start + payload + headers
        if at != end:
            raise FaultyMessagesError(forms.INDEX)
        yield SentMessage(named, origin, start + payload, end, start, start + payload)
    if at != size:
        raise FaultyMessagesError(forms.LEFT)


def _sent_record(data: MessageBytes, count: int) -> Iterator[SentMessage]:
    size = len(data)
    if size < forms.RECORD_BYTES:
        raise FaultyMessagesError(forms.LENGTH)
    partition, offset, time, origin, length, checksum, messages = forms.RECORD.unpack_from(data)
    if offset:
        raise FaultyMessagesError(forms.OFFSET)
    if time:
        raise FaultyMessagesError(forms.TIMESTAMP)
    if any(data[forms.RECORD.size : forms.RECORD_BYTES]):
        raise FaultyMessagesError(forms.RESERVED)
    if length != size:
        raise FaultyMessagesError(forms.LENGTH)
    if messages == 0 or messages != count:
        raise FaultyMessagesError(forms.COUNT)
    at, sums = forms.RECORD_BYTES, bytearray()
    for number in range(messages):
        frame = read_frame(data, at, size)
        if frame.delta != number:
            raise FaultyMessagesError(forms.DELTA)
        yield SentMessage(
            frame.id,
            origin + frame.later & _U64,
            frame.payload_end,
            frame.end,
            frame.payload,
            frame.payload_end,
            at + 8,
            frame.sum,
        )
        sums += data[at : at + 8]
        at = frame.end
    if at != size:
        raise FaultyMessagesError(forms.LEFT)
    if (
        xxh3_64_intdigest(forms.SUMMED.pack(partition, 0, 0, origin, length, messages) + sums)
        != checksum
    ):
        raise FaultyMessagesError(forms.BATCH_SUM)
