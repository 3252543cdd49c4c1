"""Compares a file byte for byte with the rows of its source (`audit --against`).

Rows are read file by file of the table, in whatever order they lie there, and each is compared with
the bytes at its place. Takes memory for a few thousand rows, and for the intervals seen.
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.absent import read_left_out
from logdrive.pipeline.audit.file_rows import FilesProgress, map_files, read_source
from logdrive.pipeline.bronze.erased import read_erased
from logdrive.pipeline.bronze.rebuild import COLUMNS, place_rows
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.coverage import GrowingUnion, Interval, subtract, total_size, union
from logdrive.pipeline.decode.schema import REDACTED
from logdrive.pipeline.tables.delta import AppendTable

_ROWS: Final = 4096
"""Rows that a thread compares at once."""


class ReadableFile(Protocol):
    """The file that is compared."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; fewer only at the end of the file."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a file and the rows of its source have in common."""

    file: str
    source: str
    bytes: int  # of the file
    different: int | None  # position of the first byte that differs; None: none does
    missing: list[Interval]  # bytes of the file that are in no row, in order
    left_out: int  # bytes that the agent was told to leave out or redact, or that were erased
    beyond: int  # bytes of rows that lie behind the end of the file

    @property
    def same(self) -> bool:
        """True if every byte of the file is in the tables as it is, or was not wanted there."""
        return self.different is None and not (self.missing or self.beyond)


class _Found(NamedTuple):
    """What a part of the rows says."""

    covered: list[Interval]
    redacted: list[Interval]
    different: int | None


@dataclass(slots=True)
class ComparedFile:
    """A file to compare: its *name*, its *size* when it was opened, and the *source* it is of."""

    name: str
    source: str
    size: int  # bytes
    file: ReadableFile = field(repr=False)


def compare_file(
    directory: str, compared: ComparedFile, on_progress: FilesProgress = lambda _, __: None
) -> Comparison:
    """Compare a file with the rows of its source in the tables of *directory*.

    Raises `StorageError`, and OSError if the file can't be read.
    """
    events, batches = open_tables(directory)
    paths = sorted(events.files)
    seen, secret = GrowingUnion(), GrowingUnion()
    different: list[int] = []
    for count, found in enumerate(map_files(partial(_compare, compared), paths), 1):
        seen.add(found.covered)
        secret.add(found.redacted)
        different += [found.different] if found.different is not None else []
        on_progress(count, len(paths))
    covered, redacted = seen.intervals(), secret.intervals()

    whole = [(0, compared.size)] if compared.size else []
    lacking = subtract(whole, covered)
    left_out = read_left_out(batches, compared.source)
    erased = _erased(directory, events, compared.source)
    missing = subtract(lacking, union([*left_out, *erased, *redacted]))
    return Comparison(
        compared.name,
        compared.source,
        compared.size,
        min(different, default=None),
        missing,
        total_size(lacking) - total_size(missing),
        total_size(subtract(union([*covered, *redacted]), whole)),
    )


def _compare(compared: ComparedFile, path: str) -> _Found:
    """Compare the rows in one file of the table."""
    covered, redacted = GrowingUnion(), GrowingUnion()
    different: list[int] = []
    for rows in read_source(path, compared.source, COLUMNS, _ROWS):
        placed = pc.and_(rows["start"].is_valid(), rows["end"].is_valid())
        some = pa.Table.from_batches([rows.filter(placed)])
        secret = pc.fill_null(pc.equal(some["flag"], REDACTED), False)
        redacted.add(_places(some.filter(secret)))
        some = some.filter(pc.invert(secret))
        try:
            some = place_rows(some)
        except ValueError:  # an event of which some lines are gone
            covered.add(_places(some))
            different.append(pc.min(some["start"]).as_py())
            continue
        covered.add(_places(some))
        start, end = some["start"].to_numpy(), some["end"].to_numpy()
        different += _different(compared, start, end, some["bytes"].combine_chunks())
    return _Found(covered.intervals(), redacted.intervals(), min(different, default=None))


def _places(rows: pa.Table) -> list[Interval]:
    return list(zip(rows["start"].to_pylist(), rows["end"].to_pylist(), strict=True))


def _different(
    compared: ComparedFile, start: np.ndarray, end: np.ndarray, rows: pa.BinaryArray
) -> list[int]:
    """Return the position of the first byte of *rows* that is not the file's, if there is one."""
    if not len(rows):
        return []
    # rows that are no bytes of a file have another length than their place
    strange = pc.binary_length(rows).to_numpy(zero_copy_only=False) != end - start
    if strange.any():
        first = int(strange.argmax())
        return _different(compared, start[:first], end[:first], rows.slice(0, first)) or [
            int(start[first])
        ]
    # rows that follow one another are compared at once
    breaks = [0, *(np.flatnonzero(start[1:] != end[:-1]) + 1).tolist(), len(rows)]
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset :][: len(rows) + 1]
    data = np.frombuffer(rows.buffers()[2] or b"", np.uint8)
    for first, after in pairwise(breaks):
        have = data[offsets[first] : offsets[after]]
        place = int(start[first])
        known = max(0, min(len(have), compared.size - place))  # the rest lies behind its end
        bytes_there = np.frombuffer(compared.file.pread(known, place), np.uint8)
        length = min(known, len(bytes_there))
        unequal = have[:length] != bytes_there[:length]
        if unequal.any():
            return [place + int(unequal.argmax())]
    return []


def _erased(directory: str, events: AppendTable, source: str) -> list[Interval]:
    """Return the bytes of *source* whose rows were erased."""
    rows = read_erased(directory, events)
    ours = rows.filter((pc.field("source") == source) & pc.field("end").is_valid())
    places = zip(ours["start"].to_pylist(), ours["end"].to_pylist(), strict=True)
    return [(start, end) for start, end in places if start is not None]
