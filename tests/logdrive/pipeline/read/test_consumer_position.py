"""The pipeline keeps its position as a named reader: retention waits for the tables, and gives back
what they hold.
"""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.processes import free_port
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.plan import Plan, RunResult
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.read.consumer_position import ConsumerPosition
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.run import run_pipeline
from logdrive.services.pravega.client.blocking import BlockingClient
from logdrive.services.pravega.reader.position import reader_position
from logdrive.services.reader import SegmentState
from tests.faults.test_sigkill import Writer
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import SEGMENT, Segment, lines
from tests.logdrive.pipeline.storing import cut_off, served, store
from tests.support.installation import STREAM, Installation

_KEPT = 400_000
_RETENTION = f"""log_file_bytes = 1048576

[[retention]]
stream = "*/*"
max_bytes = {_KEPT}
readers = ["pipeline"]

[listen.pravega]
address = "127.0.0.1:0"
"""


def positions(face: StreamClient, name: str = "pipeline") -> dict[str, int | None]:
    with BlockingClient(face.target) as client:
        return {
            state.segment: client.call(partial(reader_position, segment=state.segment, reader=name))
            for state in face.list_segments()
        }


def segments() -> list[Segment]:
    segments = [Segment(name=f"logs/app/{number}.#epoch.0") for number in range(2)]
    for number, segment in enumerate(segments):
        send(segment, f"s{number}", lines(f"s{number}", 0, 50))
    return segments


# What is published ------------------------------------------------------------------------------


def test_each_segments_position_is_where_the_tables_end_and_only_rises(tmp_path: Path) -> None:
    with served(tmp_path / "store", *segments()) as face:
        one, two = (f"logs/app/{number}.#epoch.0" for number in range(2))
        reader = ConsumerPosition("pipeline")
        reader.publish_ends(face, {one: 100, two: 0})
        assert positions(face) == {one: 100, two: 0}
        reader.publish_ends(face, {one: 100, two: 50})
        ConsumerPosition("pipeline").publish_ends(face, {one: 120, two: 50})
        assert positions(face) == {one: 120, two: 50}
        assert positions(face, "other") == {one: None, two: None}
        ConsumerPosition("").publish_ends(face, {one: 200, two: 200})
        assert positions(face) == {one: 120, two: 50}


def test_what_other_tables_under_the_same_name_still_need_is_not_given_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path / "store", *segments()) as face:
        first, second = ConsumerPosition("pipeline"), ConsumerPosition("pipeline")
        first.publish_ends(face, {SEGMENT: 100})
        second.publish_ends(face, {SEGMENT: 0})
        assert "logdrive store readers URI pipeline --forget" in capsys.readouterr().out
        second.publish_ends(face, {SEGMENT: 200})
        assert positions(face)[SEGMENT] == 100
        first.publish_ends(face, {SEGMENT: 150})
        assert positions(face)[SEGMENT] == 150


def test_a_service_that_is_away_is_told_of_once_and_told_with_a_later_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = ConsumerPosition("pipeline")
    with served(tmp_path / "store", *segments()) as face:
        away = StreamClient(type(face.target)("127.0.0.1", free_port()), face.scope, face.stream)
        reader.publish_ends(away, {SEGMENT: 100})
        reader.publish_ends(away, {SEGMENT: 100})
        assert capsys.readouterr().out.count("position can't be published") == 1
        reader.publish_ends(face, {SEGMENT: 100, "logs/app/9.#epoch.0": 5})
        assert positions(face)[SEGMENT] == 100
        assert "published again" in capsys.readouterr().out


# When it is published ---------------------------------------------------------------------------


def test_with_each_commit_the_position_follows_the_tables_and_is_never_ahead_of_them(
    tmp_path: Path,
) -> None:
    tables, stop, seen = tmp_path / "tables", threading.Event(), []
    uri = f"file://{tmp_path / 'store'}#logs/app"
    plan = Plan(
        uri=uri, directory=str(tables), max_bytes_per_batch=1500, trigger_seconds=0.1, reader="copy"
    )
    with served(tmp_path / "store", *segments()) as face:

        def told(so_far: RunResult) -> None:
            durable = open_tables(str(tables))[1]
            seen.append(positions(face, "copy"))
            assert seen[-1] == {name: durable.next_offset(name) for name in seen[-1]}
            if not so_far.waiting:
                stop.set()

        run_pipeline(plan, stop, told)
        assert seen[-1] == {state.segment: state.length for state in face.list_segments()}
        assert set(positions(face).values()) == {None}


def test_r5_what_was_read_and_then_cut_off_is_no_store_that_went_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, (one, two) = tmp_path / "store", segments()
    uri, tables = store(directory, one, two), tmp_path / "tables"
    (tables / "bronze" / "events").mkdir(parents=True)
    catch_up(tables, one, two)
    cut_off(directory, one.name, len(one.data))
    cut_off(directory, two.name, len(two.data))
    assert (
        run_pipeline(Plan(uri=uri, directory=str(tables), once=True), threading.Event()).there == 0
    )
    assert capsys.readouterr() == ("", "")


# With retention ---------------------------------------------------------------------------------


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    # packs are stored as long as their text, so that a few lines fill log files
    installation = Installation(
        tmp_path, certificates, receiver_extra=_RETENTION, agent_extra='compression = "none"\n'
    )
    yield installation
    installation.close()


def _wait(until: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + 60
    while not until():
        assert time.monotonic() < limit, what
        time.sleep(0.2)


@pytest.mark.spark
@pytest.mark.process
def test_retention_frees_what_tables_hold_and_nothing_else_and_they_end_complete__S6_A3(
    system: Installation, spark: Any
) -> None:
    writer = Writer(system.logs, 5)
    writer.write(20_000)
    receiver, agent = system.receiver(), system.agent()
    plan = Plan(
        uri=f"file://{system.store}#{STREAM}", directory=str(system.root / "tables"), once=True
    )

    def states() -> list[SegmentState]:
        with open_stream(plan.uri) as face:
            return face.list_segments()

    def stored() -> int:
        return sum(state.length for state in states())

    _wait(
        lambda: (system.store / "endpoint.json").exists() and stored() > 1_500_000,
        "the first lines do not arrive",
    )
    first = run_pipeline(plan, threading.Event())
    before = stored()
    writer.write(20_000)
    _wait(lambda: stored() > before + 1_500_000, "the next lines do not arrive")
    _wait(lambda: not (system.store / f"log-{0:016x}").exists(), "no log file is freed")
    with open_stream(plan.uri) as face:
        assert isinstance(face, StreamClient)
        read = positions(face, "pipeline")
        waiting = [
            (state.start, read[state.segment], state.length) for state in face.list_segments()
        ]
    assert sum(length - start for start, _, length in waiting) > _KEPT, (
        "more than the policy keeps waits for the reader"
    )
    assert all(at is not None and start <= at for start, at, _ in waiting)
    assert sum(at or 0 for _, at, _ in waiting) == first.bytes
    assert agent.terminate(60) == 0, agent.said()
    run_pipeline(plan, threading.Event())
    assert receiver.terminate() == 0, receiver.said()
    verdict = audit(plan.directory)
    assert verdict.complete, verdict.faults
    assert {
        b"".join(data for _, data in source_pieces(plan.directory, source.source))
        for source in verdict.by_source
    } == writer.contents()
