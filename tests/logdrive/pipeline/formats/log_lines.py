"""Lines for the tests of formats."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.formats.catalog import make_format
from logdrive.pipeline.formats.format import FormatOptions, LogLines, ParsedLines

RECEIVED = datetime(2026, 3, 1, 12, tzinfo=UTC)


def log_lines(
    texts: Sequence[str | None], received: datetime | None = RECEIVED, source: str = "app"
) -> LogLines:
    """Return *texts* as the lines of one file."""
    sizes = [len((text or "").encode()) + 1 for text in texts]
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    starts = [end - size for end, size in zip(ends, sizes, strict=True)]
    count = len(texts)
    return LogLines(
        pa.array(texts, pa.string()),
        pa.array([received] * count, TIME),
        pa.nulls(count, pa.string()),
        pa.array([source] * count, pa.string()).dictionary_encode(),
        pa.array(starts, pa.int64()),
        pa.array(ends, pa.int64()),
    )


def parse(
    name: str, texts: Sequence[str | None], options: FormatOptions | None = None
) -> list[dict[str, Any]]:
    """Return what the format *name* makes of *texts*: a row each, without nulls."""
    return rows(make_format(name, options).parse(log_lines(texts)))


def rows(parsed: ParsedLines) -> list[dict[str, Any]]:
    """Return rows with `time` and `reason`, without nulls."""
    columns = [*parsed.columns.columns, parsed.time, parsed.reasons]
    names = [*parsed.columns.schema.names, "time", "reason"]
    whole = pa.RecordBatch.from_arrays(columns, names)
    return [
        {key: value for key, value in row.items() if value is not None} for row in whole.to_pylist()
    ]


def utc(
    year: int,
    month: int,
    day: int,
    hour: int = 0,
    minute: int = 0,
    second: int = 0,
    micros: int = 0,
) -> datetime:
    """Return a time, UTC."""
    return datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
