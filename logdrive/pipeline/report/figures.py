"""The figures of the report, from the headers alone: rates and delays over time, paths, covers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.sources import ON_PURPOSE, AuditedSource
from logdrive.pipeline.decode.coverage import Interval, union

Values = npt.NDArray[np.float64]

_BINS = 60  # limit on the bins of a chart
# lengths of a bin, in seconds
_STEPS = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
)
_BARS = 400  # pieces of one cover bar; more than a screen shows
COLUMNS = ("kind", "read", "received", "committed", "rows", "path", "host", "bytes")
"""The columns of `batches` that the figures are made of."""


@dataclass(frozen=True, slots=True)
class Bin:
    """What arrived in one step of time.

    *low* and *high* are the median and the 99th percentile of the delay, in seconds, if any.
    """

    label: str
    events: float  # per second
    bytes: float  # per second
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Leg:
    """One part of the way from file to table; quantiles in seconds, weighted by lines."""

    name: str
    p50: float
    p90: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a cover bar, from and width in percent.

    *what* is one of kept, lost, unwanted, elsewhere.
    """

    at: float
    width: float
    what: str
    label: str


@dataclass(frozen=True, slots=True)
class PathFigures:
    """Where lines came from, and how many."""

    name: str
    host: str
    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All of them. *step* is the length of a bin in seconds."""

    bins: list[Bin]
    step: float
    legs: list[Leg]
    paths: list[PathFigures]


def compute_figures(batches: pa.Table, most_paths: int = 12) -> Figures:
    """Compute them from the rows of `batches`, of which it takes the batches with events."""
    data = batches.filter(pc.greater(batches["rows"], 0))
    read, received, committed = (_seconds(data[name]) for name in ("read", "received", "committed"))
    rows, size = _numbers(data["rows"]), _numbers(data["bytes"])
    bins, step = _bins(received, committed - np.where(np.isnan(read), received, read), rows, size)
    legs = [
        _leg("file to receiver", received - read, rows),
        _leg("receiver to table", committed - received, rows),
        _leg("file to table", committed - read, rows),
    ]
    return Figures(bins, step, [leg for leg in legs if leg is not None], _paths(data, most_paths))


def _seconds(column: pa.ChunkedArray) -> Values:
    return _numbers(column.cast(pa.int64())) / 1e6


def _numbers(column: pa.ChunkedArray) -> Values:
    # unsafe: a client may say a time so far ahead that a float has not all its digits
    floats = column.cast(pa.float64(), safe=False)
    return np.asarray(floats.fill_null(float("nan")).to_numpy(), np.float64)


def _bins(received: Values, delay: Values, rows: Values, size: Values) -> tuple[list[Bin], float]:
    known = ~np.isnan(received)
    received, delay, rows, size = received[known], delay[known], rows[known], size[known]
    if not len(received):
        return [], 1.0

    first, last = float(received.min()), float(received.max())
    step = choose_step(first, last)
    start = first // step * step
    where = ((received - start) // step).astype(np.int64)
    bins = []
    for number in range(int(where.max()) + 1):
        here = where == number
        low, high = _quantiles(delay[here], rows[here], (0.5, 0.99)) if here.any() else (None, None)
        bins.append(
            Bin(
                bin_label(start + number * step, step),
                rows[here].sum() / step,
                size[here].sum() / step,
                low,
                high,
            )
        )
    return bins, step


def choose_step(first: float, last: float) -> float:
    """Return the shortest step, in seconds, that gives few enough bins from *first* to *last*."""
    return next(
        (float(step) for step in _STEPS if (last - first) / step < _BINS),
        float(_STEPS[-1] * max(1, round((last - first) / _STEPS[-1] / _BINS))),
    )


def bin_label(seconds: float, step: float) -> str:
    """Return the label of the bin that begins at *seconds* since 1970 and is *step* long."""
    at = datetime.fromtimestamp(seconds, UTC)
    if step >= 86400:
        return f"{at:%Y-%m-%d}"
    if step >= 3600:
        return f"{at:%b %d %H:%M}"
    return f"{at:%H:%M:%S}" if step >= 1 else f"{at:%H:%M:%S}.{at.microsecond // 100_000}"


def _leg(name: str, delay: Values, rows: Values) -> Leg | None:
    known = ~np.isnan(delay)
    if not known.any():
        return None
    return Leg(name, *_quantiles(delay[known], rows[known], (0.5, 0.9, 0.99, 1.0)))


def _quantiles(values: Values, weights: Values, wanted: Sequence[float]) -> list[float]:
    """Return the quantiles *wanted* of *values*, each counted *weights* times.

    They are never below 0: clocks of two hosts may differ.
    """
    # the share of all weights that is reached at each value, in rising order
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    places = np.minimum(np.searchsorted(reached, wanted), len(values) - 1)
    return [max(0.0, float(value)) for value in values[order][places]]


def _paths(data: pa.Table, most: int) -> list[PathFigures]:
    if not data.num_rows:
        return []
    by = (
        data.group_by(["path", "host"])
        .aggregate([("rows", "sum"), ("bytes", "sum")])
        .sort_by([("rows_sum", "descending")])
    )
    return [
        PathFigures(
            row["path"] or "(no path)", row["host"] or "", row["rows_sum"], row["bytes_sum"]
        )
        for row in by.slice(0, most).to_pylist()
    ]


def cover_bar(source: AuditedSource) -> list[BarPart]:
    """Return the parts of a bar for the bytes [0, last) of *source*.

    What is lost is drawn over the rest, never too thin to see.
    """
    last = max(1, source.last)
    pieces = [
        _piece(interval, last, "kept", "in the table") for interval in _coarse(source.kept, last)
    ]
    for gap in source.gaps:
        what = (
            "unwanted"
            if gap.reason in ON_PURPOSE
            else "lost"
            if gap.lost_bytes or not gap.end_exact
            else "elsewhere"
        )
        pieces.append(_piece((gap.start, gap.end), last, what, gap.reason.replace("_", " ")))
    pieces += [
        _piece(interval, last, "lost", "not in the rows")
        for interval in _coarse(source.damaged, last)
    ]
    return pieces


def _piece(interval: Interval, last: int, what: str, label: str) -> BarPart:
    start, end = interval
    return BarPart(
        100 * start / last, 100 * (end - start) / last, what, f"{label}: {start:,} to {end:,}"
    )


def _coarse(intervals: Iterable[Interval], last: int) -> list[Interval]:
    """Join what a bar can't show apart."""
    joined = union(intervals)
    if len(joined) <= _BARS:
        return joined
    # round outwards to grains of one bar's width, so that neighbors join
    grain = last // _BARS + 1
    return union(
        (start // grain * grain, (end + grain - 1) // grain * grain) for start, end in joined
    )
