"""The report: one file, nothing beside it, and every word of the tables is text in it, never
markup.
"""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from logdrive.pipeline.audit.audit import Verdict, verdict
from logdrive.pipeline.audit.dead_letters import read_dead_letters
from logdrive.pipeline.audit.heads import heads_from_table
from logdrive.pipeline.audit.judge_sources import audit_sources
from logdrive.pipeline.audit.verify_rows import Fault, Proof
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.report.charts import decades, duration, line, scale, short, size
from logdrive.pipeline.report.figures import cover_bar
from logdrive.pipeline.report.page import render_report
from tests.logdrive.pipeline.filling import bronze, catch_up, send
from tests.logdrive.pipeline.segments import Segment, file_records, lines

_VOID = {"meta", "path", "rect", "i"}


class Reader(HTMLParser):
    """Collects what a browser would fetch or run, the text, and whether tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [f"{name}={value}" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def judged(directory: Path, faults: list[Fault] | None = None) -> Verdict:
    _, batches = open_tables(str(directory))
    heads = heads_from_table(
        batches.read_rows(
            (
                "segment",
                "offset",
                "kind",
                "source",
                "host",
                "path",
                "position",
                "kept",
                "rows",
                "bytes",
                "dropped",
                "received",
                "mark_start",
                "mark_end",
                "mark_reason",
                "mark_exact",
                "resend",
                "origin",
            )
        )
    )
    proof = Proof(sum(head.rows for head in heads), 0, 0, 0, 0, faults or [])
    return verdict(audit_sources(heads), proof, 0, letters=read_dead_letters(batches))


def test_a_complete_report_says_so_and_needs_nothing_beside_it(tmp_path: Path) -> None:
    segment, at = Segment(), 0
    for turn in range(200):
        at = send(segment, "a", lines("a", turn * 3, 3), at)
        segment.clock += 700
    segment.foreign("beats", [b'{"message":"x"}'])
    segment.ended("a", at)
    catch_up(tmp_path, segment)
    read = Reader(render_report(str(tmp_path), judged(tmp_path)))
    assert read.open == []
    assert read.fetched == []
    assert "script" not in read.tags
    assert "Complete" in read.text
    assert "Not complete" not in read.text
    assert "/var/log/a.log" in read.text
    assert "file to table" in read.text
    assert read.tags.count("rect") >= 30


def test_a_time_that_a_client_made_up_breaks_no_report(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 3)
    # the last millisecond of the year 9999: an odd number of microseconds beyond 2^53
    read, records = 253_402_300_799_999, file_records(data)[0]
    segment.data_batch("a", 0, len(data), records, 3, read=read)
    catch_up(tmp_path, segment)
    assert "Complete" in Reader(render_report(str(tmp_path), judged(tmp_path))).text


def test_what_is_missing_is_on_the_page_with_its_reason(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 10)
    send(segment, "a", data[:40])
    segment.gap("a", 40, 60, "removed", exact=False)
    send(segment, "a", data[60:], 60)
    catch_up(tmp_path, segment)
    fault = Fault(
        5, None, "/var/log/a.log", "data", 1000, 2000, 3, 2, 9, "rows are missing or duplicated"
    )
    text = Reader(render_report(str(tmp_path), judged(tmp_path, [fault]))).text
    assert "Not complete" in text
    assert "29 bytes lost, 0 lines duplicated; the end of 1 file was not seen: removed" in text
    assert "; 1 batch whose rows do not match the header, 1 line missing;" in text
    assert "≥ 20" in text
    assert "removed" in text
    assert "rows are missing or duplicated" in text
    assert "1,000–2,000" in text


def test_r7_dead_letters_are_on_the_page(tmp_path: Path) -> None:
    segment = Segment()
    segment.foreign("beats", [b'{"message":"x"}'])
    letter = segment.dead_letter("beats", 20_000_000)
    catch_up(tmp_path, segment)
    text = Reader(render_report(str(tmp_path), judged(tmp_path))).text
    assert "Not complete" in text
    assert "1 event of foreign peers (20,000,000 bytes) went to the dead letters" in text
    assert "1 dead letters" in text
    segment.dismissal(letter, 20_000_000, "<ada>", "a <core> dump")
    catch_up(tmp_path, segment)
    text = Reader(render_report(str(tmp_path), judged(tmp_path))).text
    assert "Not complete" not in text
    assert "1 dead letter dismissed" in text
    assert "a <core> dump" in text


def test_r7_a_replayed_letter_is_found_in_the_table_by_its_id(tmp_path: Path) -> None:
    segment, event = Segment(), b'{"message":"x"}'
    letter = segment.dead_letter("beats", len(event))
    segment.piece("beats", event, 0, 7, letter)
    segment.piece("beats", event, 7, len(event), letter)
    segment.piece("beats", event, 0, len(event), "another")
    catch_up(tmp_path, segment)
    verdict = judged(tmp_path)
    assert [(one.id, one.state) for one in verdict.letters] == [(letter, "replayed")]
    assert verdict.complete


def test_paths_and_reasons_are_never_markup(tmp_path: Path) -> None:
    segment = Segment()
    segment.data_batch(
        "a", 0, 0, [], 0, attributes={"host": "<b>h", "path": '/var/"><script>alert(1)</script>'}
    )
    segment.gap("a", 0, 9, "<i>")
    send(segment, "a", b"x\n", 9)
    segment.data_batch(
        "a", 11, 11, [], 0, attributes={"host": "<b>h", "path": '/var/"><script>alert(1)</script>'}
    )
    catch_up(tmp_path, segment)
    read = Reader(render_report(str(tmp_path), judged(tmp_path)))
    assert "script" not in read.tags
    assert "<script>alert(1)</script>" in read.text


def test_empty_tables_have_a_report_too(tmp_path: Path) -> None:
    with bronze(tmp_path):
        pass
    assert "Nothing to judge" in Reader(render_report(str(tmp_path), judged(tmp_path))).text


def test_a_cover_bar_fills_itself_and_shows_what_is_lost(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 10)
    segment.gap("a", 0, 20, "not_wanted")
    send(segment, "a", data[20:40], 20)
    segment.gap("a", 40, 60, "removed")
    send(segment, "a", data[60:], 60)
    catch_up(tmp_path, segment)
    (source,) = judged(tmp_path).by_source
    bar = cover_bar(source)
    assert sorted(piece.what for piece in bar) == ["kept", "kept", "lost", "unwanted"]
    assert sum(piece.width for piece in bar) == pytest.approx(100)


@pytest.mark.parametrize(
    ("most", "top"), [(0, 1), (1, 1), (3.2, 4), (97, 100), (101, 150), (12_345, 15_000)]
)
def test_axes_end_at_round_figures(most: float, top: float) -> None:
    assert scale(most)[0] == top


def test_figures_for_people() -> None:
    assert [short(value) for value in (0, 0.25, 12, 1234, 56_700, 1.25e6, 3e9)] == [
        "0",
        "0.25",
        "12",
        "1,234",
        "56.7 k",
        "1.25 M",
        "3 G",
    ]
    assert [size(value) for value in (12, 2e6)] == ["12 B", "2 MB"]
    assert [duration(value) for value in (0, 0.0042, 1.5, 90, 150, 10_000)] == [
        "0",
        "4.2 ms",
        "1.5 s",
        "90 s",
        "2.5 min",
        "2.78 h",
    ]


def test_a_line_breaks_where_nothing_is_known() -> None:
    low, high, ticks = decades([0.01, 2.0])
    assert [tick.label for tick in ticks] == ["10 ms", "100 ms", "1 s", "10 s"]
    assert line([0.01, None, 1.0], low, high).count("M") == 2
