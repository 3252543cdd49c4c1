"""Pages of a column of texts: Parquet's encoding PLAIN, Snappy, and a checksum.

Arrow's writer copies each text four times on its way into a page, and its Snappy looks for more
than lines of logs have: docs/adr/0050. Source: parquet.thrift and Encodings.md of
apache/parquet-format, data pages of version 1.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from logdrive.kernel.page_plain import SnappyPage
from logdrive.kernel.varints import encode_varint
from logdrive.model.units import KIB, MIB
from logdrive.pipeline.tables.parquet.compact import I32, STRUCT, encode_struct

PLAIN: Final = 0  # parquet.thrift, Encoding
RLE: Final = 3
DATA_PAGE: Final = 0  # parquet.thrift, PageType

_PAGE_BYTES = 1 * MIB  # limit on the texts of a page, unless it is one
_TOGETHER_BYTES = 256 * KIB  # pieces of a column are joined up to here, so that no page is tiny
_ROOM_BYTES = 256  # that a page takes in memory, besides itself and itself compressed
_SPARE = 8  # one part in so many more room than a page needs: the next one may be longer
_LENGTH_BYTES = 4  # in front of each text, and of the levels
_LENGTH = struct.Struct("<I")
_SIGNED = struct.Struct("<i")  # how Thrift takes the checksum


class Page(NamedTuple):
    """A page as it is written: *head*, then *body*."""

    head: bytes
    body: memoryview  # holds until the next page is made
    plain_bytes: int  # of both, had the body not been compressed


class TextPages:
    """Makes pages one after the other, in memory that is used again."""

    def __init__(self, snappy_page: SnappyPage) -> None:
        self._snappy_page = snappy_page
        # of the page at hand, compressed and not
        self._room = bytearray()

    def make_pages(self, column: pa.ChunkedArray) -> Iterator[Page]:
        """Yield the pages of *column*: strings without nulls, less than 1 GiB."""
        for piece in _pieces(column):
            _, offsets, data = piece.buffers()
            # just these: behind them a buffer may have bytes that are no number
            places = np.frombuffer(offsets, np.int32, piece.offset + len(piece) + 1)[piece.offset :]
            places = places.astype(np.int64)  # so that sums don't overflow
            first = 0
            while first < len(piece):
                behind = int(np.searchsorted(places, places[first] + _PAGE_BYTES, "right")) - 1
                count = min(max(behind - first, 1), len(piece) - first)
                text_bytes = int(places[first + count] - places[first])
                yield self._make_page(offsets, data, piece.offset + first, count, text_bytes)
                first += count

    def _make_page(
        self, offsets: pa.Buffer, data: pa.Buffer | None, first: int, count: int, text_bytes: int
    ) -> Page:
        levels = _all_present(count)
        plain = len(levels) + _LENGTH_BYTES * count + text_bytes
        needed = 2 * plain + _ROOM_BYTES
        if len(self._room) < needed:
            self._room = bytearray(needed + needed // _SPARE)
        size = self._snappy_page(levels, offsets, data or b"", first, count, self._room)
        body = memoryview(self._room)[:size]
        head = _page_head(plain, body, count)
        return Page(head, body, len(head) + plain)


def _pieces(column: pa.ChunkedArray) -> Iterator[pa.StringArray]:
    """Yield the column in pieces that are large enough to be pages."""
    held: list[pa.StringArray] = []
    size = 0
    for piece in filter(len, column.iterchunks()):
        if held and size + piece.nbytes > _TOGETHER_BYTES:
            yield _joined(held)
            held, size = [], 0
        held.append(piece)
        size += piece.nbytes
    if held:
        yield _joined(held)


def _joined(pieces: list[pa.StringArray]) -> pa.StringArray:
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _all_present(count: int) -> bytes:
    """Return the definition levels of *count* values, none of which is null: one run of ones."""
    run = encode_varint(count << 1) + b"\1"
    return _LENGTH.pack(len(run)) + run


def _page_head(plain: int, body: memoryview, count: int) -> bytes:
    """Return parquet.thrift's PageHeader of a page of *count* values."""
    (crc,) = _SIGNED.unpack(_LENGTH.pack(isal_zlib.crc32(body)))
    data = {1: (I32, count), 2: (I32, PLAIN), 3: (I32, RLE), 4: (I32, RLE)}
    return encode_struct(
        {
            1: (I32, DATA_PAGE),
            2: (I32, plain),
            3: (I32, len(body)),
            4: (I32, crc),
            5: (STRUCT, data),
        }
    )
