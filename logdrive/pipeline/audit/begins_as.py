"""Finds the sources that a file may be, by what it begins with: it was renamed since, perhaps."""

from typing import Final

import pyarrow.compute as pc

from logdrive.pipeline.audit.against import ReadableFile
from logdrive.pipeline.bronze.rebuild import COLUMNS, row_bytes
from logdrive.pipeline.bronze.tables import open_tables

_READ: Final = 64 * 1024
"""Bytes of the file that are compared; longer first events are compared as far as these go."""


def find_beginnings(directory: str, file: ReadableFile) -> list[str]:
    """Return the sources whose first event is what *file* begins with, in the order of their ids.

    An empty file begins as none. Raises `StorageError`, and OSError if the file can't be read.
    """
    head = file.pread(_READ, 0)
    if not head:
        return []
    events, _ = open_tables(directory)
    rows = events.read_rows([*COLUMNS, "source"], pc.field("start") == 0)
    firsts = zip(rows["source"].to_pylist(), row_bytes(rows).to_pylist(), strict=True)
    return sorted({source for source, first in firsts if first and _fits(first, head)})


def _fits(first: bytes, head: bytes) -> bool:
    return head.startswith(first[:_READ])
