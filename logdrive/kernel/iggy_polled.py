"""Messages of a poll's reply, one after the other, in Python.

For `iggy_plain.cut_messages`, and for clients that look at more than payloads.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from xxhash import xxh3_64_intdigest

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_forms import CLASSIC, HEAD_64, RECORDS, MessageBytes

_LENGTH: Final = struct.Struct("<I")
_U64: Final = 2**64 - 1


class FaultyMessagesError(Exception):
    """Messages are not as they should be: *fault* is one of `iggy_forms`."""

    def __init__(self, fault: int) -> None:
        super().__init__(fault)
        self.fault = fault


class FramedMessage(NamedTuple):
    """A message of a record (R3); its parts are intervals."""

    sum: int
    id: bytes
    delta: int
    # µs behind the record's origin
    later: int
    payload: int
    payload_end: int
    end: int


class PolledMessage(NamedTuple):
    """A message, and where its headers and its payload are; it is whole before *end*."""

    offset: int
    id: bytes
    timestamp: int
    origin: int
    headers: int
    headers_end: int
    payload: int
    payload_end: int
    end: int


def read_frame(data: MessageBytes, at: int, size: int) -> FramedMessage:
    """Return the frame at *at*, whole before *size*. Raises `FaultyMessagesError`."""
    if size - at < forms.FRAME.size:
        raise FaultyMessagesError(forms.CUT)
    checksum, named, delta, later, headers, length, reserved = forms.FRAME.unpack_from(data, at)
    if reserved:
        raise FaultyMessagesError(forms.RESERVED)
    start = at + forms.FRAME.size
    end = start + length + headers
    if end > size:
        raise FaultyMessagesError(forms.CUT)
    return FramedMessage(checksum, named, delta, later, start, start + length, end)


def polled_messages(layout: int, data: MessageBytes, at: int) -> Iterator[PolledMessage]:
    """Yield the messages in *data* from *at* on, of a single record in RECORDS.

    Raises `FaultyMessagesError` where one is cut off, or its checksum is wrong.
    """
    if layout == RECORDS:
        return _record(data, at)
    return _classic(data, at) if layout == CLASSIC else _headed(layout, data, at)


def _classic(data: MessageBytes, at: int) -> Iterator[PolledMessage]:
    size, head = len(data), forms.CLASSIC_HEAD.size
    while at < size:
        if size - at < head:
            raise FaultyMessagesError(forms.CUT)
        offset, _, timestamp, named, checksum, length = forms.CLASSIC_HEAD.unpack_from(data, at)
        headers = at + head
        headers_end = headers + length
        start = headers_end + _LENGTH.size
        if start > size:
            raise FaultyMessagesError(forms.CUT)
        at = start + _LENGTH.unpack_from(data, headers_end)[0]
        if at > size:
            raise FaultyMessagesError(forms.CUT)
        if crc32(data[start:at]) != checksum:
            raise FaultyMessagesError(forms.MESSAGE_SUM)
        yield PolledMessage(offset, named, timestamp, 0, headers, headers_end, start, at, at)


def _headed(layout: int, data: MessageBytes, at: int) -> Iterator[PolledMessage]:
    size, head = len(data), forms.HEAD.size + 8 * (layout == HEAD_64)
    while at < size:
        if size - at < head:
            raise FaultyMessagesError(forms.CUT)
        fields = forms.HEAD.unpack_from(data, at)
        checksum, named, offset, timestamp, origin, headers, length = fields
        begin, start = at + 8, at + head
        payload_end = start + length
        at = payload_end + headers
        if at > size:
            raise FaultyMessagesError(forms.CUT)
        if xxh3_64_intdigest(data[begin:at]) != checksum:
            raise FaultyMessagesError(forms.MESSAGE_SUM)
        yield PolledMessage(
            offset, named, timestamp, origin, payload_end, at, start, payload_end, at
        )


def _record(data: MessageBytes, at: int) -> Iterator[PolledMessage]:
    """Yield a record's messages; the last one only once the record's own checksum is right."""
    if len(data) - at < forms.RECORD_BYTES:
        raise FaultyMessagesError(forms.LENGTH)
    fields = forms.RECORD.unpack_from(data, at)
    _, base, time, origin, length, checksum, count = fields
    end = at + length
    if length < forms.RECORD_BYTES or end > len(data):
        raise FaultyMessagesError(forms.LENGTH)
    if count == 0:
        raise FaultyMessagesError(forms.COUNT)
    messages: list[PolledMessage] = []
    first = 0
    place, sums = at + forms.RECORD_BYTES, bytearray()
    for number in range(count):
        frame = read_frame(data, place, end)
        if messages and frame.delta != first + number:
            raise FaultyMessagesError(forms.DELTA)
        if not messages:
            first = frame.delta
        if xxh3_64_intdigest(data[place + 8 : frame.end]) != frame.sum:
            raise FaultyMessagesError(forms.MESSAGE_SUM)
        sums += data[place : place + 8]
        place = frame.end
        messages.append(
            PolledMessage(
                base + frame.delta & _U64,
                frame.id,
                time,
                origin + frame.later & _U64,
                frame.payload_end,
                frame.end,
                frame.payload,
                frame.payload_end,
                end if number == count - 1 else frame.end,
            )
        )
    if place != end:
        raise FaultyMessagesError(forms.LEFT)
    if xxh3_64_intdigest(forms.SUMMED.pack(*fields[:5], count) + sums) != checksum:
        raise FaultyMessagesError(forms.BATCH_SUM)
    yield from messages
