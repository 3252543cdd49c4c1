"""Writer of a Parquet file by row groups: long columns of texts page by page, the rest by Arrow."""

import os
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from logdrive.host.writeback import begin_writeback
from logdrive.kernel.page_loops import snappy_page
from logdrive.model.units import MIB
from logdrive.pipeline.tables.parquet.footer import ColumnChunk, RowGroupTexts, replace_chunks
from logdrive.pipeline.tables.parquet.text_pages import TextPages

_LEAST_BYTES: Final = 1 * MIB  # of a column in a row group: below, a footer of ours costs more
_MOST_BYTES: Final = 512 * MIB  # likewise: one text may be all of it, and a page has it twice
_WRITEBACK_BYTES: Final = 1 * MIB  # below, the sync at the end has little to wait for
_NONE: RowGroupTexts = MappingProxyType({})


class ParquetFileWriter:
    """A file that is being written. It ends with `finish`, or with `abandon` after an error.

    Without the compiled loop, Arrow writes all of it.
    """

    def __init__(
        self, path: str, schema: pa.Schema, options: dict[str, Any], texts: frozenset[str]
    ) -> None:
        """Make the file at *path*, with *options* as for Arrow's `ParquetWriter`.

        Columns of *texts*, by name, have other values in nearly all rows. Raises OSError.
        """
        self._path = path
        self._sink = pa.OSFile(path, "wb")
        try:
            self._writer = pq.ParquetWriter(self._sink, schema, **options)
        except BaseException:
            self._sink.close()
            raise
        # columns that may be written here, by the number in the schema
        self._texts: dict[int, str] = {}
        # what writes their pages, if there is anything
        self._pages: TextPages | None = None
        if options["compression"] == "snappy" and snappy_page is not None:
            self._pages = TextPages(snappy_page)
            self._texts = {
                number: field.name
                for number, field in enumerate(schema)
                # readers that share a file out take the first column's place for the row group's
                if number and field.name in texts and field.type == pa.string() and field.nullable
            }
        # of each row group, what was written here
        self._groups: list[RowGroupTexts] = []
        # up to where the file is on its way to the disk
        self._begun = 0

    def write_row_group(self, table: pa.Table) -> None:
        """Add *table*, which has rows, as one row group. Raises OSError."""
        chosen = {
            number: column
            for number in self._texts
            if _LEAST_BYTES <= (column := table.column(number)).nbytes < _MOST_BYTES
            and not column.null_count
        }
        others = table
        for number in chosen:  # what Arrow writes of nulls is a few bytes
            others = others.set_column(
                number, table.schema.field(number), pa.nulls(len(table), pa.string())
            )
        self._writer.write_table(others, row_group_size=len(table))
        # behind Arrow's columns, as the first page of the row group has to be at its beginning
        self._groups.append(
            {self._texts[number]: self._write_texts(column) for number, column in chosen.items()}
            or _NONE
        )
        end = self._sink.tell()
        if end - self._begun >= _WRITEBACK_BYTES:
            begin_writeback(self._sink.fileno(), self._begun, end)
            self._begun = end

    def _write_texts(self, column: pa.ChunkedArray) -> ColumnChunk:
        assert self._pages is not None, "columns are chosen where there is one"
        offset, plain_bytes, pages = self._sink.tell(), 0, 0
        for page in self._pages.make_pages(column):
            self._sink.write(page.head)
            self._sink.write(page.body)
            plain_bytes += page.plain_bytes
            pages += 1
        stored = self._sink.tell() - offset
        return ColumnChunk(len(column), pages, plain_bytes, stored, offset)

    def finish(self) -> None:
        """Write the end of the file, and sync it; its name is not durable yet.

        Raises OSError, or `StorageError` if Arrow's footer is odd.
        """
        with self._sink:
            end = self._sink.tell()
            self._writer.close()
            if any(self._groups):
                self._replace_footer(end)
            # by the handle that wrote: one that is opened later may miss what failed before
            os.fsync(self._sink.fileno())

    def abandon(self) -> None:
        """Close the file, which is of no use."""
        with self._sink, suppress(OSError):
            self._writer.close()

    def _replace_footer(self, end: int) -> None:
        with open(self._path, "r+b") as file:
            file.seek(end)
            tail = replace_chunks(file.read(), self._groups)
            file.seek(end)
            file.truncate()
            file.write(tail)
