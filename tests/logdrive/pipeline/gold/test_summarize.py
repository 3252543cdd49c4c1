"""The sums that gold keeps of rows, and the figures that are made from them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.pipeline.gold.read import add_quantiles
from logdrive.pipeline.gold.schema import ERRORS, GOLD_SCHEMAS, LATENCIES, MINUTES, TALKERS
from logdrive.pipeline.gold.summarize import (
    SILVER_COLUMNS,
    TALKERS_KEPT,
    add_up,
    keep_talkers,
    summarize_rows,
)
from tests.logdrive.pipeline.formats.log_lines import utc

Row = dict[str, Any]
NOON = utc(2026, 1, 2, 12)


def silver(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows of silver, with all columns that gold reads."""
    whole = [dict.fromkeys(SILVER_COLUMNS) | {"received": NOON} | dict(row) for row in rows]
    return pa.Table.from_pylist(whole, pa.schema(SILVER_COLUMNS.items()))


def summed(table: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the gold table *table*, without nulls and zeros."""
    made = summarize_rows(silver(rows), "access")[table].to_pylist()
    return [{key: value for key, value in row.items() if value} for row in made]


def test_lines_are_counted_by_the_minute_that_they_say_or_came_in() -> None:
    late = utc(2026, 1, 2, 12, 0, 59, 999999)
    before = utc(1969, 12, 31, 23, 59, 59)
    rows: list[Row] = [
        {"service": "a", "time": late},
        {"service": "a"},
        {"time": before, "bytes": 7},
    ]
    assert summed(MINUTES, rows) == [
        {"minute": NOON, "service": "a", "table": "access", "lines": 2},
        {"minute": before.replace(second=0), "table": "access", "lines": 1, "bytes": 7},
    ]


def test_errors_are_levels_and_a_servers_statuses() -> None:
    levels: list[Row] = [{"level": one} for one in ("info", "warn", "error", "fatal", None)]
    statuses: list[Row] = [{"status": one} for one in (200, 404, 499, 500, 503)]
    (row,) = summed(MINUTES, levels + statuses)
    assert (row["lines"], row["errors"]) == (10, 4)


def test_the_service_that_a_line_names_counts_where_no_other_is_known() -> None:
    rows = [{"service": "a", "service_name": "b"}, {"service_name": "b"}, {}]
    assert [row.get("service") for row in summed(MINUTES, rows)] == ["a", "b", None]


def test_an_error_is_counted_by_the_first_line_of_its_trace() -> None:
    trace: Row = {"source": "s", "trace": 7, "fingerprint": "f", "time": NOON}
    rows: list[Row] = [
        {**trace, "start": 7, "level": "error", "message": "oops " + "x" * 1000},
        {**trace, "start": 60, "message": "at a.b.c"},
        {**trace, "start": 900, "trace": 900, "time": utc(2026, 1, 1), "message": "again"},
        {"fingerprint": "g", "level": "error", "error": "no place"},
        {"fingerprint": "g", "message": "a line of it"},
    ]
    assert summed(ERRORS, rows) == [
        {
            "table": "access",
            "fingerprint": "f",
            "times": 2,
            "first": utc(2026, 1, 1),
            "last": NOON,
            "source": "s",
            "start": 7,
            "message": "oops " + "x" * 495,
        },
        {
            "table": "access",
            "fingerprint": "g",
            "times": 1,
            "first": NOON,
            "last": NOON,
            "message": "no place",
        },
    ]


def test_beyond_the_first_talkers_of_an_hour_clients_are_one_row() -> None:
    rows: list[Row] = [{"client": f"c{n:03}"} for n in range(TALKERS_KEPT + 50)]
    rows += [{"client": "c149", "bytes": 5}, {"client": None}]
    rows += [{"client": "other hour", "time": utc(2026, 1, 2, 13)}]
    kept = keep_talkers(summarize_rows(silver(rows), "access")[TALKERS])
    assert kept.num_rows == TALKERS_KEPT + 2
    assert sum(kept["lines"].to_pylist()) == len(rows)
    lines = dict(zip(kept["client"].to_pylist(), kept["lines"].to_pylist(), strict=True))
    assert lines["c149"] == 2
    assert lines["other hour"] == 1
    assert lines[None] == 51
    assert "c099" not in lines  # the last of the first hundred gave way to c149


def test_a_configured_column_of_another_type_is_something_else() -> None:
    rows = silver([{}]).drop_columns(["client", "trace", "level"])
    rows = rows.append_column("client", pa.array([17])).append_column("trace", pa.array(["a"]))
    rows = rows.append_column("level", pa.array([3]))
    made = summarize_rows(rows, "orders")
    assert [made[name].num_rows for name in GOLD_SCHEMAS] == [1, 0, 0, 0]


seconds = st.one_of(st.none(), st.floats(0, 1e9), st.sampled_from([0.0, 0.1, 1.0]))
made_rows = st.lists(
    st.fixed_dictionaries(
        {
            "time": st.sampled_from([None, NOON, utc(2026, 1, 2, 12, 1)]),
            "service": st.sampled_from([None, "a", "b"]),
            "status": st.sampled_from([None, 200, 500]),
            "bytes": st.one_of(st.none(), st.integers(0, 1000)),
            "seconds": seconds,
            "client": st.sampled_from([None, "x", "y"]),
            "fingerprint": st.sampled_from([None, "f", "g"]),
            "trace": st.sampled_from([None, 0, 1]),
            "start": st.integers(0, 1),
        }
    ),
    max_size=12,
)


def as_rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Return the rows, without what the order of parts decides."""
    names = [name for name in table.column_names if name not in {"source", "start", "message"}]
    rows = table.select(names).to_pylist()
    return Counter(
        tuple(round(one, 3) if isinstance(one, float) else one for one in row.values())
        for row in rows
    )


@given(made_rows, st.integers(0, 12))
def test_the_sums_of_parts_are_those_of_the_whole(rows: list[dict[str, Any]], cut: int) -> None:
    whole = summarize_rows(silver(rows), "access")
    parts = add_up([summarize_rows(silver(part), "access") for part in (rows[:cut], rows[cut:])])
    for name in GOLD_SCHEMAS:
        assert as_rows(parts[name]) == as_rows(whole[name])


@pytest.mark.parametrize("values", [[0.1], [0.001, 0.002, 5.0], [n / 100 for n in range(1, 500)]])
def test_quantiles_are_right_within_five_percent(values: list[float]) -> None:
    rows = [{"service": "a", "seconds": one} for one in values]
    rows += [{"service": None, "seconds": 3600.0}]
    latencies = summarize_rows(silver(rows), "access")[LATENCIES]
    found = {row["service"]: row for row in add_quantiles(latencies, ["service"]).to_pylist()}
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        exact = sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
        assert found["a"][name] == pytest.approx(exact, rel=0.05)
        assert found[None][name] == pytest.approx(3600.0, rel=0.05)


def test_no_latencies_have_no_quantiles() -> None:
    none = GOLD_SCHEMAS[LATENCIES].empty_table()
    assert add_quantiles(none, ["service"]).num_rows == 0


def test_times_before_and_behind_are_floored_alike() -> None:
    times = [datetime(1900, 1, 1, 0, 0, 30), datetime(2100, 1, 1, 0, 0, 30)]
    made = summed(MINUTES, [{"time": one} for one in times])
    assert [row["minute"].second for row in made] == [0, 0]
