"""Names, positions, records and batches: what agent, receiver, store and pipeline promise each other (no I/O).

A *record* is the JSON object of one J frame. A *batch* is one header record followed by the records of one run, each framed
as a Pravega event (`i32 0, i32 length, payload`). A *number* is what the store keeps for a source: a position and 16 bits
that check it. The rules cited (G2, P1, R1 …) are those of `docs/protocols/delivery.md`.
"""

import base64
import hashlib
import struct
from binascii import b2a_base64
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import msgspec
import orjson

from logdrive.model.limits import MAX_POSITION, TAIL_BYTES

NAMESPACE: Final = UUID("6a7d0f5e-5d0b-5c55-8f5b-2f9a3b1c7e41")
"""The fixed namespace of origin ids (rule G2). Changing it makes every file a new one."""

ABSENT: Final = -(1 << 63)
"""The stored number of a source that was never seen (also Pravega's lastEventNumber of a new writer)."""
NOT_KEPT: Final = ABSENT + 1
"""In a P frame: numbers are not kept here, go on from your checkpoint."""
LOST: Final = ABSENT + 2
"""In a P frame: the number was lost here (rule S3); go on as from another store."""
CLOSED: Final = 1 << 62
"""Added to a number once its generation has ended (rule P1)."""

DATA, GAP, END = 0, 1, 2
"""Kinds of run, as in the B frame."""
KINDS: Final = ("data", "gap", "end")


def _named(namespace: UUID, name: bytes) -> UUID:
    """Return the UUIDv5 of *name*, which RFC 4122 lets be any bytes."""
    digest = bytearray(hashlib.sha1(namespace.bytes + name, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))


def origin_id(*, agent: str, host: str, mount: str, inode: int, birth_ns: int, first_line: bytes, count: int) -> UUID:
    """Name one life of one file (rule G2)."""
    return _named(NAMESPACE, _lives(agent, host, mount, inode, birth_ns, first_line) + _part(b"%d" % count))


@lru_cache(maxsize=16)
def _lives(agent: str, host: str, mount: str, inode: int, birth_ns: int, first_line: bytes) -> bytes:
    """Return what the names of lives that look alike begin with; several counts are asked for in a row (rule G3)."""
    parts = (agent.encode(), host.encode(), mount.encode(), b"%d" % inode, b"%d" % birth_ns, first_line)
    return b"".join(map(_part, parts))


def _part(part: bytes) -> bytes:
    return struct.pack("!I", len(part)) + part


def source_id(origin: UUID, identity: str) -> UUID:
    """Name an origin as spoken for by one client identity, so that no client moves another's position (rule D6)."""
    return _named(origin, identity.encode())


def check_of(tail: bytes) -> int:
    """Return the 16 bits that stand for the up to 256 bytes before a position; 1 instead of 0 (rule P1)."""
    return crc32(tail[-TAIL_BYTES:]) & 0xFFFF or 1


def number_of(position: int, tail: bytes | None) -> int:
    """Return the number of *position*; *tail* ends with the bytes before it, or is None where they are gone."""
    if not 0 <= position < MAX_POSITION:
        raise ValueError(f"position {position} is not in [0, 2^46)")
    if position == 0:
        return 0
    return position << 16 | (0 if tail is None else check_of(tail))


def position_of(number: int) -> int:
    """Return the position inside *number*, open or closed; 0 for the numbers that stand for none."""
    return 0 if number < 0 else (number & (CLOSED - 1)) >> 16


def check_in(number: int) -> int:
    """Return the check inside *number*; 0 means that it can't be checked."""
    return number & 0xFFFF


def is_closed(number: int) -> bool:
    """Tell whether *number* belongs to a generation that has ended."""
    return number >= CLOSED


# Records (rule R1) ---------------------------------------------------------------------------------------------------


def block(start: int, end: int, lines: int, text: str, lengths: Sequence[int] | None = None) -> bytes:
    """Return a block record: a contiguous run of the file's own text.

    *lengths* is needed only where events are not single lines or bytes were dropped: positive, an event of so many bytes;
    negative, so many bytes of the file dropped by a rule.
    """
    extra = b"" if lengths is None else b',"lengths":' + orjson.dumps(list(lengths))
    return b'{"log":{"offset":%d,"end":%d,"lines":%d},"message":%b%b}' % (start, end, lines, orjson.dumps(text), extra)


def kept_json(value: dict[str, Any]) -> bytes:
    """Return *value* as JSON that takes no more memory than its length: orjson's own takes 4 KiB, however short, as long as it is kept."""
    return orjson.dumps([value])[1:-1]


def lean(start: int, end: int, message: str, *, eol: str = "\n", log: dict[str, Any] | None = None, original: str | None = None) -> bytes:
    """Return a lean record: one event without what its source's attributes say.

    *eol* is the line end that the message lacks, named in `log.eol` when it is not LF; *original* is the Base64 of bytes that
    are not UTF-8 (rule R2), *log* adds keys below `log`.
    """
    head: dict[str, Any] = {"offset": start, "end": end}
    if eol != "\n":
        head["eol"] = eol
    record: dict[str, Any] = {"log": head | (log or {}), "message": message}
    if original is not None:
        record["event"] = {"original_base64": original}
    return kept_json(record)


def lean_exact(start: int, end: int, message: str, exact: bytes) -> bytes:
    """Return what `lean` does for a line that ends with LF and, without it, is *exact*, which is not UTF-8; at a third of the cost."""
    original = b2a_base64(exact, newline=False)
    return b'{"log":{"offset":%d,"end":%d},"message":%b,"event":{"original_base64":"%b"}}' % (start, end, orjson.dumps(message), original)


def gap(start: int, end: int, reason: str, *, end_exact: bool = True, store: UUID | None = None) -> bytes:
    """Return a gap record (rule P4); *store* names the other store for the reason `elsewhere` (rule D5)."""
    mark: dict[str, Any] = {"start": start, "end": end, "reason": reason, "end_exact": end_exact}
    if store is not None:
        mark["store"] = str(store)
    return kept_json({"log": {"gap": mark}})


def ended(end: int, reason: str, *, end_exact: bool = True) -> bytes:
    """Return an end record: the last run of a generation (rule G3).

    *end_exact* is told only where it is not so: bytes after the end, never seen, may have vanished with the generation.
    """
    mark: dict[str, Any] = {"end": end, "reason": reason}
    if not end_exact:
        mark["end_exact"] = False
    return kept_json({"log": {"ended": mark}})


def file_bytes(record: dict[str, Any]) -> bytes:
    """Return the bytes of the file that a data record, parsed, stands for (rule R2).

    Raises KeyError, TypeError or ValueError for what is no such record.
    """
    log, message = record.get("log") or {}, record["message"]
    original = (record.get("event") or {}).get("original_base64")
    text: bytes = message.encode() if original is None else base64.b64decode(original)
    return text if "lines" in log else text + str(log.get("eol", "\n")).encode()


def mark_of(record: bytes) -> bytes:
    """Return the JSON object inside a gap or end record, which its batch's header repeats as `mark` (rule R4).

    Raises ValueError where *record* is neither, or its object is not a flat one that every reader of JSON takes.
    """
    try:
        log = msgspec.json.decode(record, type=_MarkRecord).log
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a gap or end record: {error}") from error
    except RecursionError as error:
        raise ValueError("not a gap or end record: it is nested too deep") from error
    found = bytes(log.gap) or bytes(log.ended)
    try:
        mark = orjson.loads(found)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not a gap or end record: {error}") from error
    if not isinstance(mark, dict) or any(isinstance(value, dict | list) for value in mark.values()):
        raise ValueError("not a gap or end record")
    return found


class _Marks(msgspec.Struct):
    gap: msgspec.Raw = msgspec.Raw(b"")
    ended: msgspec.Raw = msgspec.Raw(b"")


class _MarkRecord(msgspec.Struct):
    log: _Marks


# Framing and batches (rules R4, R5) ----------------------------------------------------------------------------------

_EVENT = struct.Struct("!ii")
EVENT_HEAD: Final = _EVENT.size
Part = bytes | memoryview
"""One of the pieces, written one after the other, that an append is handed over in: a view is of what will not change."""
HEADER_PREFIX: Final = b'{"logdrive":{"v":1,'
"""How every header begins; any other version still begins `{"logdrive":{"v":`."""


def framed(payload: bytes) -> bytes:
    """Return *payload* as one Pravega event."""
    return event_head(len(payload)) + payload


def event_head(length: int) -> bytes:
    """Return what stands before a payload of *length* bytes in a Pravega event."""
    return _EVENT.pack(0, length)


def framed_all(payloads: Sequence[bytes]) -> bytes:
    """Return *payloads* as Pravega events, back to back; one join, so cheap for a thousand of them."""
    parts: list[bytes] = []
    for payload in payloads:
        parts += (_EVENT.pack(0, len(payload)), payload)
    return b"".join(parts)


def event_size(events: Part, at: int) -> int:
    """Return how many bytes the Pravega event at *at* takes, its head included."""
    return EVENT_HEAD + int(_EVENT.unpack_from(events, at)[1])


def payloads_of(events: bytes) -> list[bytes]:
    """Return the payloads of Pravega events that stand back to back and are whole."""
    payloads, at = [], 0
    while at < len(events):
        end = at + event_size(events, at)
        payloads.append(events[at + EVENT_HEAD : end])
        at = end
    return payloads


def event_length(head: bytes) -> int:
    """Return the payload length that the 8 bytes *head* announce. Raises ValueError where they are no event's."""
    kind, length = _EVENT.unpack(head)
    if kind != 0 or length < 0:
        raise ValueError(f"no event: type {kind}, length {length}")
    return int(length)


class BatchHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A batch's manifest. Positions are None for foreign writers; *size* (`bytes`) counts what follows, framing included.

    *read* and *received* are ms since 1970: when the run's last byte was read, and when the receiver had it.
    """

    v: int = 1
    kind: str
    source: str
    origin: str | None = None
    previous: int | None = None
    position: int | None = None
    records: int
    events: int
    size: int = msgspec.field(name="bytes")
    skipped: int = 0
    read: int = 0
    received: int
    store: str
    peer: msgspec.Raw = msgspec.Raw(b"{}")
    attributes: msgspec.Raw = msgspec.Raw(b"{}")
    mark: msgspec.Raw = msgspec.Raw(b"null")

    def encode(self) -> bytes:
        """Return the header record's payload: keys in this order, no white space (rule R4)."""
        return b'{"logdrive":' + _encode(self) + b"}"


class _Envelope(msgspec.Struct):
    logdrive: BatchHeader


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Envelope).decode


def parse_header(payload: bytes) -> BatchHeader:
    """Return the header in *payload*, which the caller knows by its place. Raises ValueError where it is headless."""
    if not payload.startswith(HEADER_PREFIX):
        raise ValueError("no batch header here")
    try:
        return _decode(payload).logdrive
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"a batch header that can't be read: {error}") from error
