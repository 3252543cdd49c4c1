"""What a format makes of the lines of one file: the figures of `logdrive pipeline formats`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.decode.lines import split_lines
from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.formats.catalog import make_format, recognize
from logdrive.pipeline.formats.format import FormatOptions, LogLines

_REFUSED: Final = 5  # lines that are shown


@dataclass(frozen=True, slots=True)
class FormatSurvey:
    """How many lines of a file a format reads, and which it does not."""

    format: str | None
    """None: none was given, and none is recognized."""
    table: str
    lines: int
    read: int
    reasons: Mapping[str, int]
    """Lines that are not read, by reason."""
    refused: Sequence[tuple[str, str]]
    """The first of these: reason and line."""
    first: datetime | None
    """The earliest time that a line says."""
    last: datetime | None
    example: Mapping[str, Any]
    """Columns of the first line that is read, without nulls."""

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "format": self.format,
            "table": self.table,
            "lines": self.lines,
            "read": self.read,
            "reasons": dict(self.reasons),
            "refused": [{"reason": reason, "line": line} for reason, line in self.refused],
            "first": self.first and self.first.isoformat(),
            "last": self.last and self.last.isoformat(),
            "example": {
                name: value.isoformat() if isinstance(value, datetime) else value
                for name, value in self.example.items()
            },
        }


def survey_text(
    text: bytes, received: datetime, name: str | None, options: FormatOptions
) -> FormatSurvey:
    """Return what the format *name*, or the one that is recognized, makes of a file's *text*.

    *received* decides on the years of times that say none. Raises ValueError as `make_format`.
    """
    lines = _log_lines(text, received)
    count = len(lines)
    chosen = name or recognize(lines)
    if chosen is None:
        return FormatSurvey(None, "text", count, count, {}, (), None, None, {})
    one = make_format(chosen, options)
    parsed = one.parse(lines)
    bad = parsed.reasons.is_valid()
    refused = zip(
        parsed.reasons.filter(bad).slice(0, _REFUSED).to_pylist(),
        lines.message.filter(bad).slice(0, _REFUSED).to_pylist(),
        strict=True,
    )
    reasons = {
        entry["values"]: entry["counts"]
        for entry in parsed.reasons.filter(bad).value_counts().to_pylist()
    }
    good = parsed.columns.append_column("time", parsed.time).filter(pc.invert(bad)).slice(0, 1)
    span = pc.min_max(parsed.time).as_py()
    return FormatSurvey(
        chosen,
        one.table,
        count,
        parsed.reasons.null_count,
        reasons,
        tuple(refused),
        span["min"],
        span["max"],
        {key: value for row in good.to_pylist() for key, value in row.items() if value is not None},
    )


def _log_lines(text: bytes, received: datetime) -> LogLines:
    """Return the lines of *text* as bronze would have them."""
    if not text:
        none = pa.nulls(0, pa.string())
        numbers = pa.nulls(0, pa.int64())
        return LogLines(none, pa.nulls(0, TIME), none, none, numbers, numbers)
    lines, _ = split_lines([text], [0])
    count = len(lines.messages)
    return LogLines(
        lines.messages,
        pa.repeat(pa.scalar(received, TIME), count),
        pa.nulls(count, pa.string()),
        pa.repeat(pa.scalar("file"), count),
        pa.array(lines.starts),
        pa.array(lines.stops),
    )
