"""Packs, by rules R1 and R8 alone. Shares no code with `logdrive.packs`.

A pack is u8 form, u8 codec, u32 size, u32 CRC-32, and the content compressed, all big-endian.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import zstandard

from tests.support.record_bytes import bytes_of, cut, span_of

TEXT, CUT_TEXT, RECORDS = 1, 2, 3
STORED, DEFLATE, ZSTD = 0, 1, 2
_HEAD = struct.Struct("!BBII")
_FORMS = {"text": (TEXT, CUT_TEXT), "records": (RECORDS,)}
"""What headers call the forms of their packs."""


class DamagedPackError(AssertionError):
    """A pack whose inside is not what it says, or its header."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What a pack holds of its file."""

    pieces: list[tuple[int, bytes]]  # position in the file, and the bytes there
    events: int
    skipped: int = 0  # bytes of the file that were left out
    positions: int | None = None  # how many its events take, where that is not their bytes

    @property
    def kept(self) -> int:
        """How many positions its events take."""
        return (
            sum(len(data) for _, data in self.pieces) if self.positions is None else self.positions
        )


def packed(form: int, content: bytes, by: int = DEFLATE, /, **lies: int) -> bytes:
    """Return *content*, compressed *by* a codec, as a pack.

    *lies* replace what its head says: form, codec, size, crc.
    """
    said = {"form": form, "codec": by, "size": len(content), "crc": zlib.crc32(content), **lies}
    head = _HEAD.pack(said["form"], said["codec"], said["size"], said["crc"])
    return head + _compressed(content, by)


def cut_text(lengths: Sequence[int], text: bytes) -> bytes:
    """Return the content of a pack of the form CUT_TEXT."""
    return struct.pack(f"!I{len(lengths)}i", len(lengths), *lengths) + text


def framed(records: Sequence[bytes]) -> bytes:
    """Return the content of a pack of the form RECORDS."""
    return b"".join(struct.pack("!ii", 0, len(record)) + record for record in records)


def unpacked(pack: bytes, header: dict[str, Any]) -> Unpacked:
    """Return what *pack* holds, the one record of the batch with *header*.

    Raises `DamagedPackError` where it contradicts itself or *header*.
    """
    form, content = _opened(pack)
    if form not in _FORMS[header["form"]]:
        raise DamagedPackError(f"a pack of form {form} below {header}")
    held = _HELD[form](content, header["previous"])
    kept = held.kept
    if form == RECORDS:
        # what lies between records, and behind the last one, was left out
        held = replace(held, skipped=header["position"] - header["previous"] - kept)

    length = kept + held.skipped
    found = header["previous"] + length, held.events, held.skipped
    if found != (header["position"], header["events"], header["skipped"]):
        raise DamagedPackError(f"position, events, skipped are {found} below {header}")
    return held


def _compressed(content: bytes, codec: int) -> bytes:
    if codec == DEFLATE:
        deflating = zlib.compressobj(1, zlib.DEFLATED, -15)
        return deflating.compress(content) + deflating.flush()
    return zstandard.ZstdCompressor(level=1).compress(content) if codec == ZSTD else content


def _opened(pack: bytes) -> tuple[int, bytes]:
    """Return form and content of *pack*."""
    form, codec, size, crc = _HEAD.unpack_from(pack)
    body = pack[_HEAD.size :]
    try:
        content = _decompressed(body, codec)
    except (zlib.error, zstandard.ZstdError) as error:
        raise DamagedPackError(f"a pack of codec {codec}: {error}") from error
    if len(content) != size:
        raise DamagedPackError(f"a pack of {size} bytes holds {len(content)}")
    if zlib.crc32(content) != crc:
        raise DamagedPackError("a pack of another CRC-32")
    return form, content


def _decompressed(body: bytes, codec: int) -> bytes:
    if codec == STORED:
        return body
    if codec == ZSTD:
        return zstandard.ZstdDecompressor().decompress(body, allow_extra_data=False)
    inflating = zlib.decompressobj(-15)
    content = inflating.decompress(body) + inflating.flush()
    if not inflating.eof or inflating.unused_data:
        raise DamagedPackError("a deflate stream that does not end with its pack")
    return content


def _text(content: bytes, previous: int) -> Unpacked:
    """Each line is an event, and so is a last one without its newline."""
    events = content.count(b"\n") + (not content.endswith(b"\n"))
    return Unpacked([(previous, content)], events)


def _cut_text(content: bytes, previous: int) -> Unpacked:
    """The lengths of events, and negative those of what was left out, stand before the text."""
    try:
        (count,) = struct.unpack_from("!I", content)
        lengths = struct.unpack_from(f"!{count}i", content, 4)
    except struct.error as error:
        raise DamagedPackError(f"lengths that do not fit {len(content)} bytes") from error
    try:
        pieces, end = cut(content[4 + 4 * count :], lengths, previous)
    except AssertionError as error:
        raise DamagedPackError(str(error)) from error
    return Unpacked(pieces, len(pieces), end - previous - sum(len(data) for _, data in pieces))


def _records(content: bytes, previous: int) -> Unpacked:
    """One record an event, each with its offset."""
    pieces: list[tuple[int, bytes]] = []
    at, events, kept = previous, 0, 0
    for record in _events(content):
        try:
            parsed = orjson.loads(record)
            (data, count), offset = bytes_of(parsed), parsed["log"]["offset"]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedPackError(f"no record at {at}: {error}") from error
        if offset < at:
            raise DamagedPackError(f"a record at {offset} after {at}")
        pieces.append((offset, data))
        span = span_of(parsed, data)
        at, events, kept = offset + span, events + count, kept + span
    return Unpacked(pieces, events, positions=kept)


def _events(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        if at + 8 > len(content):
            raise DamagedPackError(f"a record cut off at {at}")
        kind, length = struct.unpack_from("!ii", content, at)
        at += 8
        if kind or length < 0 or at + length > len(content):
            raise DamagedPackError(f"no whole record at {at - 8}")
        yield content[at : at + length]
        at += length


_HELD = {TEXT: _text, CUT_TEXT: _cut_text, RECORDS: _records}
