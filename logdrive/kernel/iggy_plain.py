"""The loops that run once per message of Iggy's protocol, in Python.

`iggy_loops` uses the compiled ones if there are any; the docstrings here describe both. The layouts
of messages are described in docs/protocols/iggy.md#messages, that of an envelope in
logdrive/wire/iggy/messages/envelope.py.
"""

import struct
from typing import Final
from zlib import crc32

from xxhash import xxh3_64_intdigest

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_forms import CLASSIC, HEAD_64, RECORDS, MessageBytes
from logdrive.kernel.iggy_polled import FaultyMessagesError, polled_messages
from logdrive.kernel.iggy_sent import check_contents, envelope_of, sent_messages

_EVENT: Final = struct.Struct(">ii")  # a Pravega event's head: type 0, length
_LENGTH: Final = struct.Struct("<I")
_SUM: Final = struct.Struct("<Q")
_FIRST: Final = forms.MAGIC[0]
_AVAILABLE: Final = 1  # the state of every message
_U32: Final = 0xFFFFFFFF
_U64: Final = 0xFFFFFFFFFFFFFFFF
_PAYLOAD_MOST: Final = 1 << 30  # so that each event has room for its headers, too


# Sends: messages -> events ------------------------------------------------------------------------


def frame_messages(
    layout: int,
    data: MessageBytes,
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
    pieces: list[MessageBytes] = []
    typed = layout >= HEAD_64
    most_payload = min(most_payload, _PAYLOAD_MOST)
    longest = total = 0
    chosen = False
    try:
        for message in sent_messages(layout, data, count):
            _, _, headers, headers_end, start, end, _, _ = message
            length = end - start
            total += length
            if headers_end - headers > most_headers:
                raise FaultyMessagesError(forms.HEADERS_LONG)
            if not length and not empty:
                raise FaultyMessagesError(forms.PAYLOAD_EMPTY)
            if length > most_payload or total > most_total:
                raise FaultyMessagesError(forms.PAYLOAD_LONG)
            check_contents(message, data, typed)

            chosen = chosen or message.id != forms.NO_ID
            head = envelope_of(message, data, typed)
            size = len(head) + length
            longest = max(longest, size)
            pieces += (_EVENT.pack(0, size), head, data[start:end])
    except FaultyMessagesError as error:
        return error.fault, b"", 0, 0, False
    return forms.NONE, b"".join(pieces), len(pieces) // 3, longest, chosen


# Stored events -> messages of a poll, or of a send ------------------------------------------------


def encode_messages(
    layout: int,
    sent: bool,
    data: MessageBytes,
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
    that have no time of their own. A message without a chosen id gets one: *seed* and its offset,
    8 bytes each. In RECORDS they are one record, of *partition*.

    With *sent* they are messages as a client sends them, with what precedes them behind their
    number: then offset, time, seed and partition should be 0, and ids are not derived.

    Stops before more than *most* messages or *limit* bytes. Return the messages, *at* behind them,
    how many they are, and why it has stopped. All numbers are below 2^64. Raises ValueError if *at*
    is outside of *data*.
    """
    if not 0 <= at <= len(data):
        raise ValueError("no event there")
    messages = _Encoded(layout, sent, offset, time, seed, partition)
    add, unpack, head, size = messages.add, _EVENT.unpack_from, _EVENT.size, len(data)
    why = forms.OVER
    while size - at >= head:
        kind, length = unpack(data, at)
        if kind or length < 0:
            why = forms.BROKEN
            break
        body = at + head
        end = body + length
        if end > size:
            break
        message = _stored_message(data, body, end, origin)
        if message is None:
            why = forms.OTHER
            break
        if messages.count == most or not add(*message, limit):
            why = forms.FULL
            break
        at = end
    return messages.encode(), at, messages.count, why


def _stored_message(
    data: MessageBytes, body: int, end: int, origin: int
) -> tuple[bytes, int, bytes, MessageBytes] | None:
    """Return id, origin time, user headers and payload of the event with the payload [body, end).

    A message without a time of its own has *origin*. None if it begins like an envelope, and is
    none of this version.
    """
    if body == end or data[body] != _FIRST:
        return forms.NO_ID, origin, b"", data[body:end]
    opened = forms.open_envelope(data, body, end)
    if opened is None:
        return None
    named, own, payload = opened
    headers = bytes(data[body + forms.ENVELOPE.size : payload])
    return named, own or origin, headers, data[payload:end]


class _Encoded:
    """Messages of one layout that grow up to a limit."""

    def __init__(
        self, layout: int, sent: bool, offset: int, time: int, seed: int, partition: int
    ) -> None:
        self.count = 0
        self._layout, self._sent = layout, sent
        self._offset, self._time, self._partition = offset, time, partition
        self._seed = _SUM.pack(seed)
        self._messages: list[tuple[bytes, int, bytes, MessageBytes]] = []
        self._size = forms.RECORD_BYTES if layout == RECORDS else 0
        # bytes of a message beside its headers and payload
        self._beside = self._head_bytes()
        # of the messages' origins
        self._first, self._last = 0, 0

    def add(
        self, named: bytes, origin: int, headers: bytes, payload: MessageBytes, limit: int
    ) -> bool:
        """Add a message; return False if there is no room for it in *limit* or in the record."""
        if headers and self._layout < HEAD_64:
            headers = forms.drop_key_kinds(headers)
        count, first, last = self.count, self._first, self._last
        if not count:
            first = last = origin
        elif origin < first:
            first = origin
        elif origin > last:
            last = origin
        if self._layout == RECORDS and last - first > _U32:
            return False
        size = self._size + self._beside + len(headers) + len(payload)
        if size > limit:
            return False
        if named == forms.NO_ID and not self._sent:
            named = self._seed + _SUM.pack(self._offset + count & _U64)
        self._messages.append((named, origin, headers, payload))
        self.count = count + 1
        self._size, self._first, self._last = size, first, last
        return True

    def _head_bytes(self) -> int:
        if self._layout == RECORDS:
            return forms.FRAME.size
        if self._layout == CLASSIC:
            return 4 + (forms.CLASSIC_SENT.size if self._sent else forms.CLASSIC_HEAD.size)
        return forms.HEAD_BYTES[self._layout] + self._sent * forms.INDEX_ENTRY.size

    def encode(self) -> bytes:
        """Return the messages."""
        if not self._messages:
            return b""
        if self._layout == RECORDS:
            return self._record()
        return self._classic() if self._layout == CLASSIC else self._indexed()

    def _classic(self) -> bytes:
        pieces: list[MessageBytes] = []
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
        index: list[MessageBytes] = []
        pieces: list[MessageBytes] = []
        end, reserved = 0, bytes(forms.HEAD_BYTES[self._layout] - forms.HEAD.size)
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
        checksum = xxh3_64_intdigest(forms.SUMMED.pack(*fields, self.count) + sums)
        head = forms.RECORD.pack(*fields, checksum, self.count).ljust(forms.RECORD_BYTES, b"\0")
        return b"".join((head, *pieces))


# Messages of a poll -> events --------------------------------------------------------------------


def cut_messages(layout: int, data: MessageBytes, at: int) -> tuple[bytes, int, int, int, int]:
    """Convert messages of a poll's reply, from *at* on, to Pravega events of their payloads.

    Converts those with consecutive offsets, in RECORDS those of one record, and checks their
    checksums. Return the events, the first one's offset, how many they are, where the next message
    begins, and what is wrong with it, or NONE. In RECORDS none are returned of a faulty record.
    Raises ValueError if *at* is outside of *data*.
    """
    if not 0 <= at <= len(data):
        raise ValueError("no message there")
    pieces: list[MessageBytes] = []
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
