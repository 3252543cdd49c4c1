"""The loops that run once per message of Iggy's protocol, in Python.

`iggy_loops` uses the compiled ones if there are any; the docstrings here describe both. The layouts
of messages are described in docs/protocols/iggy.md#messages, that of an envelope in
logdrive/wire/iggy/messages/envelope.py.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from xxhash import xxh3_64_intdigest

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_forms import CLASSIC, HEAD_56, HEAD_64, RECORDS, Bytes
from logdrive.kernel.iggy_polled import FaultyMessagesError, polled_messages, read_frame

_EVENT: Final = struct.Struct(">ii")  # a Pravega event's head: type 0, length
_LENGTH: Final = struct.Struct("<I")
_SUM: Final = struct.Struct("<Q")
_SUMMED: Final = struct.Struct("<QQQQQI")  # what a record's checksum covers, before those of frames
_HEAD_BYTES: Final = {HEAD_56: forms.HEAD.size, HEAD_64: forms.HEAD.size + 8}
_FIRST: Final = forms.MAGIC[0]
_AVAILABLE: Final = 1  # the state of every message
_U32: Final = 0xFFFFFFFF
_U64: Final = 0xFFFFFFFFFFFFFFFF
_PAYLOAD_MOST: Final = 1 << 30  # so that each event has room for its headers, too


# Sends: messages -> events ------------------------------------------------------------------------


class _Sent(NamedTuple):
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


def frame_messages(
    layout: int,
    data: Bytes,
    count: int,
    most_payload: int,
    most_total: int,
    most_headers: int,
    empty: bool,
) -> tuple[int, bytes, int, int, bool]:
    """Convert the messages of a send to Pravega events (`i32 0, i32 length, payload`).

    *data* is what follows the number of messages, *count*; CLASSIC has no number. Payloads have at
    most *most_payload* bytes, together *most_total*, and with *empty* they may have none; the user
    headers of a message have at most *most_headers*.

    Return what is wrong, or NONE; the events back to back; how many there are; the length of the
    longest event's payload; and whether a message has an id that its client chose.
    """
    pieces: list[Bytes] = []
    typed = layout >= HEAD_64
    most_payload = min(most_payload, _PAYLOAD_MOST)
    longest = total = 0
    chosen = False
    try:
        for message in _sent_messages(layout, data, count):
            named, origin, headers, headers_end, start, end, summed, checksum = message
            length = end - start
            total += length
            if headers_end - headers > most_headers:
                raise FaultyMessagesError(forms.HEADERS_LONG)
            if not length and not empty:
                raise FaultyMessagesError(forms.PAYLOAD_EMPTY)
            if length > most_payload or total > most_total:
                raise FaultyMessagesError(forms.PAYLOAD_LONG)
            if summed and xxh3_64_intdigest(data[summed : max(end, headers_end)]) != checksum:
                raise FaultyMessagesError(forms.MESSAGE_SUM)
            if headers != headers_end:
                fault = forms.headers_fault(data, headers, headers_end, typed)
                if fault:
                    raise FaultyMessagesError(fault)

            head = b""
            if named != forms.NO_ID:
                chosen = True
            if named != forms.NO_ID or headers != headers_end or (length and data[start] == _FIRST):
                kept = bytes(data[headers:headers_end])
                if not typed:
                    kept = forms.add_key_kinds(kept)
                head = forms.ENVELOPE.pack(forms.MAGIC, named, origin, len(kept)) + kept
            size = len(head) + length
            longest = max(longest, size)
            pieces += (_EVENT.pack(0, size), head, data[start:end])
    except FaultyMessagesError as error:
        return error.fault, b"", 0, 0, False
    return forms.NONE, b"".join(pieces), len(pieces) // 3, longest, chosen


def _sent_messages(layout: int, data: Bytes, count: int) -> Iterator[_Sent]:
    if layout == CLASSIC:
        return _sent_classic(data)
    if layout == RECORDS:
        return _sent_record(data, count)
    return _sent_indexed(data, count, _HEAD_BYTES[layout])


def _sent_classic(data: Bytes) -> Iterator[_Sent]:
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
        yield _Sent(named, 0, headers, headers_end, start, at)


def _sent_indexed(data: Bytes, count: int, head: int) -> Iterator[_Sent]:
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
        yield _Sent(named, origin, start + payload, end, start, start + payload)
    if at != size:
        raise FaultyMessagesError(forms.LEFT)


def _sent_record(data: Bytes, count: int) -> Iterator[_Sent]:
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
        yield _Sent(
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
        xxh3_64_intdigest(_SUMMED.pack(partition, 0, 0, origin, length, messages) + sums)
        != checksum
    ):
        raise FaultyMessagesError(forms.BATCH_SUM)


# Stored events -> messages of a poll, or of a send ------------------------------------------------


class _Stored(NamedTuple):
    """A message that an event is."""

    id: bytes
    origin: int
    headers: bytes
    payload: Bytes


def encode_messages(
    layout: int,
    sent: bool,
    data: Bytes,
    at: int,
    offset: int,
    time: int,
    origin: int,
    seed: int,
    partition: int,
    most: int,
    limit: int,
) -> tuple[bytes, int, int, int]:
    """Convert the Pravega events in *data*, from *at* on, to messages as a poll returns them.

    The first is message *offset*; *time* is that of their append, and *origin* that of messages
    that have no time of their own. A message without a chosen id gets *seed* and its offset as two
    numbers. In RECORDS they are one record, of *partition*.

    With *sent* they are messages as a client sends them, with what precedes them behind their
    number: then offset, time, seed and partition should be 0, and nothing is made up of them.

    Stops before more than *most* messages or *limit* bytes. Return the messages, *at* behind them,
    how many they are, and why it has stopped. All numbers are below 2^64. Raises ValueError if *at*
    is outside of *data*.
    """
    if not 0 <= at <= len(data):
        raise ValueError("no event there")
    messages = _Encoded(layout, sent, offset, time, seed, partition)
    why = forms.OVER
    while len(data) - at >= _EVENT.size:
        kind, length = _EVENT.unpack_from(data, at)
        if kind or length < 0:
            why = forms.BROKEN
            break
        body = at + _EVENT.size
        end = body + length
        if end > len(data):
            break
        stored = _Stored(forms.NO_ID, 0, b"", data[body:end])
        if length and data[body] == _FIRST:
            opened = forms.open_envelope(data, body, end)
            if opened is None:
                why = forms.OTHER
                break
            headers = body + forms.ENVELOPE.size
            named, own, start = opened
            stored = _Stored(named, own, bytes(data[headers:start]), data[start:end])
        if messages.count == most or not messages.add(stored, origin, limit):
            why = forms.FULL
            break
        at = end
    return messages.encode(), at, messages.count, why


class _Encoded:
    """Messages of one layout that grow up to a limit."""

    def __init__(
        self, layout: int, sent: bool, offset: int, time: int, seed: int, partition: int
    ) -> None:
        self.count = 0
        self._layout, self._sent = layout, sent
        self._offset, self._time, self._partition = offset, time, partition
        self._seed = _SUM.pack(seed)
        self._messages: list[tuple[bytes, int, bytes, Bytes]] = []
        self._size = forms.RECORD_BYTES if layout == RECORDS else 0
        # of the messages' origins
        self._first, self._last = 0, 0

    def add(self, stored: _Stored, default: int, limit: int) -> bool:
        """Add a message; return False if *limit* has no room for it, or the record can't hold it.

        *default* is the origin of a message without one.
        """
        named, origin, headers, payload = stored
        if self._layout < HEAD_64:
            headers = forms.drop_key_kinds(headers)
        origin = origin or default
        first = min(self._first, origin) if self.count else origin
        last = max(self._last, origin) if self.count else origin
        if self._layout == RECORDS and (last - first > _U32 or self.count == _U32):
            return False
        size = self._size + self._head_bytes() + len(headers) + len(payload)
        if size > limit:
            return False
        if named == forms.NO_ID and not self._sent:
            named = self._seed + _SUM.pack(self._offset + self.count & _U64)
        self._messages.append((named, origin, headers, payload))
        self.count += 1
        self._size, self._first, self._last = size, first, last
        return True

    def _head_bytes(self) -> int:
        """Return the bytes of a message beside its headers and payload."""
        if self._layout == RECORDS:
            return forms.FRAME.size
        if self._layout == CLASSIC:
            return 4 + (forms.CLASSIC_SENT.size if self._sent else forms.CLASSIC_HEAD.size)
        return _HEAD_BYTES[self._layout] + self._sent * forms.INDEX_ENTRY.size

    def encode(self) -> bytes:
        """Return the messages."""
        if not self._messages:
            return b""
        if self._layout == RECORDS:
            return self._record()
        return self._classic() if self._layout == CLASSIC else self._indexed()

    def _classic(self) -> bytes:
        pieces: list[Bytes] = []
        for number, (named, _, headers, payload) in enumerate(self._messages):
            if self._sent:
                head = forms.CLASSIC_SENT.pack(named, len(headers))
            else:
                offset = self._offset + number & _U64
                head = forms.CLASSIC_HEAD.pack(
                    offset, _AVAILABLE, self._time, named, crc32(payload), len(headers)
                )
            pieces += (head, headers, _LENGTH.pack(len(payload)), payload)
        return b"".join(pieces)

    def _indexed(self) -> bytes:
        index: list[Bytes] = []
        pieces: list[Bytes] = []
        end, reserved = 0, bytes(_HEAD_BYTES[self._layout] - forms.HEAD.size)
        for number, (named, origin, headers, payload) in enumerate(self._messages):
            offset = 0 if self._sent else self._offset + number & _U64
            time = 0 if self._sent else self._time
            lengths = len(headers), len(payload)
            head = forms.HEAD.pack(0, named, offset, time, origin, *lengths) + reserved
            summed = b"".join((head[8:], payload, headers))
            checksum = 0 if self._sent else xxh3_64_intdigest(summed)
            pieces += (_SUM.pack(checksum), summed)
            if self._sent:
                end += 8 + len(summed)
                index.append(forms.INDEX_ENTRY.pack(0, end & _U32, 0))
        return b"".join(index + pieces)

    def _record(self) -> bytes:
        pieces: list[bytes] = []
        for number, (named, origin, headers, payload) in enumerate(self._messages):
            lengths = len(headers), len(payload)
            head = forms.FRAME.pack(0, named, number, origin - self._first, *lengths, 0)
            summed = b"".join((head[8:], payload, headers))
            pieces += (_SUM.pack(xxh3_64_intdigest(summed)), summed)
        fields = (self._partition, self._offset, self._time, self._first, self._size)
        sums = b"".join(pieces[::2])
        checksum = xxh3_64_intdigest(_SUMMED.pack(*fields, self.count) + sums)
        head = forms.RECORD.pack(*fields, checksum, self.count).ljust(forms.RECORD_BYTES, b"\0")
        return b"".join((head, *pieces))


# Messages of a poll -> events --------------------------------------------------------------------


def cut_messages(layout: int, data: Bytes, at: int) -> tuple[bytes, int, int, int, int]:
    """Convert messages of a poll's reply, from *at* on, to Pravega events of their payloads.

    Converts those with consecutive offsets, in RECORDS those of one record, and checks their
    checksums. Return the events, the first one's offset, how many they are, where the next message
    begins, and what is wrong with it, or NONE. In RECORDS none are returned of a faulty record.
    Raises ValueError if *at* is outside of *data*.
    """
    if not 0 <= at <= len(data):
        raise ValueError("no message there")
    pieces: list[Bytes] = []
    first = count = 0
    fault = forms.NONE
    try:
        for message in polled_messages(layout, data, at):
            if not count:
                first = message.offset
            elif message.offset != first + count & _U64:
                break
            start, end = message.payload, message.payload_end
            pieces += (_EVENT.pack(0, end - start), data[start:end])
            count += 1
            at = message.end
    except FaultyMessagesError as error:
        fault = error.fault
    return b"".join(pieces), first, count, at, fault
