"""What foreign peers have sent, line by line: kept in the table `sent`, the newest in memory.

A line is known by its file, its offset there and a hash of its text. Memory holds the newest
`MEMORY_LINES` lines, and a few numbers for each file; older lines are looked up in the table when a
file's lines come again. What was sent longer ago than the last `_DAYS` days is not looked for.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.tables.failures import name_read

SENT_SCHEMA: Final = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("file", pa.int64(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("text", pa.int64(), nullable=False),
        pa.field("time", TIME),
        pa.field("process", pa.int64()),
        pa.field("life", pa.int32(), nullable=False),
        pa.field("unsure", pa.bool_(), nullable=False),
        pa.field("received", TIME),
    ]
)
"""Columns of the files of `sent`: one row for each line of a foreign peer that has an offset and is
in silver. *file* and *text* are hashes; *unsure* says that it may be there twice.
"""

MEMORY_LINES = 1 << 18
_DAYS = 8  # days with lines that are looked through
_KNOWN_COLUMNS = ["file", "start", "text", "time", "process", "life"]


LineKey = tuple[int, int, int]
"""What one line is known by: hash of its file, offset, hash of its text."""

SentLine = tuple[int | None, int | None, int]
"""When a line was read (the record's own `@timestamp`, µs since 1970), a hash of what its shipper
calls itself until it is restarted, and the life of the file; the first two as far as its peer says.
"""


@dataclass(slots=True)
class SentFile:
    """A file of a foreign peer: its present life, from offset 0 on."""

    life: int = 0
    furthest: int = -1  # the highest offset of a line in this life
    newest: int | None = None  # the latest time of a line
    is_in_memory: bool = True  # False: some of its lines are only in the table
    is_unsure: bool = False  # whether the last lines may all have been there before


class SentLines:
    """All lines that are known."""

    def __init__(self, paths: Iterable[str] = (), memory: int = MEMORY_LINES) -> None:
        """Load what the files of `sent` at *paths* have."""
        self._paths = _newest_days(paths)
        self._limit = memory  # lines
        self.files: dict[int, SentFile] = {}
        # in the order in which they came
        self._lines: dict[LineKey, SentLine] = {}
        self._found: dict[LineKey, SentLine] = {}
        self._load()

    def _load(self) -> None:
        newest: list[pa.Table] = []
        for path in self._paths:
            rows = _read(path)
            self._note_files(rows)
            newest.append(rows)
            while sum(part.num_rows for part in newest[1:]) >= self._limit:
                newest.pop(0)
                self._forget_all()
        rows = pa.concat_tables(newest) if newest else pa.table([])
        if rows.num_rows > self._limit:
            rows = rows.slice(rows.num_rows - self._limit)
            self._forget_all()
        for key, line in _lines_of(rows):
            self._keep(key, line)

    def _forget_all(self) -> None:
        for file in self.files.values():
            file.is_in_memory = False

    def _note_files(self, rows: pa.Table) -> None:
        """Note how far the files of *rows* have come."""
        named = rows.group_by(["file", "life"], use_threads=False).aggregate(
            [("start", "max"), ("time", "max")]
        )
        times = named["time_max"].cast(pa.int64()).to_pylist()
        for row, time in zip(named.drop_columns("time_max").to_pylist(), times, strict=True):
            self.note(row["file"], row["life"], row["start_max"], time)

    def note(self, file: int, life: int, start: int, time: int | None) -> None:
        """Note that *file* has come to *start* in *life*, with a line of *time*."""
        known = self.files.get(file)
        if known is None:
            known = self.files[file] = SentFile()
        if life > known.life:
            known.life, known.furthest = life, -1
        if life == known.life and start > known.furthest:
            known.furthest = start
        if time is not None and (known.newest is None or time > known.newest):
            known.newest = time

    def add(self, key: LineKey, line: SentLine) -> None:
        """Add a line that is kept. Costs about a microsecond."""
        self.note(key[0], line[2], key[1], line[0])
        self._keep(key, line)

    def _keep(self, key: LineKey, line: SentLine) -> None:
        known = self._lines.pop(key, line)
        self._lines[key] = known if known[2] > line[2] else line
        if len(self._lines) > self._limit:
            oldest = next(iter(self._lines))
            del self._lines[oldest]
            self.files[oldest[0]].is_in_memory = False

    def find(self, key: LineKey) -> SentLine | None:
        """Return the line that is known by *key*; `look_up` its file before, if it asks for it."""
        return self._lines.get(key) or self._found.get(key)

    def look_up(self, files: Sequence[int]) -> None:
        """Read from the table the lines of *files*, as far as they are not in memory."""
        wanted = [file for file in files if not self.files[file].is_in_memory]
        self._found = {}
        for path in self._paths if wanted else ():
            rows = _read(path)
            mine = rows.filter(pc.is_in(rows["file"], pa.array(wanted, pa.int64())))
            for key, line in _lines_of(mine):
                before = self._found.get(key)
                if before is None or before[2] <= line[2]:
                    self._found[key] = line

    def add_files(self, paths: Iterable[str]) -> None:
        """Note files of `sent` that were just written."""
        self._paths += paths

    def replace_files(self, paths: Iterable[str]) -> None:
        """Note the files of `sent` after a compaction, which leaves the same lines."""
        self._paths = _newest_days(paths)


def _newest_days(paths: Iterable[str]) -> list[str]:
    """Return those of *paths* that are of the last days, in the order of these."""
    by_day: dict[str, list[str]] = {}
    for path in paths:
        by_day.setdefault(os.path.basename(os.path.dirname(path)), []).append(path)
    return [path for day in sorted(by_day)[-_DAYS:] for path in sorted(by_day[day])]


def _read(path: str) -> pa.Table:
    with name_read(path):
        return pq.read_table(path, columns=_KNOWN_COLUMNS, partitioning=None)


def _lines_of(rows: pa.Table) -> Iterator[tuple[LineKey, SentLine]]:
    if not rows.num_rows:
        return
    columns = {name: rows[name] for name in _KNOWN_COLUMNS}
    columns["time"] = columns["time"].cast(pa.int64())
    values = [columns[name].to_pylist() for name in _KNOWN_COLUMNS]
    for file, start, text, time, process, life in zip(*values, strict=True):
        yield (file, start, text), (time, process, life)
