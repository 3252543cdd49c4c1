"""The report in a real browser: on a phone, on a desk, and on paper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.report.page import render_report
from tests.conftest import unavailable
from tests.logdrive.pipeline.audit.damages import fill_tables
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.gold.counted import count as count_gold
from tests.logdrive.pipeline.segments import Segment, file_records, lines
from tests.logdrive.pipeline.silver.filled import BROKEN, access_lines, fill
from tests.support.browser import Page, find_chromium, open_page

pytestmark = pytest.mark.process

LONG = "/srv/" + "a-directory-with-a-long-name-" * 6 + "/and.a.file.log"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        unavailable("no Chromium here")
    with open_page(program, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with something in each of its parts, and with names that are hard to lay out."""
    directory = tmp_path_factory.mktemp("tables")
    fill_tables(directory)
    segment = Segment(name="logs/app/1.#epoch.0")
    data = lines("long", 0, 400)
    attributes = {"host": "a-host-with-a-name." * 8, "path": LONG}
    records, count = file_records(data)
    segment.data_batch("long", 0, len(data), records, count, attributes=attributes)
    segment.gap("long", len(data), 10**12, "removed")
    segment.dismissal(segment.dead_letter("beats", 2**40), 2**40, "w" * 90, "because " * 40)
    errors = access_lines(0, 90).replace(b'1.1" 200', b'1.1" 500', 9) + BROKEN
    records, count = file_records(errors)
    attributes = {"host": "web-1", "path": f"{LONG}/access.log"}
    segment.data_batch("web", 0, len(errors), records, count, attributes=attributes)
    catch_up(directory, segment)
    fill(directory)
    count_gold(directory)
    file = directory / "report.html"
    file.write_text(render_report(str(directory), audit(str(directory))))
    return file


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1280])
def test_no_part_of_the_report_is_wider_than_the_window(
    page: Page, report: Path, width: int
) -> None:
    page.open(report, width, 844)
    assert page.evaluate("document.title") == "logdrive: not complete"
    titles = page.evaluate("[...document.querySelectorAll('h2')].map(one => one.textContent)")
    assert {"Errors", "Lines by service", "Quarantined", "Tables by format", "Gaps"} <= set(titles)
    assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    beyond = "[...document.querySelectorAll('body *')].filter(one => one.closest('svg') === null "
    beyond += "&& one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML)"
    assert page.evaluate(beyond) == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_report_asks_for_nothing_and_complains_of_nothing(
    page: Page, report: Path, dark: bool
) -> None:
    page.open(report, 390, 844, dark=dark)
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert page.complaints == []
    seen = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (seen == "rgb(17, 22, 28)") == dark


def test_on_a_phone_each_value_of_a_table_has_its_name_beside_it(page: Page, report: Path) -> None:
    page.open(report, 390, 844)
    named = "[...document.querySelectorAll('.rows td:not(:first-child):not(:empty)')].filter(one =>"
    named += " getComputedStyle(one, '::before').content.length > 2).length"
    assert page.evaluate(named) > 10
    assert page.evaluate("getComputedStyle(document.querySelector('thead')).display") == "none"
    page.open(report, 1280, 844)
    assert page.evaluate("getComputedStyle(document.querySelector('thead')).display") != "none"


def test_the_report_can_be_printed_on_light_paper(page: Page, report: Path) -> None:
    page.open(report, 1280, 844, dark=True)
    printed = page.print_pdf(printBackground=True)
    assert printed.startswith(b"%PDF-")
    assert 2 <= printed.count(b"/Type /Page\n") <= 8
    page.call("Emulation.setEmulatedMedia", media="print")
    try:
        seen = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert seen == "rgb(255, 255, 255)"
        wide = "[innerWidth, document.documentElement.scrollWidth]"
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=680,  # a sheet's, in CSS pixels
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )
        width, needed = page.evaluate(wide)
        assert needed <= width == 680
    finally:
        page.call("Emulation.setEmulatedMedia", media="")
