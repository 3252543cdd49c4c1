"""The two loops that run for every record: an append's bytes to events, events to a read's bytes.

Bytes in, bytes out; all else is done per batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from logdrive.model.framing import EVENT_HEAD, EVENT_HEAD_LAYOUT, Part, frame_events
from logdrive.services.s2.server.log.payload import (
    ENCRYPTED,
    HEAD_BYTES,
    MAGIC,
    METERED_OVERHEAD,
    Head,
    decode_fields,
    decode_head,
    encode_fields,
)
from logdrive.services.s2.server.log.positions import Position
from logdrive.services.s2.server.log.walk import NotEventsError
from logdrive.wire.s2.limits import BATCH_BYTES, HEADER_OVERHEAD_BYTES
from logdrive.wire.s2.protobuf import decode_append_input, encode_varint, parse_append_input
from logdrive.wire.s2.records import AppendInput, Record, check_input

OMITTED: Final = b"logdrive-omitted"
"""Header of a record that no S2 client could take: the length of the event that it stands for."""

MOST_MEMORY: Final = 10
"""Bytes that an append may take while it is parsed, for each byte of its message, or of JSON."""
_OBJECT_BYTES: Final = 128
"""Bytes of the objects of one header, or of a record."""

_FIRST: Final = MAGIC[0]
# Keys of fields, as they travel
_APPEND_HEADERS: Final = 0x12  # AppendRecord.headers
_APPEND_BODY: Final = 0x1A
_NAME: Final = 0x0A  # Header.name
_VALUE: Final = 0x12
_HEADERS: Final = 0x1A  # SequencedRecord.headers
_RECORD: Final = b"\x0a"  # AppendInput.records, ReadBatch.records
_SEQ_NUM: Final = b"\x08"  # SequencedRecord.seq_num
_TIMESTAMP: Final = b"\x10"
_BODY: Final = b"\x22"
_LOW: Final = [bytes((n | 0x80,)) for n in range(128)]
"""The first byte of a number of several bytes, by its low seven bits."""

# AppendInput -> events ---------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class ParsedAppend:
    """An append that breaks no limit; *metered* is its size as S2 counts it.

    Without headers and timestamps it is *events*, ready for the segment. With headers of the usual
    kind it is *fields*: those of each payload, and the metered size. Else it is *records*.
    """

    count: int
    metered: int
    match_seq_num: int | None
    fencing_token: str | None
    events: bytes | None = None
    fields: "Sequence[tuple[bytes, int]]" = ()
    records: Sequence[Record] = ()

    def memory(self) -> int:
        """Return about how many bytes it takes. A header of two bytes takes fifty times that."""
        if self.events is not None:
            return len(self.events)
        if self.fields:
            # as fields, and as the events that they become
            return sum(2 * len(one[0]) + _OBJECT_BYTES for one in self.fields)
        objects = self.count + sum(len(record.headers) for record in self.records)
        return self.metered + _OBJECT_BYTES * objects


def parse_append(data: bytes, *, framed: bool = False) -> ParsedAppend:
    """Return the append that the protobuf message *data* is.

    Raises `S2Error`: 400 bad_frame where the message is *framed*, else bad_proto; 422 for a limit.
    """
    message = parse_append_input(data, framed=framed)
    token = message.fencing_token if message.HasField("fencing_token") else None
    match = message.match_seq_num if message.HasField("match_seq_num") else None
    if token:  # says what is wrong with it, if anything is
        check_input(AppendInput((Record(b""),), match, token))
    size = len(data) - _condition_bytes(match, token)
    parsed = _parse_plain([record.body for record in message.records], size)
    if parsed is None:
        parsed = _parse_fields(data, size)
    if parsed is None or parsed.metered > BATCH_BYTES:
        return of_input(decode_append_input(data, framed=framed))
    parsed.match_seq_num, parsed.fencing_token = match, token
    return parsed


def _parse_plain(bodies: list[bytes], size: int) -> ParsedAppend | None:
    """Return an append of records with these *bodies*, a message of *size* bytes.

    None if there is more to them.
    """
    lengths = list(map(len, bodies))
    # there is nothing but bodies if the message is exactly as long as they make it
    if sum(map(_record_bytes, lengths)) != size:
        return None
    events = frame_events(bodies)
    # one byte is found faster than three, and UTF-8 never has it
    if MAGIC[:1] in events and any(body.startswith(MAGIC) for body in bodies):
        return None
    count = len(bodies)
    return ParsedAppend(count, METERED_OVERHEAD * count + sum(lengths), None, None, events)


def _parse_fields(data: bytes, size: int) -> ParsedAppend | None:
    """Return an append of records with short headers, the first *size* bytes of *data*.

    None if it has anything else: timestamps, commands, empty names or values, an encoding that is
    longer than need be. Fields 2 and 3 of an `AppendRecord` become 3 and 4 of a `SequencedRecord`,
    which takes a byte each. About 1 µs a record with two headers.
    """
    stored, spans, at = bytearray(data), [], 0
    try:
        while at < size:
            if data[at] != _RECORD[0]:
                return None
            at, length = _read_length(data, at + 1)
            start, end, metered = at, at + length, METERED_OVERHEAD
            while at < end and data[at] == _APPEND_HEADERS:
                # key, length; key, length, name; key, length, value
                header, name = data[at + 1], data[at + 3]
                value_at = at + 4 + name
                value = data[value_at + 1]
                if (
                    header > 127
                    or data[at + 2] != _NAME
                    or data[value_at] != _VALUE
                    or not name
                    or not value
                    or name + value + 4 != header
                ):
                    return None
                stored[at] = _HEADERS
                metered += header - 4 + HEADER_OVERHEAD_BYTES
                at += 2 + header
            if at < end:
                if data[at] != _APPEND_BODY:
                    return None
                stored[at] = _BODY[0]
                at, length = _read_length(data, at + 1)
                at += length
                metered += length
            if at != end:
                return None
            spans.append((start, end, metered))
    except IndexError:
        return None
    if at != size:
        return None
    frozen = bytes(stored)
    fields = [(frozen[start:end], metered) for start, end, metered in spans]
    return ParsedAppend(len(fields), sum(one[1] for one in fields), None, None, fields=fields)


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return where the length at *at* ends, and its value; of those with up to 3 bytes."""
    length = data[at]
    if length < 0x80:
        return at + 1, length
    length = length & 0x7F | data[at + 1] << 7
    if length < 0x4000:
        return at + 2, length
    return at + 3, length & 0x3FFF | data[at + 2] << 14


def of_input(append: AppendInput) -> ParsedAppend:
    """Return *append*, checked. Raises `S2Error`, 422."""
    metered = check_input(append)
    count = len(append.records)
    return ParsedAppend(
        count, metered, append.match_seq_num, append.fencing_token, records=append.records
    )


@lru_cache(maxsize=4096)
def _record_bytes(length: int) -> int:
    """Return the bytes that an `AppendRecord` with nothing but a body of *length* has there."""
    if not length:
        return 2
    record = 1 + len(encode_varint(length)) + length
    return 1 + len(encode_varint(record)) + record


def _condition_bytes(match: int | None, token: str | None) -> int:
    size = 0 if match is None else 1 + len(encode_varint(match))
    if token is None:
        return size
    length = len(token.encode())
    return size + 1 + len(encode_varint(length)) + length


# Events -> ReadBatch -----------------------------------------------------------------------------

Opener = Callable[[bytes], bytes]
"""Returns the fields that were encrypted. Raises `S2Error`."""


@dataclass(slots=True, eq=False)
class Limits:
    """What a batch may still take: *records*, and *nominal* metered bytes.

    A first record may have more than that, up to *hard* bytes. The batch ends before a record of
    *until* or later.
    """

    records: int
    nominal: int
    hard: int
    until: int


class BatchEncoder:
    """A `ReadBatch` that grows by events; *position* is behind its last record.

    With *careful*, what begins like one of our own payloads is decoded to see whether it is one.
    """

    def __init__(
        self, segment: str, position: Position, limits: Limits, opener: Opener, *, careful: bool
    ) -> None:
        self.position = position
        self.count = 0
        self.metered = 0
        # whether the next record is beyond a limit
        self.full = False
        # whether it has something that was not built here
        self.spliced = False
        self._segment = segment
        self._limits = limits
        self._opener = opener
        self._careful = careful
        self._parts: list[bytes] = []
        # the last timestamp added, and as it is encoded
        self._stamp = -1
        self._stamped = b""

    def encode(self) -> bytes:
        """Return the batch, without a tail."""
        return b"".join(self._parts)

    def add_events(self, time_ms: int, part: Part) -> None:
        """Add the whole events at the beginning of *part*, which were appended at *time_ms*.

        *part* begins at `position`. Costs about 0.6 µs an event. Raises `NotEventsError`, and
        what the opener raises.
        """
        data, unpack, parts = bytes(part), EVENT_HEAD_LAYOUT.unpack_from, self._parts
        size, at = len(data), 0
        offset, seq_num, timestamp = self.position
        plain = max(timestamp, time_ms)
        limits, metered = self._limits, self.metered
        most, nominal, until = seq_num + limits.records - self.count, limits.nominal, limits.until
        high = encode_varint(seq_num >> 7)
        # what stands before and after the number of a plain record, by the length of its body
        frames: dict[int, tuple[bytes, bytes]] = {}

        while at + EVENT_HEAD <= size:
            kind, length = unpack(data, at)
            if kind or length < 0:
                raise NotEventsError(self._segment, offset + at)
            body = at + EVENT_HEAD
            end = body + length
            if end > size:
                break

            head, stamp, cost = None, plain, length + METERED_OVERHEAD
            if length >= HEAD_BYTES and data[body] == _FIRST:
                head = decode_head(data, body, length)
                if head is not None:
                    stamp, cost = max(timestamp, head.timestamp), head.metered
            if (
                seq_num == most
                or stamp >= until
                or (metered + cost > nominal and (metered or cost > limits.hard))
            ):
                self.full = True
                break

            # the number; its bytes but the first change every 128 records
            low = seq_num & 127
            if not low:
                was, high = high, encode_varint(seq_num >> 7)
                if len(was) != len(high) or seq_num == 128:
                    frames.clear()
            number = _LOW[low] + high if seq_num > 127 else encode_varint(seq_num)

            if head is None:
                try:
                    before, after = frames[length]
                except KeyError:
                    before, after = frames[length] = _plain_frame(length, len(number), stamp)
                parts += (before, number, after, data[body:end])
            else:
                self._splice(head, number, stamp, data, body, end)
                if stamp > plain:
                    plain = stamp
                    frames.clear()
            timestamp = stamp
            metered += cost
            seq_num += 1
            at = end

        self.count += seq_num - self.position.seq_num
        self.metered = metered
        self.position = Position(offset + at, seq_num, timestamp)

    def add_omitted(self, time_ms: int, length: int) -> None:
        """Add an event of *length* bytes that no S2 client could take: its length, as a header."""
        offset, seq_num, timestamp = self.position
        timestamp = max(timestamp, time_ms)
        fields = encode_fields(((OMITTED, b"%d" % length),), b"")
        self._add(encode_varint(seq_num), timestamp, fields)
        self.count += 1
        self.metered += METERED_OVERHEAD
        self.position = Position(offset + EVENT_HEAD + length, seq_num + 1, timestamp)

    def _splice(
        self, head: Head, number: bytes, timestamp: int, data: bytes, body: int, end: int
    ) -> None:
        fields = data[body + HEAD_BYTES : end]
        if head.kind == ENCRYPTED:
            fields = self._opener(fields)
        if self._careful and decode_fields(fields) is None:
            fields = encode_fields((), data[body:end])
        self.spliced = True
        self._add(number, timestamp, fields)

    def _add(self, number: bytes, timestamp: int, fields: bytes) -> None:
        if timestamp != self._stamp:
            self._stamp, self._stamped = timestamp, _TIMESTAMP + encode_varint(timestamp)
        stamped = self._stamped
        size = len(_SEQ_NUM) + len(number) + len(stamped) + len(fields)
        self._parts += (_RECORD, encode_varint(size), _SEQ_NUM, number, stamped, fields)


def _plain_frame(length: int, number: int, timestamp: int) -> tuple[bytes, bytes]:
    """Return what stands before and after the number, of *number* bytes, of a plain record."""
    after = b"".join((_TIMESTAMP, encode_varint(timestamp), _BODY, encode_varint(length)))
    size = len(_SEQ_NUM) + number + len(after) + length
    return b"".join((_RECORD, encode_varint(size), _SEQ_NUM)), after
