"""The footer of a Parquet file, with columns in it that Arrow's writer has not written.

Arrow's writer writes such a column as nulls, a few bytes, and its chunk's metadata is replaced by
that of the pages that are there. Everything else of the footer stays as it was written. Source:
parquet.thrift of apache/parquet-format, FileMetaData.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from logdrive.errors import StorageError
from logdrive.pipeline.tables.parquet.compact import (
    I32,
    I64,
    LIST,
    STRUCT,
    CompactReader,
    Struct,
    encode_struct,
)
from logdrive.pipeline.tables.parquet.text_pages import DATA_PAGE, PLAIN, RLE

MAGIC: Final = b"PAR1"
_LENGTH = struct.Struct("<I")  # of the footer, behind it

# numbers of fields in parquet.thrift
_ROW_GROUPS: Final = 4  # FileMetaData
_CHUNKS, _PLAIN_BYTES, _STORED_BYTES = 1, 2, 6  # RowGroup
_METADATA: Final = 3  # ColumnChunk
# ColumnMetaData
_ENCODINGS, _PATH, _VALUES = 2, 3, 5
_CHUNK_PLAIN_BYTES, _CHUNK_STORED_BYTES = 6, 7
_FIRST_PAGE, _ENCODING_STATS = 9, 13
# of nulls: index and dictionary pages, statistics, Bloom filters, sizes
_OF_OTHER_PAGES: Final = (10, 11, 12, 14, 15, 16)


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column of one row group, as it is in the file."""

    values: int
    pages: int
    plain_bytes: int  # before they were compressed, heads included
    stored_bytes: int
    offset: int  # of the first page in the file


RowGroupTexts = Mapping[str, ColumnChunk]
"""The columns of one row group that Arrow's writer has not written, by name."""


def replace_chunks(tail: bytes, groups: Sequence[RowGroupTexts]) -> bytes:
    """Return *tail*, the end of a file from its footer on, with the chunks of *groups*.

    There is an item of *groups* for each row group. Raises `StorageError` if the footer is none, or
    has other row groups or columns.
    """
    size = len(tail) - _LENGTH.size - len(MAGIC)
    if size < 0 or tail[size:] != _LENGTH.pack(size) + MAGIC:
        raise StorageError("a Parquet file has no footer where its writer has put one")
    footer = CompactReader(tail[:size]).read_struct()
    _, row_groups = _value(footer, _ROW_GROUPS, LIST)
    if len(row_groups) != len(groups):
        raise StorageError(f"a Parquet file has {len(row_groups)} row groups, not {len(groups)}")
    for row_group, texts in zip(row_groups, groups, strict=True):
        for name, chunk in texts.items():
            _replace_chunk(row_group, name, chunk)
    encoded = encode_struct(footer)
    return encoded + _LENGTH.pack(len(encoded)) + MAGIC


def _replace_chunk(row_group: Struct, name: str, chunk: ColumnChunk) -> None:
    _, columns = _value(row_group, _CHUNKS, LIST)
    path = [name.encode()]
    metadata = next(
        (
            found
            for column in columns
            if _value(found := _value(column, _METADATA, STRUCT), _PATH, LIST)[1] == path
        ),
        None,
    )
    if metadata is None or _value(metadata, _VALUES, I64) != chunk.values:
        raise StorageError(f"a Parquet file lacks {chunk.values} values of {name}")
    for total, part, size in (
        (_PLAIN_BYTES, _CHUNK_PLAIN_BYTES, chunk.plain_bytes),
        (_STORED_BYTES, _CHUNK_STORED_BYTES, chunk.stored_bytes),
    ):
        if total in row_group:
            more = size - _value(metadata, part, I64)
            row_group[total] = (I64, _value(row_group, total, I64) + more)
    for number in _OF_OTHER_PAGES:
        metadata.pop(number, None)
    pages = {1: (I32, DATA_PAGE), 2: (I32, PLAIN), 3: (I32, chunk.pages)}
    metadata |= {
        _ENCODINGS: (LIST, (I32, [PLAIN, RLE])),
        _CHUNK_PLAIN_BYTES: (I64, chunk.plain_bytes),
        _CHUNK_STORED_BYTES: (I64, chunk.stored_bytes),
        _FIRST_PAGE: (I64, chunk.offset),
        _ENCODING_STATS: (LIST, (STRUCT, [pages])),
    }


def _value(fields: Struct, number: int, kind: int) -> Any:
    """Return the field *number*, which has to be there, of the type *kind*."""
    found, value = fields.get(number, (0, None))
    if found != kind:
        raise StorageError(
            f"field {number} of a Parquet file's footer has type {found}, not {kind}"
        )
    return value
