"""The loops that run once per record of S2's protocol, in Python.

`s2_loops` uses the compiled ones if there are any; the docstrings here describe both.
"""

import struct
from collections.abc import Iterator
from typing import Final

from logdrive.kernel.varints import encode_varint

# why `encode_records` has stopped
OVER: Final = 0
"""No whole event is left."""
FULL: Final = 1
"""The next record is beyond a limit."""
BROKEN: Final = 2
"""What follows is no event."""
OTHER: Final = 3
"""The next record has something to it that is not done here."""

_EVENT: Final = struct.Struct(">ii")  # a Pravega event's head: type 0, length
# a payload's head: magic, kind, version, timestamp, metered size; described in
# logdrive/services/numbering/heads.py
_HEAD: Final = struct.Struct(">3sBBQI")
_HEAD_BYTES: Final = _HEAD.size
_MAGIC: Final = b"\xffS2"
_VERSION: Final = 1
_RECORD: Final = ord("R")
_COMMAND: Final = ord("C")
_ENCRYPTED: Final = ord("E")
_COMMAND_BYTES: Final = 128
_OVERHEAD: Final = 8  # metered of each record
_LOW: Final = [bytes((n | 0x80,)) for n in range(128)]
"""The first byte of a number of several bytes, by its low seven bits."""


def frame_bodies(data: bytes, most: int) -> tuple[bytes, int, int, int]:
    """Convert records of S2's `AppendInput` *data* that are nothing but a body to Pravega events.

    Converts from the beginning on: at most *most* records, each encoded as encoders do, with a body
    that does not begin like our own payloads. Return the events (`i32 0, i32
    length, payload`) back to back, their count, their size as S2 meters it, and where in *data* the
    first thing begins that was not converted.
    """
    pieces: list[bytes] = []
    at = metered = 0
    # what stands before bodies, 6 bytes, or 4 if they are short: its size and that of the body
    heads: dict[bytes, tuple[int, int]] = {}
    look_up, pack, total = heads.get, _EVENT.pack, len(data)
    while len(pieces) < 2 * most:
        sizes = look_up(data[at : at + 6]) or look_up(data[at : at + 4])
        if sizes is None:
            sizes = _plain_head(data, at)
            if sizes is None:
                break
            if sizes[0] in (4, 6):
                heads[data[at : at + sizes[0]]] = sizes
        body = at + sizes[0]
        size = sizes[1]
        end = body + size
        if end > total or data.startswith(_MAGIC, body, end):
            break
        pieces += (pack(0, size), data[body:end])
        metered += size
        at = end
    count = len(pieces) // 2
    return b"".join(pieces), count, metered + count * _OVERHEAD, at


def _plain_head(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the size of what stands before the body of the record at *at*, and that of the body.

    None if the record has more.
    """
    if data[at : at + 1] != b"\x0a":
        return None
    record = _read_length(data, at + 1)
    if record is None:
        return None
    start, size = record
    if not size:
        return start - at, 0
    if start + size > len(data) or data[start] != 0x1A:
        return None
    body = _read_length(data, start + 1)
    if body is None or sum(body) != start + size:
        return None
    return body[0] - at, body[1]


def _read_length(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where the length at *at* ends, and its value; None unless it has 1 to 3 bytes."""
    value = shift = 0
    for place in range(at, min(at + 3, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (place + 1, value) if byte or not shift else None  # no longer than need be
        shift += 7
    return None


def encode_records(
    data: bytes | memoryview,
    at: int,
    seq_num: int,
    timestamp: int,
    time_ms: int,
    end_seq_num: int,
    metered: int,
    nominal: int,
    hard: int,
    latest: int,
    splice: bool,
) -> tuple[bytes, int, int, int, int, int, bool]:
    """Convert the Pravega events in *data*, from *at* on, to records of S2's `ReadBatch`.

    The first event is record *seq_num*; *timestamp* is that of the record before, and the events
    were appended at *time_ms*. With *splice*, payloads with stored fields are converted, too, and
    not only plain ones.

    Stops before record *end_seq_num*, before a record later than *latest*, and before the one that
    would make *metered* exceed *nominal*; except that a first record (*metered* is 0) may have up
    to *hard*. All numbers are below 2^64.

    Return the records back to back; *at*, *seq_num*, *timestamp* and *metered* behind them; why it
    has stopped; and whether there were payloads with stored fields.
    """
    pieces: list[bytes | memoryview] = []
    spliced = False
    high = encode_varint(seq_num >> 7)
    # what stands before and after the number of a plain record, by the length of its body
    frames: dict[int, tuple[bytes, bytes]] = {}
    frames_stamp, first = -1, _MAGIC[0]
    for body, length in _whole_events(data, at):
        head, stamp, cost = None, time_ms, length + _OVERHEAD
        if length >= _HEAD_BYTES and data[body] == first:
            head = _payload_head(data, body, length)
        if head is not None:
            payload, stamp, cost = head
            if not splice or payload == _ENCRYPTED:
                why = OTHER
                break
        if stamp < timestamp:
            stamp = timestamp
        if (
            seq_num == end_seq_num
            or stamp > latest
            or (metered + cost > nominal and (metered or cost > hard))
        ):
            why = FULL
            break

        # the number; its bytes but the first change every 128 records
        low = seq_num & 127
        if not low:
            was, high = high, encode_varint(seq_num >> 7)
            if len(was) != len(high) or seq_num == 128:
                frames.clear()
        number = _LOW[low] + high if seq_num > 127 else encode_varint(seq_num)

        if head is not None:
            spliced = True
            before, after = _frame(b"", len(number), stamp, length - _HEAD_BYTES)
            body += _HEAD_BYTES
        else:
            if stamp != frames_stamp:
                frames_stamp = stamp
                frames.clear()
            try:
                before, after = frames[length]
            except KeyError:
                field = b"\x22" + encode_varint(length)
                before, after = frames[length] = _frame(field, len(number), stamp, length)
        at += _EVENT.size + length
        pieces += (before, number, after, data[body:at])
        metered += cost
        timestamp = stamp
        seq_num += 1
    else:
        why = _why_no_event(data, at)
    return b"".join(pieces), at, seq_num, timestamp, metered, why, spliced


def _whole_events(data: bytes | memoryview, at: int) -> Iterator[tuple[int, int]]:
    """Yield where the payload of each event begins, and its length."""
    size, unpack = len(data), _EVENT.unpack_from
    body = at + 8
    while body <= size:
        kind, length = unpack(data, body - 8)
        end = body + length
        if kind or length < 0 or end > size:
            return
        yield body, length
        body = end + 8


def _why_no_event(data: bytes | memoryview, at: int) -> int:
    """Return why there is no whole event at *at*."""
    if len(data) - at < _EVENT.size:
        return OVER
    kind, length = _EVENT.unpack_from(data, at)
    return BROKEN if kind or length < 0 else OVER


def _frame(field: bytes, number: int, timestamp: int, rest: int) -> tuple[bytes, bytes]:
    """Return what stands before and after the number, of *number* bytes, of a record.

    *field* is the end of that, and *rest* bytes follow.
    """
    after = b"".join((b"\x10", encode_varint(timestamp), field))
    return b"".join((b"\x0a", encode_varint(1 + number + len(after) + rest), b"\x08")), after


def _payload_head(data: bytes | memoryview, at: int, length: int) -> tuple[int, int, int] | None:
    """Return kind, timestamp and metered size of the payload at *at*; None if it is plain."""
    magic, kind, version, timestamp, metered = _HEAD.unpack_from(data, at)
    if (
        magic != _MAGIC
        or kind not in (_RECORD, _COMMAND, _ENCRYPTED)
        or version != _VERSION
        or not _OVERHEAD <= metered <= _OVERHEAD + length - _HEAD_BYTES
        or (kind == _COMMAND and length > _COMMAND_BYTES)
    ):
        return None
    return kind, timestamp, metered
