"""Packs made by hand, with the standard library's zlib, so that they can lie."""

import struct
import zlib
from collections.abc import Sequence

STORED, DEFLATE, ZSTD = 0, 1, 2
TEXT, CUT_TEXT, RECORDS = 1, 2, 3


def pack_of(
    content: bytes,
    packed: bytes | None = None,
    *,
    form: int = TEXT,
    codec: int = STORED,
    size: int | None = None,
    crc: int | None = None,
) -> bytes:
    """Return a pack of *content*, which says what it should, but for what is given."""
    size = len(content) if size is None else size
    crc = zlib.crc32(content) if crc is None else crc
    return struct.pack("!BBII", form, codec, size, crc) + (content if packed is None else packed)


def deflated(content: bytes, level: int = 6) -> bytes:
    deflater = zlib.compressobj(level, zlib.DEFLATED, -15)
    return deflater.compress(content) + deflater.flush()


def zstd_frame(size: int, blocks: Sequence[int], *, window: int | None = None) -> bytes:
    """Return a zstd frame (RFC 8878) that says *size*, and holds one byte repeated in *blocks*.

    *window* is the base-2 logarithm of the history that it asks for, None for that of its size.
    """
    head = b"\x28\xb5\x2f\xfd"
    head += b"\xa0" if window is None else bytes([0x80, (window - 10) << 3])
    frame = head + struct.pack("<I", size)
    for number, block in enumerate(blocks, 1):
        repeated = (number == len(blocks)) | 1 << 1 | block << 3
        frame += struct.pack("<I", repeated)[:3] + b"a"
    return frame


def framed(records: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack("!ii", 0, len(record)) + record for record in records)
