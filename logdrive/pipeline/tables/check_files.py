"""Reads files of tables whole, to find those that a disk has changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from logdrive.pipeline.tables.failures import name_read

_ROWS: Final = 1 << 13
"""Rows that are in memory at once, beside the packed bytes of their row group."""


class TableFiles(Protocol):
    """A table that knows its files."""

    @property
    def files(self) -> list[str]:
        """Paths of the files that are in the table now."""
        ...


def check_file(path: str) -> None:
    """Read each column of all rows of the parquet file at *path*, and check what can be checked.

    These are the checksums of its pages, which files of earlier versions lack, and that texts are
    UTF-8. Raises `UnreadableFileError`.
    """
    with name_read(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            for rows in file.iter_batches(_ROWS, [group], use_threads=False):
                rows.validate(full=True)


@contextmanager
def name_damaged_of(table: TableFiles) -> Iterator[None]:
    """Name the file in what pyarrow raises inside, where it reads those of *table*.

    Then they are read once more, until the damaged one is found. Raises `UnreadableFileError`, and
    as it is what no file explains.
    """
    try:
        yield
    except (pa.ArrowException, OSError):
        for path in table.files:
            check_file(path)
        raise
