"""The table `beginnings`: where tables begin that were not begun with their stream.

One row for each segment that the stream had when the tables were begun at a time. It is written
before anything else is, so that the place stays the same whatever happens after. What lies before
it is filled later, if it is asked for, from the segment's start upwards: how far that has come is a
mark of both bronze tables, which a commit sets together with the rows (`backfill_mark`).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.decode.schema import LABEL, TIME, plain_schema
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.files import write_file
from logdrive.pipeline.tables.open_table import create_table, is_table, open_table

BEGINNINGS_SCHEMA: Final = pa.schema(
    [
        pa.field("stream", LABEL, nullable=False),
        pa.field("segment", LABEL, nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("start", TIME, nullable=False),
        pa.field("noted", TIME, nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where the tables begin in one segment: with the first batch received at a time or later."""

    stream: str
    segment: str
    offset: int
    start_ms: int
    """The time, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class UnfilledPart:
    """A part of a segment that lies before the tables' beginning, and was not filled yet."""

    stream: str
    segment: str
    start: int
    """Offset up to which it was filled."""
    end: int
    """Offset at which the tables begin."""
    start_ms: int
    """The time at which the tables begin, in ms since 1970."""


def beginnings_path(directory: str) -> str:
    """Return where the table `beginnings` of *directory* is, or would be."""
    return os.path.join(os.path.dirname(table_paths(directory)[0]), "beginnings")


def backfill_mark(segment: str) -> str:
    """Return the name of the mark that says how far *segment* was filled before the beginning."""
    return f"backfill:{segment}"


def read_beginnings(directory: str) -> dict[str, Beginning]:
    """Return where the tables in *directory* begin, by segment; none if they began with the stream.

    Raises `StorageError`.
    """
    path = beginnings_path(directory)
    if not is_table(path):
        return {}
    rows = open_table(path, BEGINNINGS_SCHEMA).read_rows(BEGINNINGS_SCHEMA.names).sort_by("noted")
    columns = ("stream", "segment", "offset")
    starts = rows["start"].cast(pa.int64()).to_pylist()
    return {  # a segment that has several rows begins where the last one says
        segment: Beginning(stream, segment, offset, start // 1000)
        for stream, segment, offset, start in zip(
            *(rows[name].to_pylist() for name in columns), starts, strict=True
        )
    }


def add_beginnings(directory: str, beginnings: Sequence[Beginning], now_ms: int) -> None:
    """Note *beginnings*, in one durable commit. Raises `StorageError`."""
    table = create_table(beginnings_path(directory), BEGINNINGS_SCHEMA)
    rows = {
        "stream": [one.stream for one in beginnings],
        "segment": [one.segment for one in beginnings],
        "offset": [one.offset for one in beginnings],
        "start": [one.start_ms * 1000 for one in beginnings],
        "noted": [now_ms * 1000] * len(beginnings),
    }
    plain = plain_schema(BEGINNINGS_SCHEMA)
    made = pa.table(rows, schema=plain).cast(BEGINNINGS_SCHEMA)
    staged = write_file(table.path, made)
    table.add_files([staged] if staged else [], {})


def find_unfilled(directory: str, batches: AppendTable) -> list[UnfilledPart]:
    """Return what was not filled yet of the tables in *directory*, whose headers *batches* has.

    Raises `StorageError`.
    """
    return [
        UnfilledPart(one.stream, one.segment, filled, one.offset, one.start_ms)
        for one in read_beginnings(directory).values()
        if (filled := batches.next_offset(backfill_mark(one.segment))) < one.offset
    ]


def time_text(time_ms: int) -> str:
    """Return a time in ms since 1970 as text, in UTC."""
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    return time.isoformat(sep=" ", timespec="milliseconds" if time_ms % 1000 else "seconds")
