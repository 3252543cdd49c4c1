"""Commits what tasks have written to the bronze tables: each byte once, each commit exactly once.

A micro-batch becomes one commit to both tables (`table_pair`), with the segments' new ends.

Tables that begin at a time (`beginnings`) may be filled by two processes, of which one fills what
lies before it; both are a `Bronze`. They take turns at commits, and each takes up what the other
has committed since its last turn: the bytes that it covers.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow.compute as pc

from logdrive.errors import LogdriveError, StorageError
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.model.pieces import UnfinishedEvents, pieces_within
from logdrive.model.units import OffsetUnit
from logdrive.pipeline.bronze.beginnings import (
    Beginning,
    add_beginnings,
    backfill_mark,
    read_beginnings,
)
from logdrive.pipeline.bronze.follower import TableForm, TablesFollower
from logdrive.pipeline.bronze.history import (
    KnownHeader,
    cover_added,
    read_coverage,
    read_header_chain,
    read_unfinished_events,
)
from logdrive.pipeline.bronze.new_rows import NewRows
from logdrive.pipeline.bronze.removed import note_removed
from logdrive.pipeline.bronze.table_pair import TablePair
from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.bronze.written_range import WrittenRange
from logdrive.pipeline.decode.coverage import Coverage
from logdrive.pipeline.decode.headers import BatchRow
from logdrive.pipeline.decode.schema import FOREIGN
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION
from logdrive.pipeline.tables.lock import BACKFILL, FOLLOW, make_and_lock_tables, take_turn
from logdrive.pipeline.tables.upkeep import TableUpkeep


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """What one commit added."""

    batches: int = 0
    events: int = 0
    bytes: int = 0  # of the batches, as stored in their segments
    offsets: int = 0  # by which the segments' ends rose: bytes or records


class MismatchError(LogdriveError):
    """A range that was read does not begin where the tables end."""


class Bronze:
    """The tables `events` and `batches` of one directory, locked for writing inside the context.

    With *backfill* they are filled before their beginning: from the segments' starts, which is
    where the tables end then, upwards. Otherwise they are filled from their beginning on.
    """

    def __init__(
        self,
        directory: str,
        *,
        clock: Clock,
        disk: Disk,
        compression: str = DEFAULT_COMPRESSION,
        executor: Executor | None = None,
        forms: Sequence[TableForm] = (),
        backfill: bool = False,
    ) -> None:
        self._directory = directory
        self._backfill = backfill
        self._paths = table_paths(directory)
        self._clock = clock
        self._disk = disk
        self._compression = compression
        # does the upkeep of the tables; without one, a thread of their own inside the context
        self._executor = executor
        # holds the lock on the directory inside the context, and the thread
        self._held = ExitStack()
        self._upkeeps: list[TableUpkeep] = []
        # show the tables in other forms, inside the context
        self._forms = forms
        self._followers: list[TablesFollower] = []
        # ids of batches that are read again, and whose rows are in the tables
        self._again: set[int] = set()
        # what the tables have of each source
        self._cover = Coverage()
        # segment -> where the tables begin in it, if that is not where it does
        self._beginnings: dict[str, Beginning] = {}
        # segment -> offset of the next batch
        self._ends: dict[str, int] = {}
        # segment -> events in pieces that are not whole at that offset
        self._unfinished: dict[str, UnfinishedEvents] = {}
        # True if memory agrees with the disk: False while a commit runs, and after it failed
        self._sound = False

    def __enter__(self) -> Self:
        """Take the lock, create or open the tables, and repair them. Raises `StorageError`."""
        name = BACKFILL if self._backfill else FOLLOW
        self._held.enter_context(make_and_lock_tables(self._place, self._disk, name))
        if self._executor is None:
            self._executor = self._held.enter_context(
                ThreadPoolExecutor(1, thread_name_prefix="upkeep")
            )
        try:
            self.reload_tables()
            for form in self._forms:
                self._followers.append(TablesFollower(self._directory, form))
                self._held.callback(self._followers[-1].finish)
        except BaseException:  # `__exit__` is not called then
            self._held.close()
            raise
        return self

    def reload_tables(self) -> None:
        """Read all state from the disk again; needed after a commit that failed.

        Raises `StorageError`.
        """
        for upkeep in self._upkeeps:
            upkeep.abandon()
        with take_turn(self._place, self._disk):
            self._pair = TablePair(self._directory, self._compression)
        assert self._executor is not None, "the tables are used inside their context"
        # one process keeps them up: the one that is always there
        kept_up = () if self._backfill else (self.events, self.batches)
        self._upkeeps = [TableUpkeep(table, self._executor) for table in kept_up]

        self._beginnings = read_beginnings(self._directory)
        self._cover = read_coverage(self.batches)
        self._ends = {}
        self._again = set()
        self._unfinished = {}
        self._sound = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held:
            for upkeep in self._upkeeps:
                if self._sound and error is None:
                    upkeep.finish()
                else:
                    upkeep.abandon()

    @property
    def events(self) -> AppendTable:
        """The table of rows, inside the context."""
        return self._pair.events

    @property
    def batches(self) -> AppendTable:
        """The table of headers, inside the context."""
        return self._pair.batches

    @property
    def _place(self) -> str:
        return os.path.dirname(self._paths[0])

    def _mark(self, segment: str) -> str:
        """Return the name of the mark that says where the tables end in *segment*."""
        return backfill_mark(segment) if self._backfill else segment

    def _marks(self, ends: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        return {self._mark(segment): passed for segment, passed in ends.items()}

    def next_offset(self, segment: str) -> int:
        """Return where the tables end in *segment*: the offset of the next batch to read.

        Before anything was read that is the beginning.
        """
        if segment not in self._ends:
            end = self.batches.mark(self._mark(segment))
            if end is None:
                first = self._beginnings.get(segment)
                end = 0 if self._backfill or first is None else first.offset
            self._ends[segment] = end
        return self._ends[segment]

    def has_read(self, segment: str) -> bool:
        """Return whether the tables have anything of *segment*, without beginning to follow it."""
        return segment in self._beginnings or self.batches.next_offset(segment) > 0

    @property
    def beginnings(self) -> Mapping[str, Beginning]:
        """Where the tables begin, by segment, as far as that is not where the segments do."""
        return self._beginnings

    def filled_offset(self, segment: str) -> int:
        """Return up to where *segment* was filled before the tables' beginning in it."""
        return self.batches.next_offset(backfill_mark(segment))

    def has_stream(self, stream: str) -> bool:
        """Return whether the tables have anything of *stream*."""
        return bool(self.batches.read_rows(["kind"], pc.field("stream") == stream).num_rows)

    def begin_at(self, beginnings: Sequence[Beginning]) -> None:
        """Let the tables begin there in these segments, of which they have nothing behind it.

        Raises `StorageError`.
        """
        add_beginnings(self._directory, beginnings, self._clock.now_ms())
        self._beginnings = read_beginnings(self._directory)
        for one in beginnings:
            self._ends[one.segment] = one.offset

    def needed_offsets(self) -> dict[str, int]:
        """Return, for each segment in use, the offset from which the tables still need it.

        What is before it is durable in both tables, or gone.
        """
        return {segment: self.needed_offset(segment) for segment in self._ends}

    def needed_offset(self, segment: str) -> int:
        """Return the offset from which the tables still need *segment*.

        That is where the tables end, or where the first event in pieces begins that is not whole
        there (rule R6).
        """
        end = self.next_offset(segment)
        return self._unfinished[segment].oldest_begin(end) if segment in self._unfinished else end

    def begin_segment(
        self, segment: str, known: Sequence[KnownHeader], unit: OffsetUnit = "bytes"
    ) -> None:
        """Note the events in pieces that are unfinished where the tables end in *segment*.

        *known* are the headers that lead up to that place, in order; *unit* is what offsets in the
        segment count.
        """
        self._unfinished[segment] = read_unfinished_events(
            self.batches, segment, known, pieces_within(unit)
        )

    def header_chain(self, segment: str) -> list[KnownHeader]:
        """Return the headers that lead up to where the tables end in *segment*, in order."""
        return read_header_chain(self.batches, segment, self.next_offset(segment))

    def roll_back(
        self, segment: str, known: Sequence[KnownHeader], last: KnownHeader | None
    ) -> None:
        """Go back to behind *last*, or to the segment's start: the store lost what follows (R5).

        *known* is the `header_chain`. Batches that are read again are recognized by their id, or by
        the bytes they cover (rule A2), and not doubled.
        """
        self._ends[segment] = last.next if last else 0
        self._again |= {one.batch for one in known if one.offset >= self._ends[segment]}

    def skip_removed(self, segment: str, start: int) -> None:
        """Go on at *start*: the bytes of *segment* before it were removed before they were read."""
        self._ends[segment] = start

    def note_removed(self, segment: str, start: int) -> int:
        """Go on at *start*, as `skip_removed` does, and note durably what is missing so.

        Returns how many offsets that is, without those that were noted before.
        """
        first, now_ms = self.next_offset(segment), self._clock.now_ms()
        self.skip_removed(segment, start)
        return note_removed(self._directory, self.batches, segment, first, start, now_ms)

    def commit_ranges(self, written: Iterable[WrittenRange]) -> CommitCounts:
        """Commit the ranges of a micro-batch, without the rows that the tables already have.

        Raises `MismatchError` if a range does not begin where the tables end. After any failure
        call `reload_tables` before the next commit: the coverage in memory may include rows that
        were not committed.
        """
        if not self._sound:
            raise StorageError("a commit failed and the tables were not read again")
        parts = sorted(written, key=lambda part: (part.segment, part.start))
        fresh = self._select_fresh(parts)
        if not fresh:
            return CommitCounts()

        # segment -> where its first range begins, and its last one ends
        ends: dict[str, tuple[int, int]] = {}
        for part in fresh:
            ends[part.segment] = (ends.get(part.segment, (part.start, 0))[0], part.end)

        # from here on the coverage in memory is ahead of the disk
        self._sound = False
        with self._turn(ends):
            new = NewRows(self._paths[0], self._compression, self._cover, self._again)
            files = [file for part in fresh for file in new.keep(part)]
            headers = [row for part in fresh for row in part.headers]
            now = self._clock.now_ms()
            for row in headers:
                row.committed = now
            self._pair.commit(files, headers, self._marks(ends))

        self._ends |= {segment: end for segment, (_, end) in ends.items()}
        self._note_pieces(headers)
        for upkeep in self._upkeeps:
            upkeep.after_commit()
        for follower in self._followers:
            follower.after_commit()
        self._sound = True

        return CommitCounts(
            len(headers),
            sum(row.rows for row in headers),
            sum(part.bytes for part in fresh),
            sum(part.end - part.start for part in fresh),
        )

    def commit_removed(self, ends: Mapping[str, int]) -> None:
        """Go on at *ends*, by segment: what was before it was removed before it was read.

        Unlike `skip_removed` it is durable at once, though nothing may follow. After a failure call
        `reload_tables`.
        """
        passed = {segment: (self.next_offset(segment), end) for segment, end in ends.items()}
        self._sound = False
        with self._turn(passed):
            self._pair.commit([], [], self._marks(passed))
        self._ends |= ends
        self._sound = True

    @contextmanager
    def _turn(self, segments: Iterable[str]) -> Iterator[None]:
        """Commit inside the context, to ends of *segments*: other processes wait meanwhile.

        What they have committed before is known then, whole.
        """
        with take_turn(self._place, self._disk):
            for file in self._pair.take_up([self._mark(segment) for segment in segments]):
                cover_added(self._cover, os.path.join(self._paths[1], file.name))
            yield

    def _note_pieces(self, headers: Sequence[BatchRow]) -> None:
        """Note which events in pieces have begun, and which are whole now (rule R6)."""
        for row in headers:
            if row.kind == FOREIGN and row.mark_start is not None and row.mark_end is not None:
                unfinished = self._unfinished.setdefault(row.segment, UnfinishedEvents())
                event, last = row.mark_reason or "", row.mark_exact is True
                unfinished.add_piece(
                    row.offset, row.next, event, row.mark_start, row.mark_end, last=last
                )

    def _select_fresh(self, parts: Sequence[WrittenRange]) -> list[WrittenRange]:
        """Return the parts behind the tables' end. Raises `MismatchError` if there is a gap."""
        reached: dict[str, int] = {}
        fresh = []
        for part in parts:
            end = reached.get(part.segment, self.next_offset(part.segment))
            if part.end <= end and part.segment not in reached:
                continue  # committed before: Spark repeats a micro-batch after a failure
            if part.start != end:
                raise MismatchError(
                    f"{part.segment}: the tables end at offset {end}, but the range read is "
                    f"{part.start} to {part.end}: it was read for other tables, or these tables "
                    "were restored from a backup"
                )
            reached[part.segment] = part.end
            fresh.append(part)
        return fresh
