"""Figures of what a run does in silver and gold."""

import threading
from pathlib import Path

import pytest

from logdrive.cli.tables.follow import follow_with_tables
from logdrive.pipeline.metrics import RunMetrics
from logdrive.pipeline.plan import Plan
from logdrive.pipeline.silver.writer import Silver
from logdrive.pipeline.tables.failures import FullDiskError
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import grow, read, silver_rows, tables_of


def rows_by_table(metrics: RunMetrics) -> dict[str, float]:
    return {
        sample.labels["table"]: sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "logdrive_pipeline_silver_rows_total"
    }


def test_prometheus_gets_what_silver_and_gold_have_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: Silver, *arguments: object) -> None:
        raise FullDiskError("no room")

    metrics, segment = RunMetrics(), Segment()
    plan = Plan(uri="pravega://127.0.0.1:1/a/b", directory=str(tmp_path), once=True)
    waiting = "logdrive_pipeline_silver_waiting_versions"
    with follow_with_tables(
        plan, None, threading.Event(), metrics, with_silver=True, with_gold=True
    ) as derived:
        grow(tmp_path, segment, 0)
        derived.catch_up()
        assert metrics.values()[waiting] == 0
        grow(tmp_path, segment, 1)
        derived.finish()

    found = metrics.values()
    assert found["logdrive_pipeline_silver_step_seconds_count"] == 2
    assert found["logdrive_pipeline_gold_step_seconds_count"] == 2
    assert found["logdrive_pipeline_gold_lines_total"] == silver_rows(tmp_path).total()
    assert rows_by_table(metrics) == {
        table: read(tmp_path, table).num_rows for table in tables_of(tmp_path)
    }

    grow(tmp_path, segment, 2)
    monkeypatch.setattr(Silver, "_write_files", no_room)
    with (
        follow_with_tables(
            plan, None, threading.Event(), metrics, with_silver=True, with_gold=True
        ) as derived,
        pytest.raises(FullDiskError),
    ):
        derived.catch_up()
    assert metrics.values()[waiting] == 1
