"""Makes the bronze tables anew from their stream: beside the old ones, and then in their place.

    DIR/bronze.new/bronze   filled as a run fills tables; goes on there when it is repeated
    DIR/bronze              the old ones, which may be written until the new ones have all they have
    DIR/bronze.old          the old ones while the new ones take their place

Tables that begin at a time are made anew with the same beginning, and filled before it as far as
the old ones are.

Whatever the stream can't give again is refused before: what retention has removed, and lines that
were erased from the tables, which would come back.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.host.clock import SystemClock
from logdrive.host.disk import Disk
from logdrive.pipeline.backfill import run_backfill
from logdrive.pipeline.bronze.beginnings import (
    add_beginnings,
    backfill_mark,
    find_unfilled,
    read_beginnings,
)
from logdrive.pipeline.bronze.erased import has_erasures
from logdrive.pipeline.bronze.tables import has_tables, open_tables, table_paths
from logdrive.pipeline.plan import Plan, ProgressCallback
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.resume import require_segments
from logdrive.pipeline.run import run_pipeline
from logdrive.pipeline.same_store import require_same_store
from logdrive.pipeline.tables.leftovers import BRONZE_NEW, BRONZE_OLD
from logdrive.pipeline.tables.lock import BACKFILL, REBUILD, lock_tables
from logdrive.pipeline.tasks import Tasks
from logdrive.services.reader import SegmentState


@dataclass(frozen=True, slots=True)
class RebuiltBronze:
    """What a rebuild has done, or would do."""

    swapped: bool
    """Whether the new tables are in the place of the old ones."""
    events: int = 0
    """Rows that this run has added to the new tables."""
    stream_offsets: int = 0
    """What the stream holds, as its offsets count it: bytes, or records."""
    old_files: int = 0
    """Files of the old tables."""


def check_rebuild(plan: Plan) -> RebuiltBronze:
    """Return what a rebuild of the tables in `plan.directory` from `plan.uri` would read.

    Raises `StorageError` if the new tables would lack what the old ones have, or have lines that
    were erased; `ConfigError`, also if the stream is of another store; `TransientError`.
    """
    with open_stream(
        plan.uri, plan.tls, plan.login, plan.token, local_reads=plan.local_reads
    ) as stream:
        states = require_segments(stream, plan.shown_uri)
        if has_tables(plan.directory):
            batches = open_tables(plan.directory)[1]
            require_same_store(stream, batches, states, plan.shown_uri)
    if has_erasures(plan.directory):
        raise StorageError(
            f"lines were erased from {plan.directory}, and the stream may still have them: a "
            "rebuild would bring them back"
        )
    files = 0
    for table in open_tables(plan.directory) if has_tables(plan.directory) else ():
        files += len(table.files)
    for segment, (first, end) in _read_extents(plan.directory).items():
        _require_extent(segment, first, end, states)
    length = sum(state.length - state.start for state in states)
    return RebuiltBronze(
        False, stream_offsets=length - _count_unfilled(plan.directory, states), old_files=files
    )


def rebuild_bronze(
    plan: Plan,
    stop: threading.Event,
    disk: Disk,
    on_commit: ProgressCallback = lambda _: None,
    tasks: Tasks | None = None,
    starting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> RebuiltBronze:
    """Make the tables in `plan.directory` anew from `plan.uri`, unless *stop* is set meanwhile.

    A rebuild that was stopped, or killed, goes on where it was. *on_commit*, *tasks* and *starting*
    are those of `run_pipeline`. Raises what `check_rebuild` and `run_pipeline` raise, and
    `StorageError` if another process rebuilds or erases.
    """
    # the whole time: what is read before an erasure must not take the place of what it has left
    with lock_tables(plan.directory, disk, REBUILD):
        return _rebuild_locked(plan, stop, disk, on_commit, tasks, starting)


def _rebuild_locked(
    plan: Plan,
    stop: threading.Event,
    disk: Disk,
    on_commit: ProgressCallback,
    tasks: Tasks | None,
    starting: Callable[[], AbstractContextManager[None]],
) -> RebuiltBronze:
    checked = check_rebuild(plan)
    # retention need not wait for the new tables: the reader's position is that of the old ones
    new = replace(plan, directory=os.path.join(plan.directory, BRONZE_NEW), once=True, reader="")
    _drop_other_stream(plan, new.directory)
    _begin_alike(plan.directory, new.directory)
    events = 0

    def fill() -> int:
        rows = run_pipeline(new, stop, on_commit, tasks=tasks, starting=starting).events
        filled = _read_filled(plan.directory)
        if not filled or stop.is_set():
            return rows
        before = run_backfill(new, stop, on_commit, tasks=tasks, starting=starting, limits=filled)
        return rows + before.result.events

    events += fill()
    if stop.is_set():
        return replace(checked, events=events)
    # what the old tables got meanwhile; from here on nothing is added to them
    place = os.path.dirname(table_paths(plan.directory)[0])
    with lock_tables(place, disk), lock_tables(place, disk, BACKFILL):
        events += fill()
        if stop.is_set():
            return replace(checked, events=events)
        _require_all(plan.directory, new.directory)
        _swap(plan.directory, disk)
    return replace(checked, swapped=True, events=events)


def _drop_other_stream(plan: Plan, new: str) -> None:
    """Remove new tables that were begun with another stream than that of *plan*, or at another
    place than the old ones.
    """
    if os.path.isdir(new) and read_beginnings(new) != read_beginnings(plan.directory):
        shutil.rmtree(new)
    begun = _read_extents(new)
    if not begun:
        return
    with open_stream(plan.uri, plan.tls, plan.login, plan.token) as stream:
        there = {state.segment for state in stream.list_segments()}
    if not begun.keys() <= there:
        shutil.rmtree(new)


def _begin_alike(directory: str, new: str) -> None:
    """Let the tables in *new* begin where those in *directory* do, unless they have begun."""
    begun = read_beginnings(directory)
    if begun and not read_beginnings(new):
        os.makedirs(os.path.dirname(table_paths(new)[0]), mode=0o750, exist_ok=True)
        add_beginnings(new, list(begun.values()), SystemClock().now_ms())


def _read_filled(directory: str) -> dict[str, int]:
    """Return up to where the segments were filled before the beginning of the tables there."""
    if not has_tables(directory):
        return {}
    _, batches = open_tables(directory)
    filled = {one: batches.next_offset(backfill_mark(one)) for one in read_beginnings(directory)}
    return {segment: end for segment, end in filled.items() if end}


def _count_unfilled(directory: str, states: Sequence[SegmentState]) -> int:
    """Return how many offsets of the stream lie before the beginning of the tables, unfilled."""
    if not has_tables(directory):
        return 0
    starts = {state.segment: state.start for state in states}
    return sum(
        max(0, part.end - max(part.start, starts.get(part.segment, part.end)))
        for part in find_unfilled(directory, open_tables(directory)[1])
    )


def _read_extents(directory: str) -> dict[str, tuple[int, int]]:
    """Return where the tables in *directory* begin and end in each segment that they have."""
    if not has_tables(directory):
        return {}
    events, batches = open_tables(directory)
    rows = batches.read_rows(["segment", "offset"])
    return {
        row["segment"]: (row["offset_min"], events.next_offset(row["segment"]))
        for row in rows.group_by("segment").aggregate([("offset", "min")]).to_pylist()
    }


def _require_extent(segment: str, first: int, end: int, states: Sequence[SegmentState]) -> None:
    """Raise `StorageError` unless the stream still has [*first*, *end*) of *segment*."""
    state = next((state for state in states if state.segment == segment), None)
    there = "nothing" if state is None else f"what is from {state.start:,} to {state.length:,}"
    if state is None or state.start > first or state.length < end:
        raise StorageError(
            f"the tables have {segment} from {first:,} to {end:,}, and the stream has {there}: a "
            "rebuild would lose the rest; keep these tables, or rebuild in another directory with "
            "`logdrive pipeline run`"
        )


def _require_all(directory: str, new: str) -> None:
    """Raise `StorageError` unless the tables in *new* reach as far as those in *directory*."""
    reached = _read_extents(new)
    for segment, (_, end) in _read_extents(directory).items():
        if reached.get(segment, (0, 0))[1] < end:
            raise StorageError(
                f"the new tables end at {reached.get(segment, (0, 0))[1]:,} of {segment}, and the "
                f"old ones at {end:,}: the stream has changed, so the old ones stay"
            )
    filled = _read_filled(new)
    for segment, end in _read_filled(directory).items():
        if filled.get(segment, 0) < end:
            raise StorageError(
                f"before their beginning the new tables are filled up to "
                f"{filled.get(segment, 0):,} of {segment}, and the old ones up to {end:,}: the "
                "stream has changed, so the old ones stay"
            )


def _swap(directory: str, disk: Disk) -> None:
    """Put the new tables in the place of the old ones; a repetition finishes what a crash left."""
    place, old = os.path.join(directory, "bronze"), os.path.join(directory, BRONZE_OLD)
    new = os.path.join(directory, BRONZE_NEW)
    try:
        if os.path.isdir(place):
            shutil.rmtree(old, ignore_errors=True)  # of a rebuild that crashed
            disk.replace(place, old)
            faults.reach("pipeline.rebuild.between")
        disk.replace(os.path.join(new, "bronze"), place)
        disk.sync_directory(directory)
    except OSError as error:
        raise StorageError(f"{place} can't be replaced: {error}") from error
    for left in (old, new):
        with contextlib.suppress(OSError):  # the next rebuild tries again
            shutil.rmtree(left)
