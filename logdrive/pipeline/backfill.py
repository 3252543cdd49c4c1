"""`logdrive pipeline backfill`: fills what lies before the beginning of bronze tables, once.

Of each segment that is from its start upwards to where the tables begin. How far it has come is in
the commits that bring the rows (`bronze.beginnings`), so a backfill that was stopped or killed goes
on there. A run may follow the stream meanwhile: the two take turns at commits.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow.compute as pc
import structlog

from logdrive.errors import ConfigError, Mistake, StorageError
from logdrive.host.clock import Clock, SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.bronze.beginnings import (
    UnfilledPart,
    find_unfilled,
    read_beginnings,
    time_text,
)
from logdrive.pipeline.bronze.history import KnownHeader, read_header_at
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.metrics import RunMetrics
from logdrive.pipeline.micro_batches import Bounds
from logdrive.pipeline.plan import Plan, ProgressCallback, RunResult
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.read.offsets import Point, Progress
from logdrive.pipeline.read.times import find_time
from logdrive.pipeline.resume import point_at_end, refuse_other_offsets, require_segments
from logdrive.pipeline.run import FillJob, tasks_for
from logdrive.pipeline.same_store import require_same_store
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tasks import Tasks
from logdrive.services.reader import SegmentState, ServiceReader

_NAME: Final = "logdrive backfill"  # in Spark's cluster


@dataclass(frozen=True, slots=True)
class BackfillPart:
    """What a backfill does in one segment."""

    segment: str
    filled: int
    """Offset up to which it was filled before."""
    first: int
    """Offset from which on the stream still has it."""
    end: int
    """Offset up to which it is filled, at most `beginning`."""
    beginning: int
    """Offset at which the tables begin."""

    @property
    def removed(self) -> int:
        """How many offsets were removed from the stream before they were read."""
        return self.first - self.filled

    @property
    def to_read(self) -> int:
        """How many offsets there are to read."""
        return max(0, self.end - self.first)


@dataclass(frozen=True, slots=True)
class BackfillScope:
    """What there is to fill, by segment."""

    parts: list[BackfillPart]
    nothing: str = ""
    """Why there is nothing to fill; "" if there is something."""

    @property
    def to_read(self) -> int:
        """How many offsets there are to read."""
        return sum(part.to_read for part in self.parts)

    @property
    def removed(self) -> int:
        """How many offsets were removed from the stream before they were read."""
        return sum(part.removed for part in self.parts)


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill has done."""

    scope: BackfillScope
    result: RunResult = field(default_factory=RunResult)


def check_backfill(plan: Plan, until_ms: int | None = None) -> BackfillScope:
    """Return what a backfill of the tables in `plan.directory` from `plan.uri` would read.

    Raises as `run_backfill` does.
    """
    _, batches = open_tables(plan.directory)
    with open_stream(
        plan.uri, plan.tls, plan.login, plan.token, local_reads=plan.local_reads
    ) as stream:
        return _find_scope(plan, stream, batches, until_ms, {})


def run_backfill(
    plan: Plan,
    stop: threading.Event,
    on_commit: ProgressCallback = lambda _: None,
    clock: Clock | None = None,
    tasks: Tasks | None = None,
    starting: Callable[[], AbstractContextManager[None]] = nullcontext,
    *,
    until_ms: int | None = None,
    limits: Mapping[str, int] | None = None,
) -> Backfilled:
    """Fill what lies before the beginning of the tables in `plan.directory`, unless *stop* is set.

    With *until_ms* only what was received before that time, in ms since 1970; with *limits* only
    what lies before these offsets, by segment, and nothing of other segments. *on_commit*, *tasks*
    and *starting* are those of `run_pipeline`. Raises `StorageError` if another process does the
    same, there are no tables, or the store has gone back behind their beginning; `ConfigError`,
    and what ended the last loop.
    """
    open_tables(plan.directory)  # raises if there are none, before any are made
    # what was not asked for holds no retention back, and the run shows the tables in other forms
    plan = replace(plan, once=True, reader="", metrics="", forms=())
    with ExitStack() as held:
        stream = held.enter_context(
            open_stream(plan.uri, plan.tls, plan.login, plan.token, local_reads=plan.local_reads)
        )
        tables = held.enter_context(
            Bronze(
                plan.directory,
                clock=clock or SystemClock(),
                disk=SystemDisk(),
                compression=plan.compression,
                backfill=True,
            )
        )
        metrics = RunMetrics()
        runs = tasks or held.enter_context(
            tasks_for(plan, _NAME, "spark-backfill.log", starting, metrics)
        )
        job = _BackfillJob(plan, tables, stream, stop, on_commit, runs, metrics)
        job.until_ms, job.limits = until_ms, limits or {}
        start = job.find_start()
        scope = job.scope
        if job.result.there:
            job.until_done(start)
        return Backfilled(scope, job.result)


class _BackfillJob(FillJob):
    """The state of a backfill that outlives a loop."""

    until_ms: int | None = None
    limits: Mapping[str, int]
    scope: BackfillScope

    def find_start(self) -> Progress:
        """Return where the next loop begins in each segment, and set where it ends."""
        self.scope = _find_scope(
            self.plan, self.stream, self.tables.batches, self.until_ms, self.limits
        )
        if not self.backoff.failures:  # the first loop
            self.result.there = self.scope.to_read
        self._note_removed()
        states = {state.segment: state for state in self.stream.list_segments()}
        points: dict[int, Point] = {}
        bounds: dict[int, tuple[int, int]] = {}
        for part in self.scope.parts:
            if not part.to_read:
                continue
            state, number = states[part.segment], self.stream.segment_number(part.segment)
            chain = self.tables.header_chain(part.segment)
            _require_unchanged(self.stream, self.tables.batches, state, part, chain)
            if part.removed:
                self.tables.skip_removed(part.segment, part.first)
            points[number] = point_at_end(self.stream, self.tables, part.segment, chain)
            bounds[number] = (state.start, part.end)
        self.bounds: Bounds = bounds
        return Progress(points, {})

    def _is_final(self, error: BaseException) -> bool:
        """Return False: as a run that follows, it goes on when the store is there again."""
        return False

    def _note_removed(self) -> None:
        """Say what was removed before it was read, and pass over segments of which all was."""
        for part in self.scope.parts:
            if part.removed:
                structlog.get_logger("logdrive.pipeline").warning(
                    "bytes were removed before they were read",
                    segment=part.segment,
                    start=part.filled,
                    end=part.first,
                )
        gone = {
            part.segment: part.beginning
            for part in self.scope.parts
            if part.first == part.end == part.beginning
        }
        if gone:
            self.tables.commit_removed(gone)


def _find_scope(
    plan: Plan,
    stream: ServiceReader,
    batches: AppendTable,
    until_ms: int | None,
    limits: Mapping[str, int],
) -> BackfillScope:
    """Return what there is to fill. Raises `ConfigError`, `TransientError`, `StorageError`."""
    states = {state.segment: state for state in require_segments(stream, plan.shown_uri)}
    beginnings = read_beginnings(plan.directory)
    for segment in states:
        refuse_other_offsets(
            lambda name: name in beginnings or batches.next_offset(name) > 0,
            segment,
            plan.shown_uri,
        )
    require_same_store(stream, batches, list(states.values()), plan.shown_uri)
    begun = [one for one in beginnings.values() if one.stream == stream.name]
    if not begun:
        rows = batches.read_rows(["stream"])["stream"]
        if not len(rows) or pc.index(rows, stream.name).as_py() >= 0:
            return BackfillScope([], "these tables were begun with the stream")
        remedy = f"the tables in {plan.directory} have nothing of {stream.name}"
        raise ConfigError("pipeline", [Mistake("from", plan.shown_uri, remedy)])
    began = time_text(max(one.start_ms for one in begun))
    unfilled = [
        part for part in find_unfilled(plan.directory, batches) if part.stream == stream.name
    ]
    if not unfilled:
        return BackfillScope([], f"the tables have all that lies before {began}, where they begin")

    parts = [
        _find_part(stream, part, states.get(part.segment), until_ms, limits) for part in unfilled
    ]
    if all(part.first == part.beginning for part in parts):
        return BackfillScope([], f"the stream no longer has anything from before {began}")
    # a part that is only passed over in the end, once all of it is asked for
    parts = [part for part in parts if part.to_read or part.first == part.end == part.beginning]
    if not any(part.to_read for part in parts):
        return BackfillScope([], "nothing that was received before the time given is missing")
    return BackfillScope(parts)


def _find_part(
    stream: ServiceReader,
    part: UnfilledPart,
    state: SegmentState | None,
    until_ms: int | None,
    limits: Mapping[str, int],
) -> BackfillPart:
    # a segment that retention has emptied is not listed
    first = part.end if state is None else min(part.end, max(part.start, state.start))
    end = min(part.end, limits.get(part.segment, 0)) if limits else part.end
    if until_ms is not None and state is not None and first < end:
        end = find_time(stream, part.segment, first, end, until_ms)
    return BackfillPart(part.segment, part.start, first, end, part.end)


def _require_unchanged(
    stream: ServiceReader,
    batches: AppendTable,
    state: SegmentState,
    part: BackfillPart,
    chain: Sequence[KnownHeader],
) -> None:
    """Raise `StorageError` if the segment is another one than that which the tables know (R5).

    *chain* are the headers that lead up to where it was filled.
    """
    behind = read_header_at(batches, part.segment, part.beginning)
    known = [one for one in (*chain, behind) if one is not None and one.offset >= state.start]
    there = not known or stream.count_known_headers(part.segment, known) == len(known)
    if state.length < part.beginning or not there:
        raise StorageError(
            f"{part.segment}: the store lost batches that the tables have, as after a restore: let "
            "`logdrive pipeline run` read it again before"
        )
