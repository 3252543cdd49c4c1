"""The report's part on silver and gold: volume and errors by service, and what is quarantined."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.gold.read import has_gold, read_errors, read_gold, read_services
from logdrive.pipeline.gold.schema import MINUTES
from logdrive.pipeline.report.charts import Tick, columns, scale, short
from logdrive.pipeline.report.figures import bin_label, choose_step
from logdrive.pipeline.silver.balance import SilverBalance, silver_balance
from logdrive.pipeline.silver.schema import QUARANTINE, silver_directory
from logdrive.pipeline.tables.open_table import is_table, open_table_as_it_is

_SERVICES = 20  # limit on the services listed
_REASONS = 20  # likewise
_ERRORS = 10  # likewise


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """What one service has written in one format; latencies are seconds, if its lines say any."""

    name: str
    table: str
    lines: int
    errors: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class ErrorBin:
    """The lines and the errors of one step of time."""

    label: str
    lines: int
    errors: int


@dataclass(frozen=True, slots=True)
class QuarantineReason:
    """Why rows are quarantined: those of one format, or of none."""

    reason: str
    format: str
    rows: int


@dataclass(frozen=True, slots=True)
class SeenError:
    """An error by its fingerprint."""

    service: str
    message: str
    times: int
    first: str  # when it was seen for the first time
    last: str


@dataclass(frozen=True, slots=True)
class TableFigures:
    """All of them; everything is empty without silver, and most of it without gold."""

    balance: SilverBalance | None = None
    services: list[ServiceFigures] = field(default_factory=list)
    more_services: int = 0
    bins: list[ErrorBin] = field(default_factory=list)
    step: float = 60.0  # seconds a bin
    reasons: list[QuarantineReason] = field(default_factory=list)
    errors: list[SeenError] = field(default_factory=list)


def read_table_figures(directory: str) -> TableFigures:
    """Read them from the tables in *directory*. Raises `StorageError`."""
    balance = silver_balance(directory)
    if balance is None:
        return TableFigures()
    reasons = _read_reasons(directory)
    if not has_gold(directory):
        return TableFigures(balance, reasons=reasons)
    services = _services(read_services(directory))
    bins, step = error_bins(read_gold(directory, MINUTES))
    errors = [
        SeenError(
            row["service"] or "",
            row["message"] or "",
            row["times"],
            f"{row['first']:%Y-%m-%d %H:%M}" if row["first"] else "",
            f"{row['last']:%Y-%m-%d %H:%M}" if row["last"] else "",
        )
        for row in read_errors(directory).slice(0, _ERRORS).to_pylist()
    ]
    shown = services[:_SERVICES]
    return TableFigures(balance, shown, len(services) - len(shown), bins, step, reasons, errors)


def _services(rows: pa.Table) -> list[ServiceFigures]:
    return [
        ServiceFigures(
            row["service"] or "(none)",
            row["table"],
            row["lines"],
            row["errors"],
            row["p50"],
            row["p99"],
        )
        for row in rows.to_pylist()
    ]


def _read_reasons(directory: str) -> list[QuarantineReason]:
    path = os.path.join(silver_directory(directory), QUARANTINE)
    if not is_table(path):
        return []
    rows = open_table_as_it_is(path).read_rows(["format", "reason"])
    counted = rows.group_by(["reason", "format"]).aggregate([([], "count_all")])
    ordered = counted.sort_by([("count_all", "descending"), ("reason", "ascending")])
    return [
        QuarantineReason(row["reason"] or "(none)", row["format"] or "", row["count_all"])
        for row in ordered.slice(0, _REASONS).to_pylist()
    ]


def error_bins(minutes: pa.Table) -> tuple[list[ErrorBin], float]:
    """Return lines and errors over time, from rows of the gold table `minutes`; and the step."""
    # rows that have no time at all, not even that of their batch, are those of 1970
    known = minutes.filter(pc.field("minute") > pa.scalar(0, TIME))
    if not known.num_rows:
        return [], 60.0
    at = known["minute"].cast(pa.int64()).to_numpy() / 1e6
    step = max(60.0, choose_step(at.min(), at.max()))
    start = at.min() // step * step
    where = ((at - start) // step).astype(np.int64)
    sums = {
        name: np.bincount(where, known[name].to_numpy()).astype(np.int64)
        for name in ("lines", "errors")
    }
    return [
        ErrorBin(bin_label(start + number * step, step), int(lines), int(errors))
        for number, (lines, errors) in enumerate(zip(sums["lines"], sums["errors"], strict=True))
    ], step


def errors_chart(bins: Sequence[ErrorBin]) -> dict[str, object]:
    """Return the chart of errors over time."""
    values = [one.errors for one in bins]
    top, ticks = scale(max(values, default=0))
    titles = [f"{one.label}: {one.errors:,} errors of {one.lines:,} lines" for one in bins]
    return {
        "ticks": [Tick(100 * tick / top, short(tick)) for tick in ticks],
        "columns": columns(values, titles, top),
    }
