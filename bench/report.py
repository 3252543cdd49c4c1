"""What was measured, as a table for people and as `build/bench.json` for machines."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.goals import GOALS, Goal
from bench.measure import Benchmark, Outcome, Series

_TWINS = {"raw_bytes": "lines_per_second"}
"""Figures that are another one in another unit: they get no ratio beside that."""


def ratios(name: str, outcome: Outcome, peers: Sequence[str]) -> dict[str, float]:
    """Return the ratios of the median of *name* to each peer's median of the same figure."""
    figure = name.rpartition(".")[2]
    by_peer: dict[str, float] = {}
    if figure in _TWINS and f"{name.removesuffix(figure)}{_TWINS[figure]}" in outcome.figures:
        return by_peer
    for peer in peers:
        theirs = outcome.figures.get(f"{peer}.{figure}")
        if theirs is not None and theirs.median:
            by_peer[peer.rpartition(".")[2]] = outcome.figures[name].median / theirs.median
    return by_peer


def as_json(outcome: Outcome, benchmarks: Sequence[Benchmark]) -> dict[str, object]:
    """Return `{name: {value, unit, ratio: {peer: x}, runs: [values]}}`.

    *value* is the median of *runs*.
    """
    peers = {benchmark.name: benchmark.peers for benchmark in benchmarks}
    return {
        name: {
            "value": _rounded(series.median),
            "unit": series.unit,
            "ratio": {
                peer: _rounded(ratio)
                for peer, ratio in ratios(name, outcome, peers[name.rpartition(".")[0]]).items()
            },
            "runs": [_rounded(value) for value in series.values],
        }
        for name, series in outcome.figures.items()
    }


def write_json(path: Path, outcome: Outcome, benchmarks: Sequence[Benchmark]) -> None:
    """Write `as_json`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(outcome, benchmarks), indent=2) + "\n")


def print_table(console: Console, outcome: Outcome, benchmarks: Sequence[Benchmark]) -> None:
    """Print every figure, its ratio to each peer, its goal, and what was left out and why."""
    table = Table(title="medians; ratio = this figure / the peer's", title_justify="left")
    table.add_column("figure", no_wrap=True)
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("lowest … highest", justify="right", no_wrap=True)
    table.add_column("ratio", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    for benchmark in benchmarks:
        rows = {
            name: series
            for name, series in outcome.figures.items()
            if name.rpartition(".")[0] == benchmark.name
        }
        if rows:
            table.add_row(f"[bold]{benchmark.title}[/bold]")
        for name, series in rows.items():
            against = ratios(name, outcome, benchmark.peers)
            ratio_cells = "\n".join(f"{ratio:.2f} × {peer}" for peer, ratio in against.items())
            goals = "\n".join(
                _verdict(goal, series.median, against) for goal in GOALS.get(name, ())
            )
            table.add_row(name, *_cells(series), ratio_cells, goals)
        if rows:
            table.add_section()
    console.print(table)
    for word, reasons in (("skipped", outcome.skipped), ("failed", outcome.failed)):
        for name, reason in reasons.items():
            console.print(f"{word}: {name}: {reason}", highlight=False, markup=False)


def _cells(series: Series) -> tuple[str, str]:
    spread = (
        f"{_plain(min(series.values))} … {_plain(max(series.values))}"
        if len(series.values) > 1
        else ""
    )
    return f"{_plain(series.median)} {series.unit}", spread


def _verdict(goal: Goal, value: float, against: dict[str, float]) -> str:
    if goal.peer is not None and goal.peer not in against:
        return f"{goal.wanted()}: {goal.peer} not measured"
    measured = value if goal.peer is None else against[goal.peer]
    return f"{goal.wanted()}: {'met' if goal.met(measured) else 'missed'}"


def _plain(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
