"""The report has what silver and gold say: services, errors, and why rows are quarantined."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.gold.schema import GOLD_SCHEMAS, MINUTES
from logdrive.pipeline.report.by_service import error_bins, read_table_figures
from logdrive.pipeline.report.page import render_report
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.gold.counted import count
from tests.logdrive.pipeline.report.test_page import Reader
from tests.logdrive.pipeline.segments import Segment, file_records, lines
from tests.logdrive.pipeline.silver.filled import BROKEN, access_lines, fill


def fill_all(directory: Path) -> None:
    """Fill bronze, silver and gold."""
    segment = Segment()
    failed = access_lines(0, 40).replace(b'1.1" 200', b'1.1" 503', 7)
    data = failed + BROKEN
    records, lines_there = file_records(data)
    attributes = {"host": "web-1", "path": "/var/log/<shop>/access.log"}
    segment.data_batch("web", 0, len(data), records, lines_there, attributes=attributes)
    send(segment, "plain", lines("plain", 0, 5))
    catch_up(directory, segment)
    fill(directory)
    count(directory)


def test_services_errors_and_reasons_are_read(tmp_path: Path) -> None:
    fill_all(tmp_path)
    found = read_table_figures(str(tmp_path))
    (web,) = [one for one in found.services if one.table == "access"]
    assert (web.name, web.lines, web.errors) == ("<shop>", 40, 7)
    assert sum(one.errors for one in found.bins) == 7
    assert sum(one.lines for one in found.bins) == 46
    assert [(one.format, one.rows) for one in found.reasons] == [("access", 1)]
    assert found.balance is not None
    assert found.balance.adds_up


def test_they_are_on_the_page_as_text(tmp_path: Path) -> None:
    fill_all(tmp_path)
    page = Reader(render_report(str(tmp_path), audit(str(tmp_path))))
    assert page.open == []
    for title in ("Errors", "Lines by service", "Quarantined", "Tables by format"):
        assert title in page.text
    assert "<shop>" in page.text
    assert "shop" not in page.tags
    assert "is one row of one of these" in " ".join(page.text.split())


def test_without_gold_the_page_has_what_silver_says_and_without_silver_neither(
    tmp_path: Path,
) -> None:
    segment = Segment()
    send(segment, "plain", lines("plain", 0, 5))
    catch_up(tmp_path, segment)
    page = Reader(render_report(str(tmp_path), audit(str(tmp_path)))).text
    assert "Tables by format" not in page
    fill(tmp_path)
    page = Reader(render_report(str(tmp_path), audit(str(tmp_path)))).text
    assert "Tables by format" in page
    assert "Lines by service" not in page


def test_errors_of_minutes_far_apart_are_in_few_bins() -> None:
    times = [datetime(2015, 5, 17, 10, 5, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), None]
    row = {"service": "s", "table": "access", "bytes": 0, "timed": 0, "seconds": 0.0}
    rows = [row | {"minute": at, "lines": 3, "errors": n} for n, at in enumerate(times)]
    bins, step = error_bins(pa.Table.from_pylist(rows, schema=GOLD_SCHEMAS[MINUTES]))
    assert len(bins) < 100
    assert step > 86400
    assert [(one.lines, one.errors) for one in bins if one.lines] == [(3, 0), (3, 1)]
    assert error_bins(GOLD_SCHEMAS[MINUTES].empty_table()) == ([], 60.0)
