"""Lines that are there under two sources are doubled, though each source is as it should be (rules
A4, D6, ADR 16).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logdrive.pipeline.audit.audit import Verdict, audit
from logdrive.pipeline.audit.copies import SENT_AGAIN, TWO_CLIENTS
from logdrive.pipeline.audit.engines.engine import EngineFactory
from logdrive.pipeline.audit.text import print_verdict, verdict_line
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.segments import Segment, file_records, lines, source_id

TEMPLATE = lines("template", 0, 200)
PATH = "/var/log/app.log"


def _send(
    segment: Segment,
    source: str,
    data: bytes,
    *,
    at: int = 0,
    origin: str = "",
    host: str = "web-1",
    **said: Any,
) -> int:
    """Add *data* as one batch of *source*; return where it ends."""
    records, count = file_records(data, at)
    attributes = {"host": host, "path": PATH} | said
    segment.data_batch(
        source,
        at,
        at + len(data),
        records,
        count,
        attributes=attributes,
        origin=source_id(origin or f"{source}/origin"),
    )
    return at + len(data)


def _audited(tmp_path: Path, segment: Segment, engine: EngineFactory) -> Verdict:
    catch_up(tmp_path, segment)
    return audit(str(tmp_path), engine)


def test_a4_a_clone_that_met_the_other_writer_has_the_lines_of_before_twice(
    tmp_path: Path, engine: EngineFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = Segment()
    at = _send(segment, "a", TEMPLATE)
    _send(segment, "a", lines("a", 0, 30), at=at)
    _send(segment, "clone", TEMPLATE + lines("b", 0, 50), resend=True)
    _send(segment, "rotated", lines("other", 0, 50))
    verdict = _audited(tmp_path, segment, engine)
    (copy,) = verdict.copies
    assert (copy.source, copy.other, copy.why) == (source_id("clone"), source_id("a"), SENT_AGAIN)
    assert (copy.lines, copy.bytes, copy.path) == (200, len(TEMPLATE), PATH)
    assert (
        verdict.complete,
        verdict.complete_but_for_ends,
        verdict.duplicate_events,
        verdict.lost_bytes,
    ) == (False, False, 200, 0)
    said = verdict_line(verdict)
    assert said.startswith("NOT COMPLETE: 530 lines, ")
    assert "200 lines duplicated; the first lines of 1 file are there under two sources" in said
    assert verdict.as_json()["copies"] == [
        {
            "source": source_id("clone"),
            "other": source_id("a"),
            "path": PATH,
            "lines": 200,
            "bytes": len(TEMPLATE),
            "why": "sent_again",
        }
    ]
    print_verdict(verdict)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"the first 200 lines ({len(TEMPLATE):,} bytes) of {PATH} are there twice" in printed


def test_d6_one_file_that_two_clients_told_is_there_twice_up_to_where_they_part(
    tmp_path: Path, engine: EngineFactory
) -> None:
    """Equal lines behind that place are no copies of one another."""
    segment = Segment()
    tail = lines("tail", 0, 10)
    at = _send(segment, "a", TEMPLATE, origin="one")
    _send(segment, "a", b"on the one, %s" % tail, at=at, origin="one")
    half = TEMPLATE.index(b"\n", 1000) + 1
    at = _send(segment, "b", TEMPLATE[:half], origin="one", host="clone")
    at = _send(
        segment, "b", TEMPLATE[half:] + b"on the two, %s" % tail, at=at, origin="one", host="clone"
    )
    verdict = _audited(tmp_path, segment, engine)
    assert [(copy.lines, copy.why) for copy in verdict.copies] == [(200, TWO_CLIENTS)]
    assert (verdict.complete, verdict.duplicate_events) == (False, 200)


def test_a4_a_file_that_is_shorter_than_its_copy_is_there_twice_as_a_whole(
    tmp_path: Path, engine: EngineFactory
) -> None:
    segment = Segment()
    _send(segment, "a", TEMPLATE)
    _send(segment, "again", TEMPLATE + lines("b", 0, 5), resend=True)
    assert _audited(tmp_path, segment, engine).duplicate_events == 200


def test_a4_lives_with_the_same_first_line_are_no_copies(
    tmp_path: Path, engine: EngineFactory
) -> None:
    """Nor is a rotated file, nor what somebody had sent again on purpose."""
    segment, banner = Segment(), b"# the same in every life\n"
    _send(segment, "a", banner + lines("a", 0, 20))
    _send(segment, "b", banner + lines("b", 0, 20), resend=True)
    _send(segment, "rotated", banner + lines("a", 0, 20))
    verdict = _audited(tmp_path / "one", segment, engine)
    assert (verdict.copies, verdict.complete) == ([], True)
    segment = Segment()
    segment.ended("c", _send(segment, "c", TEMPLATE), "resent", PATH)
    _send(segment, "again", TEMPLATE, resend=True)
    verdict = _audited(tmp_path / "two", segment, engine)
    assert (verdict.copies, verdict.complete) == ([], True)


def test_a4_a_clone_of_what_was_sent_again_on_purpose_is_found(
    tmp_path: Path, engine: EngineFactory
) -> None:
    """Only the pair that an operator knows of is no copy, not all that the path ever has."""
    segment = Segment()
    segment.ended("a", _send(segment, "a", TEMPLATE), "resent", PATH)
    _send(segment, "again", TEMPLATE, resend=True)
    _send(segment, "clone", TEMPLATE + lines("c", 0, 5), resend=True)
    verdict = _audited(tmp_path, segment, engine)
    assert [(copy.source, copy.other, copy.lines) for copy in verdict.copies] == [
        (source_id("clone"), source_id("again"), 200)
    ]


def test_a4_a_file_that_came_back_after_it_was_given_up_is_there_twice(
    tmp_path: Path, engine: EngineFactory
) -> None:
    segment = Segment()
    segment.ended("a", _send(segment, "a", TEMPLATE), "forgotten", PATH)
    _send(segment, "again", TEMPLATE, resend=True)
    assert _audited(tmp_path, segment, engine).duplicate_events == 200


def test_p2_the_record_of_a_first_run_is_no_source(tmp_path: Path, engine: EngineFactory) -> None:
    segment = Segment()
    _send(segment, "a", TEMPLATE)
    segment.ended("agent", 0, "first_run")
    verdict = _audited(tmp_path, segment, engine)
    assert (verdict.complete, verdict.sources, verdict.unknown_ends) == (True, 1, [])


@pytest.mark.process
def test_a4_the_audit_of_copies_ends_with_1(tmp_path: Path) -> None:
    segment = Segment()
    _send(segment, "a", TEMPLATE)
    _send(segment, "clone", TEMPLATE, resend=True)
    catch_up(tmp_path, segment)
    command = [
        sys.executable,
        "-m",
        "logdrive.cli.main",
        "pipeline",
        "audit",
        str(tmp_path),
        "--json",
        "--allow-unknown-ends",
    ]
    audited = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert audited.returncode == 1, audited.stderr.decode()
    assert json.loads(audited.stdout)["copies"][0]["lines"] == 200
