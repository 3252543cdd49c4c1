"""Renders the audit and the figures of the tables as one self-contained HTML page."""

from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from logdrive.pipeline.audit.audit import Verdict
from logdrive.pipeline.audit.dead_letters import dismissals
from logdrive.pipeline.audit.sources import AuditedSource
from logdrive.pipeline.audit.text import verdict_line
from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.decode.schema import BATCHES
from logdrive.pipeline.report.by_service import errors_chart, read_table_figures
from logdrive.pipeline.report.charts import (
    Tick,
    columns,
    decades,
    duration,
    line,
    scale,
    short,
    size,
)
from logdrive.pipeline.report.figures import COLUMNS, Figures, compute_figures, cover_bar
from logdrive.pipeline.tables.open_table import open_table

_SOURCES = 40  # limit on the sources listed
_GAPS = 200  # limit on the gaps listed
_LABELS = 5  # labels along the time axis


def render_report(directory: str, verdict: Verdict, made: datetime | None = None) -> str:
    """Return the HTML report on the tables in *directory*, whose audit is *verdict*.

    *made* is the time on the page; now by default.
    """
    figures = compute_figures(open_table(table_paths(directory)[1], BATCHES).read_rows(COLUMNS))
    environment = Environment(
        loader=PackageLoader("logdrive.pipeline"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": duration,
        "short": short,
        "size": size,
        "number": lambda value: f"{value:,}",
    }
    shown = _shown(verdict.by_source)
    tables = read_table_figures(directory)
    judgement, counts = verdict_line(verdict).split(": ", 1)
    return environment.get_template("report.html.j2").render(
        directory=directory,
        made=f"{made or datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        verdict=verdict,
        judgement=judgement.capitalize(),
        figures=counts,
        ended_sources=sum(source.state == "ended" for source in verdict.by_source),
        rate=_rate(figures),
        delay=_delay(figures),
        legs=figures.legs,
        times=_times([one.label for one in figures.bins]),
        tables=tables,
        errors=errors_chart(tables.bins),
        error_times=_times([one.label for one in tables.bins]),
        most_lines=max((one.lines for one in tables.services), default=1),
        paths=figures.paths,
        most_events=max((path.events for path in figures.paths), default=1),
        sources=[(source, cover_bar(source)) for source in shown],
        more_sources=len(verdict.by_source) - len(shown),
        dismissals=dismissals(verdict.letters),
        gaps=verdict.gaps[:_GAPS],
        more_gaps=max(0, len(verdict.gaps) - _GAPS),
    )


def _shown(sources: list[AuditedSource]) -> list[AuditedSource]:
    """Return the sources to list, by host and path: those with gaps and the largest others."""
    ranked = sorted(
        sources, key=lambda source: (not source.lost_bytes, not source.gaps, -source.bytes)
    )
    return sorted(
        ranked[:_SOURCES], key=lambda source: (source.host or "", source.path or "", source.source)
    )


def _rate(figures: Figures) -> dict[str, object]:
    """Return the chart of lines per second."""
    values = [one.events for one in figures.bins]
    top, ticks = scale(max(values, default=0))
    titles = [
        f"{one.label}: {short(one.events)} lines/s, {size(one.bytes)}/s" for one in figures.bins
    ]
    return {
        "ticks": [Tick(100 * tick / top, short(tick)) for tick in ticks],
        "columns": columns(values, titles, top),
        "step": figures.step,
    }


def _delay(figures: Figures) -> dict[str, object]:
    """Return the chart of the delay, median and 99th percentile."""
    lows, highs = [one.low for one in figures.bins], [one.high for one in figures.bins]
    low, high, ticks = decades([value for value in (*lows, *highs) if value is not None])
    return {"ticks": ticks, "median": line(lows, low, high), "p99": line(highs, low, high)}


def _times(labels: list[str]) -> list[str]:
    """Return a few of *labels* for the time axis, evenly spread."""
    if len(labels) <= _LABELS:
        return labels
    return [labels[round(n * (len(labels) - 1) / (_LABELS - 1))] for n in range(_LABELS)]
