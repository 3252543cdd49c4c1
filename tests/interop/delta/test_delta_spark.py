"""delta-spark reads, appends to and maintains tables of ours, and our pipeline goes on with them.

DuckDB's own reader of Delta reads them, too. Both are programs as published.
"""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.silver.config import SilverConfig
from tests.interop.delta.peers import DeltaPeers
from tests.logdrive.pipeline.bronze.test_days import over_midnight
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.silver.filled import Stream, bronze_rows, fill, silver_rows

pytestmark = [pytest.mark.delta_spark, pytest.mark.spark, pytest.mark.process]

ORDER = b'{"level":"info","message":"paid","user":{"id":%d,"name":"ann"},"big":%d}\n'
COMMITS = 110  # more than lie between two checkpoints


def test_delta_spark_reads_and_maintains_tables_that_the_pipeline_goes_on_with(
    tmp_path: Path,
) -> None:
    segment = over_midnight()
    events = str(tmp_path / "bronze" / "events")
    at = 0
    for number in range(COMMITS):
        at = send(segment, "c", lines("c", number, 1), at)
        catch_up(tmp_path, segment)

    with DeltaPeers(tmp_path) as peers:
        assert seen(peers, events) == ours(tmp_path)
        peers.call("append", events, "another application")  # a row of ours once more
        assert seen(peers, events) == ours(tmp_path)
        verdict = audit(str(tmp_path))
        assert not verdict.complete, "the row that is there twice is not noticed"
        restore(events)

        at = go_on(tmp_path, segment, at)
        assert peers.call("optimize", events)
        peers.call("vacuum", events)
        assert len(open_tables(str(tmp_path))[0].files) < 5
        assert seen(peers, events) == ours(tmp_path)
        at = go_on(tmp_path, segment, at)
        assert seen(peers, events) == ours(tmp_path)


def test_delta_spark_reads_a_rest_as_a_variant_and_silver_goes_on_with_what_it_compacts(
    tmp_path: Path,
) -> None:
    stream, config = Stream(tmp_path), SilverConfig(rest="variant")
    table = str(tmp_path / "silver" / "json")

    def go_on(first: int) -> None:
        numbers = range(first, first + 20)
        bare = b'{"level":"info","message":"nothing more"}\n'
        stream.add(orders=bare + b"".join(ORDER % (n, 2**70 + n) for n in numbers))
        fill(tmp_path, config)
        assert silver_rows(tmp_path) == bronze_rows(tmp_path)

    def expected(count: int) -> list[Any]:
        rows = count + count // 20
        return [rows, count, "variant", sum(range(count)), "ann", str(2**70 + count - 1)]

    with DeltaPeers(tmp_path) as peers:
        for first in range(0, 200, 20):
            go_on(first)
        assert peers.call("variant_figures", table) == expected(200)
        assert peers.call("duckdb_figures", table)[0] == 210
        assert peers.call("optimize", table)
        go_on(200)
        assert peers.call("variant_figures", table) == expected(220)
        where, clock, disk = "message LIKE '%paid%'", SystemClock(), SystemDisk()
        done = erase_rows(str(tmp_path), where, by="ann", why=None, clock=clock, disk=disk)
        assert done.tables["silver/json"] == 220
        assert peers.call("variant_figures", table)[:2] == [11, 0]
        go_on(220)
        assert peers.call("variant_figures", table)[:2] == [32, 20]


def seen(peers: DeltaPeers, events: str) -> list[int]:
    """Return the figures of both, once they are the same."""
    figures: list[int] = peers.call("figures", events)
    assert peers.call("duckdb_figures", events) == figures
    return figures


def ours(directory: Path) -> list[int]:
    """Return the same figures by the pipeline's own reader."""
    rows = open_tables(str(directory))[0].read_rows(["ordinal", "start", "end", "message"])
    sums: list[Any] = [sum(rows[name].to_pylist()) for name in ("ordinal", "start", "end")]
    return [rows.num_rows, *sums, sum(map(len, rows["message"].to_pylist()))]


def go_on(directory: Path, segment: Segment, at: int) -> int:
    """Append a batch, and demand that the pipeline reads it into complete tables."""
    at = send(segment, "c", lines("c", 1000 + at, 7), at)
    assert catch_up(directory, segment) == 7
    verdict = audit(str(directory))
    assert verdict.complete, verdict.faults
    return at


def restore(events: str) -> None:
    """Take the foreign append back, as its author would."""
    table = DeltaTable(events)
    table.restore(table.version() - 1)
