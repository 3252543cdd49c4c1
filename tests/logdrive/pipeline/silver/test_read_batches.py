"""Files of bronze are parsed in batches, and no stack trace is cut between two of them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from logdrive.pipeline.silver import read_batches
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import access_lines, bronze_rows, fill, read, silver_rows

EVENT = b"2015-10-18 18:01:47,978 %s [main] o.a.Foo: %d\n"
TRACE = b"java.lang.Error: %d\n" + b"\tat com.example.Foo.bar(Foo.java:12)\n" * 5
EVENTS = 40


def _rows(directory: Path) -> pa.Table:
    table = read(directory, "application").select(
        ["source", "start", "message", "time", "trace", "fingerprint"]
    )
    return table.sort_by([("source", "ascending"), ("start", "ascending")])


def _fill(directory: Path) -> pa.Table:
    segment = Segment()
    for name in ("one", "two"):
        text = b"".join(
            EVENT % (b"ERROR", n) + TRACE % n if n % 2 else EVENT % (b"INFO", n)
            for n in range(EVENTS)
        )
        send(segment, name, text)
    send(segment, "web", access_lines(0, 30))
    catch_up(directory, segment)
    fill(directory)
    assert silver_rows(directory) == bronze_rows(directory)
    return _rows(directory)


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_a_trace_is_whole_wherever_a_batch_of_rows_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    whole = _fill(tmp_path / "whole")
    monkeypatch.setattr(read_batches, "BATCH_ROWS", size)
    assert _fill(tmp_path / "cut").equals(whole)
    assert len(pc.unique(whole["fingerprint"].drop_null())) == 1
    assert len(pc.unique(whole["trace"].drop_null())) == EVENTS // 2
