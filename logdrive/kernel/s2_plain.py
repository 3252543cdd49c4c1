"""The loops that run once per record of S2's protocol, in Python.

`s2_loops` uses the compiled ones if there are any; the docstrings here describe both.
"""

import struct
from typing import Final

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
# logdrive/services/s2/server/log/payload.py
_HEAD: Final = struct.Struct(">3sBBQI")
_MAGIC: Final = b"\xffS2"
_VERSION: Final = 1
_RECORD: Final = ord("R")
_COMMAND: Final = ord("C")
_ENCRYPTED: Final = ord("E")
_COMMAND_BYTES: Final = 128
_OVERHEAD: Final = 8  # metered of each record


def frame_bodies(data: bytes, most: int) -> tuple[bytes, int, int, int]:
    """Convert records of S2's `AppendInput` *data* that are nothing but a body to Pravega events.

    Converts from the beginning on: at most *most* records, each encoded as encoders do, with a body
    that does not begin like our own payloads. Return the events (`i32 0, i32
    length, payload`) back to back, their count, their size as S2 meters it, and where in *data* the
    first thing begins that was not converted.
    """
    pieces: list[bytes] = []
    at = metered = 0
    pack = _EVENT.pack
    while len(pieces) < 2 * most:
        taken = _plain_body(data, at)
        if taken is None:
            break
        body, end = taken
        size = end - body
        if data.startswith(_MAGIC, body, end):
            break
        pieces += (pack(0, size), data[body:end])
        metered += size + _OVERHEAD
        at = end
    return b"".join(pieces), len(pieces) // 2, metered, at


def _plain_body(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where the body begins and ends of the record at *at*; None if it has more."""
    if data[at : at + 1] != b"\x0a":
        return None
    record = _read_length(data, at + 1)
    if record is None:
        return None
    at, size = record
    end = at + size
    if not size:
        return at, end
    if end > len(data) or data[at] != 0x1A:
        return None
    body = _read_length(data, at + 1)
    if body is None or sum(body) != end:
        return None
    return body[0], end


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
    size, spliced = len(data), False
    while True:
        if size - at < _EVENT.size:
            why = OVER
            break
        kind, length = _EVENT.unpack_from(data, at)
        body = at + _EVENT.size
        end = body + length
        if kind or length < 0:
            why = BROKEN
            break
        if end > size:
            why = OVER
            break

        fields, stamp, cost = body, time_ms, length + _OVERHEAD
        head = _payload_head(data, body, length)
        if head is not None:
            payload, stamp, cost = head
            fields += _HEAD.size
            if not splice or payload == _ENCRYPTED:
                why = OTHER
                break
        stamp = max(stamp, timestamp)
        if (
            seq_num == end_seq_num
            or stamp > latest
            or (metered + cost > nominal and (metered or cost > hard))
        ):
            why = FULL
            break

        encoded: list[bytes | memoryview] = [b"\x08", _varint(seq_num), b"\x10", _varint(stamp)]
        if head is None:
            encoded += (b"\x22", _varint(length))
        else:
            spliced = True
        encoded.append(data[fields:end])
        pieces += (b"\x0a", _varint(sum(map(len, encoded))), *encoded)
        metered += cost
        timestamp = stamp
        seq_num += 1
        at = end
    return b"".join(pieces), at, seq_num, timestamp, metered, why, spliced


def _payload_head(data: bytes | memoryview, at: int, length: int) -> tuple[int, int, int] | None:
    """Return kind, timestamp and metered size of the payload at *at*; None if it is plain."""
    if length < _HEAD.size or data[at] != _MAGIC[0]:
        return None
    magic, kind, version, timestamp, metered = _HEAD.unpack_from(data, at)
    if (
        magic != _MAGIC
        or kind not in (_RECORD, _COMMAND, _ENCRYPTED)
        or version != _VERSION
        or not _OVERHEAD <= metered <= _OVERHEAD + length - _HEAD.size
        or (kind == _COMMAND and length > _COMMAND_BYTES)
    ):
        return None
    return kind, timestamp, metered


def _varint(number: int) -> bytes:
    """Return *number* as protobuf encodes it."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
