"""`pipeline run` from a topic of Iggy: each byte exactly once, and no password in what it says."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from logdrive.errors import ConfigError
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.backfill import run_backfill
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.plan import Plan
from logdrive.pipeline.read.start import parse_start
from logdrive.pipeline.run import run_pipeline
from tests.logdrive.pipeline.test_run import check, plan, stream
from tests.logdrive.services.iggy.reader.memory_topic import as_sent
from tests.logdrive.services.iggy.reader.topics import create, send, topic_at
from tests.support.iggy.face import IggyFace


def run_once(planned: Plan) -> int:
    return run_pipeline(planned, threading.Event()).batches


def uri(server: IggyFace, topic: str, password: str = "iggy") -> str:
    return f"iggy://iggy:{password}@127.0.0.1:{server.port}/reader-tests/{topic}"


@pytest.mark.process
def test_a_topic_is_read_whole(tmp_path: Path) -> None:
    with IggyFace(tmp_path / "server") as server:
        topic = topic_at(server.port, "run")
        segments = stream()
        create(topic, len(segments))
        for number, segment in enumerate(segments):
            messages = as_sent(segment)
            send(topic, messages[:10], number)
        planned = plan(uri(server, "run"), tmp_path / "tables")
        assert run_once(planned)
        for number, segment in enumerate(segments):
            send(topic, as_sent(segment)[10:], number)
        assert run_once(planned)
        assert run_once(planned) == 0
    check(tmp_path / "tables")


@pytest.mark.process
def test_tables_of_a_topic_begin_at_a_time_and_are_filled_later(tmp_path: Path) -> None:
    """Offsets count messages there."""
    with IggyFace(tmp_path / "server") as server:
        topic, segments = topic_at(server.port, "run"), stream()
        create(topic, len(segments))
        for number, segment in enumerate(segments):
            send(topic, as_sent(segment), number)
        header = list(walk_batches(segments[0].name, 0, bytes(segments[0].data)))[20].header
        assert header is not None
        planned = plan(uri(server, "run"), tmp_path / "tables")
        run_once(replace(planned, start=parse_start(str(header.received))))
        verdict = audit(str(tmp_path / "tables"))
        assert (verdict.complete, verdict.gaps) == (True, [])
        assert all(source.complete_from for source in verdict.by_source if not source.foreign)
        assert run_backfill(planned, threading.Event()).result.batches
        assert run_backfill(planned, threading.Event()).scope.nothing
    check(tmp_path / "tables")


@pytest.mark.process
def test_what_is_wrong_with_a_topic_is_said_without_the_password(tmp_path: Path) -> None:
    with IggyFace(tmp_path / "server") as server:
        for wrong in (uri(server, "none-such"), uri(server, "none-such", "no-such-password")):
            with pytest.raises(ConfigError) as refusal:
                run_once(plan(wrong, tmp_path / "tables"))
            assert "iggy://127.0.0.1:" in str(refusal.value)
            assert "no-such-password" not in str(refusal.value)
            assert "iggy:iggy@" not in str(refusal.value)


def test_a_plan_shows_no_password() -> None:
    for given, shown in (
        ("iggy://ann:a%20secret@host/logs/events", "iggy://host:8090/logs/events"),
        ("pravega://host:6000/logs/events", "pravega://host:6000/logs/events"),
        ("file:///store#logs/events", "file:///store#logs/events"),
    ):
        planned = Plan(uri=given, directory="/tables")
        assert planned.shown_uri == shown
        assert "secret" not in repr(planned)
