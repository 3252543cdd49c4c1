"""What runs for every record: an append's bytes to events, events to a read's bytes.

Bytes in, bytes out; all else is done per batch. The usual records are converted by the loops of
`logdrive/kernel/s2_loops.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from logdrive.kernel.s2_loops import encode_records, frame_bodies
from logdrive.kernel.s2_plain import BROKEN, FULL, OTHER
from logdrive.model.framing import EVENT_HEAD, Part, event_size
from logdrive.services.numbering.heads import (
    ENCRYPTED,
    HEAD_BYTES,
    METERED_OVERHEAD,
    decode_head,
)
from logdrive.services.numbering.positions import Position
from logdrive.services.numbering.walk import NotEventsError
from logdrive.services.s2.server.log.payload import decode_fields, encode_fields
from logdrive.wire.s2.limits import BATCH_BYTES, BATCH_RECORDS, HEADER_OVERHEAD_BYTES
from logdrive.wire.s2.protobuf import (
    decode_append_input,
    encode_varint,
    parse_conditions,
    parse_last_conditions,
)
from logdrive.wire.s2.records import AppendInput, Record, check_input

OMITTED: Final = b"logdrive-omitted"
"""Header of a record that no S2 client could take: the length of the event that it stands for."""

MOST_MEMORY: Final = 10
"""Bytes that an append may take while it is parsed, for each byte of its message, or of JSON."""
_OBJECT_BYTES: Final = 128
"""Bytes of the objects of one header, or of a record."""

# Keys of fields, as they travel
_APPEND_HEADERS: Final = 0x12  # AppendRecord.headers
_APPEND_BODY: Final = 0x1A
_NAME: Final = 0x0A  # Header.name
_VALUE: Final = 0x12
_HEADERS: Final = 0x1A  # SequencedRecord.headers
_RECORD: Final = b"\x0a"  # AppendInput.records, ReadBatch.records
_SEQ_NUM: Final = b"\x08"  # SequencedRecord.seq_num
_TIMESTAMP: Final = b"\x10"
_BODY: Final = 0x22
_MOST: Final = (1 << 64) - 1
"""The largest number of the loops."""

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
    events, count, metered, end = frame_bodies(data, BATCH_RECORDS)
    conditions = parse_last_conditions(data[end:], framed=framed) if count else None
    if conditions is None or metered > BATCH_BYTES:
        return _parse_any(data, framed=framed)
    _check_token(*conditions)
    return ParsedAppend(count, metered, *conditions, events)


def _parse_any(data: bytes, *, framed: bool) -> ParsedAppend:
    match, token = parse_conditions(data, framed=framed)
    _check_token(match, token)
    parsed = _parse_fields(data, len(data) - _condition_bytes(match, token))
    if parsed is None or parsed.metered > BATCH_BYTES:
        return of_input(decode_append_input(data, framed=framed))
    parsed.match_seq_num, parsed.fencing_token = match, token
    return parsed


def _check_token(match: int | None, token: str | None) -> None:
    """Say what is wrong with *token*, if anything is. Raises `S2Error`."""
    if token:
        check_input(AppendInput((Record(b""),), match, token))


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
                stored[at] = _BODY
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
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def add_events(self, time_ms: int, part: Part) -> None:
        """Add the whole events at the beginning of *part*, which were appended at *time_ms*.

        *part* begins at `position`. Raises `NotEventsError`, and what the opener raises.
        """
        why, at = OTHER, 0
        while why == OTHER and not self.full:
            before = self.position
            why = self._add_run(time_ms, part, at)
            if why == OTHER:
                self._add_other(part, at + self.position.offset - before.offset)
            at += self.position.offset - before.offset
        if why == FULL:
            self.full = True
        elif why == BROKEN:
            raise NotEventsError(self._segment, self.position.offset)

    def _add_run(self, time_ms: int, part: Part, at: int) -> int:
        """Add events up to one that takes more than the loop can do; return why it has stopped."""
        offset, seq_num, timestamp = self.position
        limits = self._limits
        if not limits.until:
            return FULL
        records, end, behind, timestamp, self.metered, why, spliced = encode_records(
            part,
            at,
            seq_num,
            timestamp,
            time_ms,
            min(seq_num + limits.records - self.count, _MOST),
            self.metered,
            min(limits.nominal, _MOST),
            min(limits.hard, _MOST),
            min(limits.until - 1, _MOST),
            not self._careful,
        )
        self._parts.append(records)
        self.spliced = self.spliced or spliced
        self.count += behind - seq_num
        self.position = Position(offset + end - at, behind, timestamp)
        return why

    def _add_other(self, part: Part, at: int) -> None:
        """Add the event at *at* if it fits; its payload is encrypted, or to be looked at."""
        offset, seq_num, timestamp = self.position
        size, body = event_size(part, at), at + EVENT_HEAD
        head = decode_head(part, body, size - EVENT_HEAD)
        assert head is not None
        limits = self._limits
        timestamp = max(timestamp, head.timestamp)
        self.full = (
            self.count == limits.records
            or timestamp >= limits.until
            or (
                self.metered + head.metered > limits.nominal
                and (self.metered > 0 or head.metered > limits.hard)
            )
        )
        if self.full:
            return
        payload = bytes(part[body : at + size])
        fields = payload[HEAD_BYTES:]
        if head.kind == ENCRYPTED:
            fields = self._opener(fields)
        if self._careful and decode_fields(fields) is None:
            fields = encode_fields((), payload)
        self.spliced = True
        self._add(encode_varint(seq_num), timestamp, fields)
        self.count += 1
        self.metered += head.metered
        self.position = Position(offset + size, seq_num + 1, timestamp)

    def add_omitted(self, time_ms: int, length: int) -> None:
        """Add an event of *length* bytes that no S2 client could take: its length, as a header."""
        offset, seq_num, timestamp = self.position
        timestamp = max(timestamp, time_ms)
        fields = encode_fields(((OMITTED, b"%d" % length),), b"")
        self._add(encode_varint(seq_num), timestamp, fields)
        self.count += 1
        self.metered += METERED_OVERHEAD
        self.position = Position(offset + EVENT_HEAD + length, seq_num + 1, timestamp)

    def _add(self, number: bytes, timestamp: int, fields: bytes) -> None:
        if timestamp != self._stamp:
            self._stamp, self._stamped = timestamp, _TIMESTAMP + encode_varint(timestamp)
        stamped = self._stamped
        size = len(_SEQ_NUM) + len(number) + len(stamped) + len(fields)
        self._parts += (_RECORD, encode_varint(size), _SEQ_NUM, number, stamped, fields)
