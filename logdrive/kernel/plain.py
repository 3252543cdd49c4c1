"""The loops that run once per line, in Python.

`loops` uses the compiled ones if there are any; the docstrings here describe both.
"""

import struct
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate, islice
from operator import add
from typing import Final

import orjson
from isal import isal_zlib

# J: version and type as a number, which costs a sixth less than bytes to look at; sequence, length
_FRAME = struct.Struct("!HII")
_LENGTH = struct.Struct("!I")
_EVENT = struct.Struct("!ii")  # a Pravega event's head: type 0, length
_SPECIAL: Final = 0xFF  # the first byte of what is stored of a message with more than a payload
_DEL: Final = b"\x7f"
_NO_EVENT_TYPE: Final = b"\0\0\0\0"  # Pravega's event type, before each length
_SMALL: Final = [_LENGTH.pack(number) for number in range(2049)]
"""Encoded small numbers: most are small, and a look-up costs half of packing.

(A tuple's `__getitem__` is slower.)
"""


def adler32(data: bytes | memoryview, adler: int) -> int:
    """Return the Adler-32 of what has *adler*, 1 for nothing, followed by *data* (RFC 1950).

    The compiled loop takes half the time of isal's: 0.02 µs for 541 bytes.
    """
    return int(isal_zlib.adler32(data, adler))


def cut_events(data: bytes, at: int, end: int, limit: int, most: int) -> tuple[bytes, int, int]:
    """Convert Lumberjack's J frames in *data*, from *at* on, to Pravega events.

    Converts consecutive frames while their sequence numbers increase by one: at most *most* frames,
    each whole before *end*, with 1 to *limit* bytes of payload. Return the payloads as Pravega
    events (`i32 0, i32 length, payload`) back to back, their count, and the frames' length in
    *data*. Raises ValueError if the first frame does not qualify.
    """
    head, unpack = _FRAME.size, _FRAME.unpack_from
    if not 0 <= at <= end - head or end > len(data):
        raise ValueError("no frame there")
    start, last_head = at, end - head
    wanted, first, size = unpack(data, at)
    stop = at + head + size
    if stop > end or not 0 < size <= limit or most < 1:
        raise ValueError("no whole frame there")

    pieces = [b""]
    keep = pieces.append
    for expected in range(first + 1, first + 1 + most):
        keep(data[at + 6 : stop])  # length and payload, as they are in the frame
        at = stop
        if at > last_head:
            break
        kind, number, size = unpack(data, at)
        stop = at + head + size
        if number != expected or kind != wanted or stop > end or not 0 < size <= limit:
            break

    return _NO_EVENT_TYPE.join(pieces), len(pieces) - 1, at - start


def count_lines(data: bytes | bytearray | memoryview, begin: int, end: int) -> int:
    """Return the number of LF in *data* from *begin* to *end*, which lie within it.

    Raises ValueError if they do not. The compiled loop reads more than 10 GB a second.
    """
    if not 0 <= begin <= end <= len(data):
        raise ValueError("not within the data")
    # takes half the time of count() for lines of 188 bytes
    part = bytes(memoryview(data)[begin:end])
    return len(part) - len(part.replace(b"\n", b""))


def place_lines(data: bytes, start: int, most: int) -> tuple[bytes, int, int]:
    """Return the positions of the lines in *data* that end with LF, at most *most* of them.

    *data* begins at position *start*. The result is the positions in decimal with commas between
    them, their count, and the lines' length in bytes.
    """
    if most < 1:
        raise ValueError("at least one line")
    places = list(accumulate(_line_lengths(data, most), initial=start))
    end = places.pop()
    return orjson.dumps(places)[1:-1], len(places), end - start


def scan_lines(
    data: bytes, at: int, end: int, start: int, most: int, longest: int
) -> tuple[int, int, int]:
    """Measure the lines in *data[at:end]* that end with LF, at most *most* of them.

    Stops before a line of more than *longest* bytes. *data[at]* is at position *start* of the file.

    Return the lines' count, their length in bytes, and the bytes that their positions in decimal
    and their messages take in full records: the text without line ends, escaped for JSON as orjson
    does it. The last is -1 if some line is not plain: it ends with CR LF, or is not UTF-8. Raises
    ValueError if nothing can be there.
    """
    if not 0 <= at <= end <= len(data) or most < 1:
        raise ValueError("no lines there")
    lengths = _line_lengths(data[at:end], most)
    if lengths and max(lengths) > longest:
        del lengths[next(number for number, size in enumerate(lengths) if size > longest) :]
    text = data[at : at + sum(lengths)]
    # the search for one byte first: that for two takes twenty times as long
    if b"\r" in text and b"\r\n" in text:
        return len(lengths), len(text), -1
    try:
        escaped = orjson.dumps(text.decode())
    except UnicodeDecodeError:
        return len(lengths), len(text), -1

    if not lengths:
        return 0, 0, 0
    digits = _digits(start, lengths)
    # without the quotes around it, and the escape of each newline
    return len(lengths), len(text), digits + len(escaped) - 2 - 2 * len(lengths)


def line_frames(
    first: int,
    count: int,
    prefix: bytes,
    middle: bytes,
    tail: bytes,
    data: bytes,
    at: int,
    end: int,
    start: int,
    written: int,
) -> bytes:
    """Return the lines *data[at:end]* as full records in J frames, numbered from *first*.

    Each payload is *prefix*, the line's position, *middle*, the line without its LF and escaped for
    JSON, *tail*. The rest is what `scan_lines` was given, and what it returned. Raises ValueError
    if it does not fit the lines.
    """
    places, texts = _plain_lines(count, data, at, end, start, written)
    same = len(prefix) + len(middle) + len(tail)
    parts: list[bytes] = [tail + b"2J", b"", b"", prefix, b"", middle, b""] * count
    parts[0] = b"2J"
    parts[1::7] = packed_numbers(range(first, first + count))
    parts[2::7] = packed_numbers([same + size for size in _sizes(places, texts)])
    parts[4::7] = places
    parts[6::7] = texts
    parts.append(tail)
    return b"".join(parts)


def line_events(
    count: int,
    prefix: bytes,
    middle: bytes,
    tail: bytes,
    data: bytes,
    at: int,
    end: int,
    start: int,
    written: int,
) -> bytes:
    """Return the same records as Pravega events, back to back."""
    places, texts = _plain_lines(count, data, at, end, start, written)
    same = len(prefix) + len(middle) + len(tail)
    parts: list[bytes] = [tail + _NO_EVENT_TYPE, b"", prefix, b"", middle, b""] * count
    parts[0] = _NO_EVENT_TYPE
    parts[1::6] = packed_numbers([same + size for size in _sizes(places, texts)])
    parts[3::6] = places
    parts[5::6] = texts
    parts.append(tail)
    return b"".join(parts)


def _line_lengths(data: bytes, most: int) -> list[int]:
    """Return the lengths of the lines in *data* that end with LF, at most *most*."""
    # BytesIO finds newlines several times as fast as split()
    lengths = list(map(len, islice(BytesIO(data), most)))
    if lengths and not data.endswith(b"\n", 0, sum(lengths)):
        lengths.pop()  # the last line has no LF yet
    return lengths


def _digits(start: int, lengths: Sequence[int]) -> int:
    """Return how many digits the positions of lines of these *lengths* have together."""
    last = start + sum(lengths) - lengths[-1]
    if len(str(start)) == len(str(last)):
        return len(lengths) * len(str(start))
    return sum(len(str(place)) for place in accumulate(lengths[:-1], initial=start))


def _plain_lines(
    count: int, data: bytes, at: int, end: int, start: int, written: int
) -> tuple[list[bytes], list[bytes]]:
    """Return the lines' positions in decimal, and their messages escaped for JSON."""
    if not 0 <= at < end <= len(data) or count < 1:
        raise ValueError("no lines there")
    text = data[at:end]
    lengths = _line_lengths(text, count + 1)
    if len(lengths) != count or sum(lengths) != len(text):
        raise ValueError("not as many lines as counted")

    places = orjson.dumps(list(accumulate(lengths[:-1], initial=start)))[1:-1].split(b",")
    # DEL, which JSON does not escape, between the messages: one call escapes them all
    messages = (
        [orjson.dumps(line.decode())[1:-1] for line in text.split(b"\n")[:-1]]
        if _DEL in text
        else orjson.dumps(text.replace(b"\n", _DEL).decode())[1:-2].split(_DEL)
    )
    if _digits(start, lengths) + sum(map(len, messages)) != written:
        raise ValueError("lines of another length than counted")
    return places, messages


def _sizes(places: list[bytes], messages: list[bytes]) -> Iterator[int]:
    return map(add, map(len, places), map(len, messages))


def packed_numbers(numbers: Sequence[int]) -> list[bytes]:
    """Return each of *numbers* as a big-endian u32, without Python code per number."""
    try:
        return list(map(_SMALL.__getitem__, numbers))
    except IndexError:  # a line longer than the table
        return list(map(_LENGTH.pack, numbers))


def walk_plain(data: bytes | memoryview, at: int, most: int) -> tuple[int, int]:
    """Walk over whole Pravega events in *data*, from *at* on, whose payloads begin not with 0xff.

    Stops before one that does, one that is not whole, what is no event, and after *most* events.
    Return where the next begins, and how many they were.
    """
    unpack, size = _EVENT.unpack_from, len(data)
    count = 0
    body = at + _EVENT.size
    while count < most and at >= 0 and body <= size:
        kind, length = unpack(data, at)
        end = body + length
        if kind or length < 0 or end > size or (length and data[body] == _SPECIAL):
            break
        at, body = end, end + _EVENT.size
        count += 1
    return at, count
