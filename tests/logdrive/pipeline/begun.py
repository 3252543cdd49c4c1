"""Tables that begin at a time, of streams whose batches are received a second apart."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from logdrive.model.batch_walker import BatchRef
from logdrive.pipeline.audit.audit import Verdict, audit
from logdrive.pipeline.audit.text import verdict_line
from logdrive.pipeline.backfill import Backfilled, run_backfill
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.plan import Plan, RunResult
from logdrive.pipeline.read.start import parse_start
from logdrive.pipeline.run import run_pipeline
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import STREAM, Segment, lines, source_id

TURNS = 20


def stream(count: int = 2, turns: int = TURNS) -> list[Segment]:
    """Segments with a source each, and a foreign peer; a second from batch to batch."""
    segments = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(count)]
    for number, segment in enumerate(segments):
        grow(segment, f"s{number}", 0, turns)
    return segments


def grow(segment: Segment, source: str, first: int, turns: int) -> None:
    at = len(lines(source, 0, first * 50))
    for turn in range(first, first + turns):
        segment.clock += 1000
        at = send(segment, source, lines(source, turn * 50, 50), at)
        if turn % 5 == 0:
            segment.foreign("beats", [b'{"message":"x"}'] * 2)


def batches_of(segment: Segment) -> list[BatchRef]:
    return list(walk_batches(segment.name, 0, bytes(segment.data)))


def received(segment: Segment, number: int) -> int:
    header = batches_of(segment)[number].header
    assert header is not None
    return header.received


def plan(uri: str, directory: Path, start: int | None = None, **more: Any) -> Plan:
    started = None if start is None else parse_start(str(start))
    values: dict[str, Any] = {"once": True, "max_bytes_per_batch": 5000, "reader": ""} | more
    return Plan(uri=uri, directory=str(directory), start=started, **values)


def run(planned: Plan, stop: threading.Event | None = None, **more: Any) -> RunResult:
    return run_pipeline(planned, stop or threading.Event(), **more)


def backfill(planned: Plan, stop_after: int = 0, **more: Any) -> Backfilled:
    stop = threading.Event()

    def on_commit(so_far: RunResult) -> None:
        if so_far.micro_batches == stop_after:
            stop.set()

    return run_backfill(replace(planned, start=None), stop, on_commit, **more)


def judged(directory: Path) -> Verdict:
    return audit(str(directory))


def check_whole(directory: Path, count: int = 2, turns: int = TURNS) -> None:
    """Demand the whole stream in the tables, each byte once, and an audit that says just that."""
    verdict = judged(directory)
    assert verdict.complete, verdict
    assert (verdict.begins, verdict.unfilled, verdict.not_asked_bytes) == (None, [], 0)
    assert verdict.events == count * (turns * 50 + (turns + 4) // 5 * 2)
    assert verdict_line(verdict).startswith("complete: ")
    assert [source.complete_from for source in verdict.by_source] == [0] * verdict.sources
    for number in range(count):
        data = lines(f"s{number}", 0, turns * 50)
        assert list(source_pieces(str(directory), source_id(f"s{number}"))) == [(0, data)]
