"""What the audit says to people and scripts: one last line in a fixed shape, then what it does not
judge.
"""

import io
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from logdrive.pipeline.audit.audit import Verdict, verdict
from logdrive.pipeline.audit.dead_letters import letters_from_notes, notes_from_table
from logdrive.pipeline.audit.source_list import print_sources
from logdrive.pipeline.audit.sources import AuditedSource
from logdrive.pipeline.audit.text import print_verdict, verdict_line
from logdrive.pipeline.audit.verify_rows import Fault, Proof
from tests.logdrive.pipeline.audit.test_sources import batches_in, judged
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import Segment, lines, source_id


def found_in(segment: Segment, faults: list[Fault] | None = None) -> Verdict:
    sources = list(judged(segment).values())
    proof = Proof(sum(source.events for source in sources), 0, 0, 0, 0, faults or [])
    notes = [note for note in notes_from_table(batches_in(segment)) if note.mark_reason]
    return verdict(sources, proof, 0, letters=letters_from_notes(notes))


def gone(segment: Segment, source: str, reason: str = "removed") -> int:
    """Add a generation of two lines whose end was not seen; return how many bytes of it came."""
    at = send(segment, source, lines(source, 0, 2))
    mark = msgspec.Raw(b'{"end":%d,"reason":"%s","end_exact":false}' % (at, reason.encode()))
    segment.batch(
        "end",
        source,
        [b'{"log":{"ended":%b}}' % bytes(mark)],
        0,
        previous=at,
        position=at,
        mark=mark,
    )
    return at


def test_tables_without_a_batch_are_not_complete() -> None:
    judged = found_in(Segment())
    assert not judged.complete
    assert verdict_line(judged) == "nothing to judge: no batch has been read yet"


def test_a_complete_verdict_is_the_figures_alone_where_all_has_ended() -> None:
    segment = Segment()
    segment.ended("a", send(segment, "a", lines("a", 0, 2)))
    assert (
        verdict_line(found_in(segment))
        == "complete: 2 lines, 24 bytes, 1 sources, 0 bytes lost, 0 lines duplicated"
    )


def test_what_is_not_judged_follows_the_figures() -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 2))
    segment.clock += 3_600_000
    send(segment, "b", lines("b", 0, 2))
    segment.foreign("beats", [b'{"message":"x"}'] * 3)
    judged = found_in(segment)
    assert (judged.open_sources, judged.foreign_events) == (2, 3)
    figures, beside = verdict_line(judged).split("; ", 1)
    assert (
        figures
        == f"complete: 7 lines, {judged.bytes} bytes, 3 sources, 0 bytes lost, 0 lines duplicated"
    )
    assert beside == (
        "2 sources open, the longest silent since 2023-11-14 22:13:20+00:00; 3 lines "
        "of foreign peers are not judged (at least once)"
    )


def test_p4_an_end_that_nobody_saw_is_told_as_that_and_can_be_allowed() -> None:
    segment = Segment()
    at = gone(segment, "a")
    judged = found_in(segment)
    figures = f"2 lines, {at} bytes, 1 sources, 0 bytes lost, 0 lines duplicated"
    ends = (
        f"the end of 1 file was not seen: removed while its agent was away; up to {at} it is "
        "complete"
    )
    assert (judged.complete, judged.complete_but_for_ends) == (False, True)
    assert verdict_line(judged) == f"NOT COMPLETE: {figures}; {ends}"
    assert (
        verdict_line(judged, allow_unknown_ends=True)
        == f"complete but for 1 unknown end: {figures}; {ends}"
    )
    printed = judged.as_json()
    assert printed["unknown_ends"] == [
        {"source": source_id("a"), "path": "/var/log/a.log", "position": at, "reason": "removed"}
    ]
    assert printed["complete"] is False


def test_p4_ends_of_several_files_are_one_sentence() -> None:
    segment = Segment()
    gone(segment, "a")
    gone(segment, "b", "truncated")
    said = verdict_line(found_in(segment))
    assert said.endswith(
        "the end of 2 files was not seen: removed while their agent was away or "
        "truncated, perhaps before they were read to the end; "
        "up to where they were last seen they are complete"
    )


def test_p4_a_gap_up_to_the_last_size_seen_is_lost_and_its_end_unknown() -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 2))
    segment.gap("a", at, at + 10, "removed", exact=False)
    judged = found_in(segment)
    assert (judged.lost_bytes, judged.complete_but_for_ends) == (10, False)
    said = verdict_line(judged, allow_unknown_ends=True)
    assert said.startswith(
        "NOT COMPLETE: 2 lines, 24 bytes, 1 sources, 10 bytes lost, 0 lines duplicated; the "
        "end of 1 file was not seen: "
    )
    assert "it is complete" not in said


def test_r7_dead_letters_are_counted_and_no_audit_with_one_is_complete() -> None:
    segment = Segment()
    segment.foreign("beats", [b'{"message":"x"}'])
    segment.dead_letter("beats", 20_000_000)
    segment.dead_letter("beats", 30_000_000, "another")
    gone(segment, "a")
    judged = found_in(segment)
    assert (judged.complete, judged.complete_but_for_ends, judged.rows) == (False, False, 3)
    assert (judged.dead_letters, judged.dead_letter_bytes) == (2, 50_000_000)
    assert [(one.dead_letters, one.last) for one in judged.by_source if one.foreign] == [(2, 0)]
    said = verdict_line(judged, allow_unknown_ends=True)
    assert said.startswith("NOT COMPLETE: 3 lines, ")
    assert (
        "; 2 events of foreign peers (50,000,000 bytes) went to the dead letters and are in "
        "no row: see `logdrive store dead-letters`"
    ) in said
    assert judged.as_json()["by_source"][1]["dead_letters"] == 2


def test_r7_an_audit_whose_dead_letters_are_all_dismissed_is_complete_and_says_how_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    segment = Segment()
    segment.foreign("beats", [b'{"message":"x"}'])
    first = segment.dead_letter("beats", 20_000_000)
    second = segment.dead_letter("beats", 30_000_000, "another")
    segment.dismissal(first, 20_000_000, "ada@web-1", "a core dump")
    judged = found_in(segment)
    assert (judged.complete, judged.dead_letters, judged.dead_letter_bytes) == (
        False,
        1,
        30_000_000,
    )
    segment.dismissal(second, 30_000_000, "ada@web-1", "a core dump")
    segment.dismissal(second, 30_000_000, "ada@web-1", "a core dump")  # a note may be there twice
    judged = found_in(segment)
    assert (judged.complete, judged.dead_letters, judged.dismissed_dead_letters) == (True, 0, 2)
    assert (judged.sources, judged.by_source[0].dead_letters) == (1, 0)
    assert "; 2 dead letters dismissed; " in verdict_line(judged)
    print_verdict(judged)
    said = " ".join(capsys.readouterr().out.split())
    assert "2 dead letters (50,000,000 bytes) dismissed by ada@web-1 at 2023-11-14" in said
    assert "a core dump" in said
    letters = judged.as_json()["letters"]
    assert [(one["id"], one["state"], one["by"], one["why"]) for one in letters] == [
        (first, "dismissed", "ada@web-1", "a core dump"),
        (second, "dismissed", "ada@web-1", "a core dump"),
    ]


def test_r7_a_dismissal_of_a_letter_without_a_note_is_shown_and_is_no_source() -> None:
    segment = Segment()
    segment.foreign("beats", [b'{"message":"x"}'])
    segment.dismissal(source_id("old"), 900_000, "ada", "tests")
    judged = found_in(segment)
    assert (judged.complete, judged.sources, judged.dismissed_dead_letters) == (True, 1, 1)


def test_r7_a_letter_that_was_replayed_is_a_row_and_waits_no_longer() -> None:
    segment, event = Segment(), b'{"message":"x"}'
    letter = segment.dead_letter("beats", len(event))
    segment.piece("beats", event, 0, 7, letter)
    assert found_in(segment).dead_letters == 1
    segment.piece("beats", event, 7, len(event), letter)
    judged = found_in(segment)
    assert (judged.complete, judged.dead_letters, judged.letters[0].state) == (True, 0, "replayed")


def test_r6_pieces_of_an_event_are_no_position_and_an_unfinished_one_is_no_loss() -> None:
    segment, event = Segment(), b'{"message":"x"}'
    segment.piece("beats", event, 0, 7, "cut by a crash")
    segment.piece("beats", event, 0, 7)
    segment.piece("beats", event, 7, len(event))
    judged = found_in(segment)
    assert (judged.complete, judged.lost_bytes, judged.by_source[0].last) == (True, 0, 0)


def test_lines_and_rows_are_counted_each_by_its_name() -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 5))
    sources = list(judged(segment).values())
    counted = verdict(sources, Proof(5, 0, 0, 0, 0, [], unended=2), 0, {source_id("a"): 2})
    assert (counted.lines, counted.rows, counted.events, counted.by_source[0].lines) == (3, 5, 5, 3)
    assert verdict_line(counted).startswith("complete: 3 lines, ")
    assert "; 5 rows: long lines are in several; " in verdict_line(counted)
    assert (counted.as_json()["lines"], counted.as_json()["rows"]) == (3, 5)


def test_lines_of_foreign_peers_are_counted_as_lines_not_as_rows() -> None:
    segment = Segment()
    segment.foreign("beats", [b'{"message":"x"}'] * 5)
    (source,) = judged(segment).values()
    counted = verdict([source], Proof(5, 0, 0, 0, 0, [], unended=2), 0, {source.source: 2})
    said = verdict_line(counted)
    assert said.startswith("complete: 3 lines, ")
    assert "; 3 lines of foreign peers are not judged (at least once)" in said


def test_a_fault_of_the_rows_is_never_allowed() -> None:
    segment = Segment()
    gone(segment, "a")
    fault = Fault(
        5, None, "/var/log/a.log", "data", 1000, 2000, 3, 2, 0, "rows are missing or duplicated"
    )
    judged = found_in(segment, [fault])
    assert not judged.complete_but_for_ends
    assert "; 1 batch whose rows do not match the header, 1 line missing" in verdict_line(
        judged, allow_unknown_ends=True
    )


def test_r8_a_fault_names_source_and_interval(capsys: pytest.CaptureFixture[str]) -> None:
    segment = Segment()
    gone(segment, "a")
    own = Fault(5, "e34a", "/var/log/[a].log", "data", 1000, 2000, 1, 1, 1000, "a pack that …")
    own = replace(own, reason="CRC-32")
    foreign = Fault(6, "beats", None, "foreign", None, None, 3, 2, 0, "rows are missing")
    print_verdict(found_in(segment, [own, foreign]))
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "batch 5 of /var/log/[a].log (source e34a), bytes [1,000, 2,000): a pack that …: CRC-32"
    ) in said
    assert "batch 6 of beats: rows are missing (2 of 3 rows)" in said


def test_faults_that_follow_one_another_in_a_file_are_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A client that sends lies of a line each must not bury what is wrong with others."""
    faults = [
        Fault(9 - n, "e34a", "/a.log", "data", 2 * n, 2 * n + 2, 1, 1, 2, "a pack that lies", why)
        for n, why in enumerate("vwxyz")
    ]
    other = Fault(11, "e34a", "/a.log", "data", 20, 22, 3, 1, 2, "a pack that lies")
    segment = Segment()
    gone(segment, "a")
    print_verdict(found_in(segment, [*faults, other]))
    assert [line for line in capsys.readouterr().out.splitlines() if "lies" in line] == [
        "5 batches of /a.log (source e34a), bytes [0, 10): a pack that lies, the first: v",
        "batch 11 of /a.log (source e34a), bytes [20, 22): a pack that lies (1 of 3 rows)",
    ]


def test_r8_what_a_source_lost_with_a_pack_is_in_its_line_of_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 5))
    fault = Fault(5, source_id("a"), "/a.log", "data", 0, at, 1, 1, at, "a pack that lies", "why")
    proof = Proof(5, 1, 0, 0, 0, [fault], quarantined_of={source_id("a"): 1})
    found = verdict(list(judged(segment).values()), proof, 0)
    print_verdict(found)
    listed, *rest = capsys.readouterr().out.splitlines()[1:]
    assert listed.split()[4:7] == [str(at), "4", str(at)]
    assert "1 event quarantined, and no line: see the column flag" in rest
    assert rest[-1].startswith(
        f"NOT COMPLETE: 4 lines, 0 bytes, 1 sources, {at} bytes lost, 0 lines duplicated"
    )
    assert "damaged" not in found.as_json()["by_source"][0]


def test_the_list_says_at_least_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    segment = Segment()
    at = gone(segment, "a")
    print_verdict(found_in(segment))
    said = capsys.readouterr().out
    assert (
        f"the end of /var/log/a.log was not seen, it had {at} bytes before: removed while "
        "its agent was away"
    ) in said
    assert "ended: removed, end not seen" in said
    assert "at least" not in said


def test_sources_are_listed_with_as_much_of_their_ids_as_tells_them_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    segment = Segment()
    for name in ("a", "b"):
        send(segment, name, lines(name, 0, 2))
    judged = found_in(segment)
    print_verdict(judged)
    rows = capsys.readouterr().out.splitlines()[1:3]
    assert sorted(row.split()[0] for row in rows) == sorted(
        source_id(name)[:8] for name in ("a", "b")
    )
    for source, name in zip(judged.by_source, ("6f1c2d3e4a5b", "6f1c2d3e4a99"), strict=True):
        source.source = name
    print_verdict(judged)
    rows = capsys.readouterr().out.splitlines()[1:3]
    assert [row.split()[0] for row in rows] == ["6f1c2d3e4a5", "6f1c2d3e4a9"]


def test_a_source_that_lacks_bytes_is_listed_with_where_its_complete_part_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 5))
    segment.gap("a", at, at + 1000, "removed")
    send(segment, "b", lines("b", 0, 5))
    found = found_in(segment)
    print_verdict(found)
    said = capsys.readouterr().out.splitlines()
    assert said[1].split()[4:8] == [f"{at + 1000:,}", "5", "1,000", str(at)]
    listed = [line for line in said if "is complete up to" in line]
    assert listed == [
        f"/var/log/a.log (source {source_id('a')}) is complete up to {at} of {at + 1000:,} bytes"
    ]


def test_a4_what_operators_did_is_told_beside_the_figures() -> None:
    segment = Segment()
    segment.ended("a", send(segment, "a", lines("a", 0, 2)), "resent")
    at = send(segment, "b", lines("b", 0, 2))
    segment.gap("b", at, at + 1000, "skipped")
    segment.ended("b", at + 1000)
    judged = found_in(segment)
    assert verdict_line(judged) == (
        f"complete: 4 lines, {2 * at} bytes, 2 sources, 0 bytes lost, 0 lines duplicated; "
        "1 source sent again on purpose: what was sent of it before is there twice; "
        "1,000 bytes of 1 file skipped on purpose"
    )


def test_a4_a_source_that_was_given_up_has_lost_what_it_lacks() -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 2))
    segment.gap("a", at, at + 10, "forgotten", exact=False)
    judged = found_in(segment)
    assert (judged.complete, judged.lost_bytes) == (False, 10)
    assert "an operator gave it up" in verdict_line(judged)


PATHS = (
    "/var/log/shop/app.log",
    "/var/log/containers/checkout-7f9c5d_default_checkout-0123456789abcdef0123456789abcdef.log",
)


def listed(width: int, *, is_terminal: bool) -> list[str]:
    """Return the lines that list the sources of `PATHS`."""
    sources = [
        AuditedSource(str(n) * 36, host="web-1", path=path, last=219_507, lines=2_527, heard=10**12)
        for n, path in enumerate(PATHS)
    ]
    printed = io.StringIO()
    console = Console(file=printed, width=width, highlight=False)
    print_sources(console, sources, is_terminal=is_terminal)
    return printed.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 140, 160, 200, 300])
def test_whole_paths_are_listed_on_a_terminal_of_any_width(width: int) -> None:
    shown = listed(width, is_terminal=True)
    assert max(map(len, shown)) <= width
    assert "…" not in "".join(shown)
    header = shown[0]
    place = slice(None)
    if header.split()[0] == "id":  # a table, in whose column a path may be folded
        place = slice(header.index("path"), header.index("state"))
    together = "".join(line[place].rstrip() for line in shown)
    assert all(path in together for path in PATHS)


def test_in_a_file_or_a_pipe_each_source_is_one_line_with_its_whole_path() -> None:
    header, *rows = listed(80, is_terminal=False)
    assert header.split()[:3] == ["id", "host", "path"]
    assert sorted(row.split()[2] for row in rows) == sorted(PATHS)
    assert all("219,507" in row and "2,527" in row for row in rows)
