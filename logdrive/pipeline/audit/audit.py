"""Audits the bronze tables (rules A3, A4): which bytes of each source are missing or duplicated.

The headers in `batches` say what each source has sent, and which gaps its agent knows of. The rows
in `events` are then compared with the headers (`verify_rows`), and sources that may be copies with
each other (`copies`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from logdrive.errors import StorageError
from logdrive.pipeline.audit.asked_parts import PLACE_SCHEMA, find_asked_parts
from logdrive.pipeline.audit.copies import CopiedSource, find_copies, find_pairs
from logdrive.pipeline.audit.dead_letters import AuditedLetter, has_letters, read_dead_letters
from logdrive.pipeline.audit.engines.arrow import ArrowEngine
from logdrive.pipeline.audit.engines.engine import EngineFactory
from logdrive.pipeline.audit.engines.erased_sums import sum_erased
from logdrive.pipeline.audit.file_rows import map_files, read_table
from logdrive.pipeline.audit.header_sums import HEADER_COLUMNS
from logdrive.pipeline.audit.heads import Head, heads_from_table
from logdrive.pipeline.audit.judge_sources import audit_sources, date_complete_parts
from logdrive.pipeline.audit.sources import AuditedSource, Gap
from logdrive.pipeline.audit.unreadable import DamagedFile, find_damage, only_damaged
from logdrive.pipeline.audit.verify_rows import Fault, Proof, prove_rows
from logdrive.pipeline.bronze.beginnings import (
    UnfilledPart,
    beginnings_path,
    find_unfilled,
    read_beginnings,
    time_text,
)
from logdrive.pipeline.bronze.erased import (
    Erasure,
    erased_path,
    find_unfinished,
    list_erasures,
    read_erased,
)
from logdrive.pipeline.bronze.removed import (
    PLACE_COLUMNS,
    RemovedPart,
    find_removed,
    removed_path,
)
from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.decode.schema import BATCHES, EVENTS
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.open_table import is_table, open_table, open_table_as_it_is

_HEADERS = pa.schema(
    [field for field in BATCHES if field.name in {*Head._fields, *HEADER_COLUMNS, *PLACE_COLUMNS}]
)


@dataclass(frozen=True, slots=True)
class UnknownEnd:
    """A generation of a file whose end its agent did not see (rule P4).

    It had *position* bytes when it was seen last, and may have had more.
    """

    source: str
    path: str | None
    position: int  # in the file
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an audit.

    `complete` is about what has arrived: an open source may have more to come. It is False if there
    is no source. Of tables that begin at a time, and were not filled before it, it is about what
    arrived since (`begins`). Counts of events are counts of rows.
    """

    complete: bool
    sources: int
    events: int  # the same as *rows*; scripts use this one
    bytes: int
    lost_bytes: int
    lost_at_least: bool  # more than *lost_bytes* may be lost: the end of a file is not known
    lost_events: int  # rows that headers count and `events` lacks
    duplicate_events: int
    quarantined_events: int  # could not be decoded
    skipped_bytes: int  # left out by rules of the agents
    open_sources: int
    foreign_events: int
    gaps: list[Gap]
    unknown_ends: list[UnknownEnd]
    copies: list[CopiedSource]
    by_source: list[AuditedSource]
    faults: list[Fault]
    cut_events: int  # a part of an event: the rest came before
    overlapping_events: int  # a whole event of which a part came before
    uncommitted_rows: int  # of a commit that is half done
    lines: int  # a line over the limit of length is in several rows
    rows: int
    dead_letters: int  # those of *letters* that are waiting: neither replayed nor dismissed
    dead_letter_bytes: int
    dismissed_dead_letters: int
    letters: list[AuditedLetter]
    # rows that were removed on purpose: they are proven by their record, and counted above
    erasures: list[Erasure] = field(default_factory=list)
    redacted_events: int = 0  # whose messages the agents' rules changed
    # tables that begin at a time, and lack something before it: the time (UTC), and what they lack
    begins: str | None = None
    unfilled: list[UnfilledPart] = field(default_factory=list)
    not_asked_bytes: int = 0  # of files that go on behind that time, what lies before it
    # files of `events` that an audit that reads all columns could not read: their rows are lost
    unreadable: list[DamagedFile] = field(default_factory=list)
    # parts of the stream that no row has: sources that were in them alone are named nowhere
    removed: list[RemovedPart] = field(default_factory=list)
    # recorded, but tables may still have its rows: it runs now, or was interrupted
    unfinished_erasure: Erasure | None = None

    @property
    def removed_bytes(self) -> int:
        """Stored bytes that were removed before they were read."""
        return sum(part.size for part in self.removed if part.unit == "bytes")

    @property
    def removed_records(self) -> int:
        """Likewise, where offsets count records: of S2 and Iggy."""
        return sum(part.size for part in self.removed if part.unit == "records")

    @property
    def complete_but_for_ends(self) -> bool:
        """True if nothing but unknown ends keeps the tables from being complete."""
        return bool(self.unknown_ends) and not (
            self.lost_bytes
            or self.duplicate_events
            or self.faults
            or self.dead_letters
            or self.unreadable
            or self.removed
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        values = asdict(self)
        for source, whole in zip(values["by_source"], self.by_source, strict=True):
            del (
                source["kept"],
                source["dropped"],
                source["gaps"],
                source["damaged"],
                source["first_heard"],
            )
            del source["complete_since"]
            source["heard"] = whole.heard_at or None
            source["complete_at"] = whole.complete_at or None
        unfinished = values["unfinished_erasure"]
        for erasure in (*values["erasures"], *([unfinished] if unfinished else [])):
            erasure["at"] = erasure["at"].isoformat()
        return values | {
            "removed_bytes": self.removed_bytes,
            "removed_records": self.removed_records,
        }


def audit(
    directory: str, open_engine: EngineFactory = ArrowEngine, *, full: bool = False
) -> Verdict:
    """Audit the tables in *directory*, of which the engine that *open_engine* makes reads the rows.

    With *full* all columns of the small tables beside the rows are read, too. Raises `StorageError`
    if there are no tables, or one of these can't be read.
    """
    events_path, batches_path = table_paths(directory)
    batches = open_table(batches_path, BATCHES)  # before the events, which are committed first
    events = open_table(events_path, EVENTS)
    if full:
        _require_readable(directory, batches)
    engine = open_engine(events)
    erased = read_erased(directory, events)
    headers = read_table(batches.files, _HEADERS)
    unfilled, asked_from = find_unfilled(directory, batches), {}
    if unfilled:
        places = read_table(batches.files, PLACE_SCHEMA)
        asked_from = find_asked_parts(places, read_beginnings(directory))
    sources = audit_sources(heads_from_table(headers), asked_from)
    proof = prove_rows(engine, headers, sum_erased(erased))

    # each of these reads rows again, needed only if the headers or the proof call for it
    doubled = [source.source for source in sources if source.doubled_bytes]
    continuing = engine.count_continuing() if proof.unended else {}
    doubles = engine.count_doubled(doubled) if doubled else 0

    letters = read_dead_letters(batches) if has_letters(headers) else []
    judged = verdict(sources, proof, doubles, continuing, letters)
    date_complete_parts(sources, headers)
    unfinished = find_unfinished(directory)
    judged = replace(judged, erasures=list_erasures(erased), unfinished_erasure=unfinished)
    if unreadable := list(engine.unreadable_files()):
        judged = replace(judged, complete=False, unreadable=unreadable)
    if removed := find_removed(directory, headers, unfilled):
        judged = replace(judged, removed=removed, complete=False)
    if unfilled:
        judged = replace(
            judged,
            begins=time_text(max(part.start_ms for part in unfilled)),
            unfilled=unfilled,
            not_asked_bytes=sum(source.not_asked_bytes for source in sources),
        )
    return with_copies(judged, find_copies(engine, find_pairs(sources)))


def _require_readable(directory: str, batches: AppendTable) -> None:
    """Raise `StorageError`, which names them all, if files of tables beside `events` are damaged:
    nothing can be judged without them.
    """
    paths = list(batches.files)
    beside = erased_path(directory), beginnings_path(directory), removed_path(directory)
    for path in beside:
        if is_table(path):
            paths += open_table_as_it_is(path).files
    if damaged := only_damaged(map_files(find_damage, paths)):
        raise StorageError("\n".join(one.text for one in damaged))


def verdict(
    sources: list[AuditedSource],
    proof: Proof,
    doubled: int,
    continuing: Mapping[str, int] = MappingProxyType({}),
    letters: Sequence[AuditedLetter] = (),
) -> Verdict:
    """Return the verdict on *sources* (from headers), *proof* (from rows) and *letters*.

    *doubled* is how many rows are there twice; *continuing* says, by source, how many rows continue
    the line of another row.
    """
    _count_lines(sources, proof, continuing)
    # faults of rows come on top of what the headers say
    missing = _charge_faults(sources, proof.faults)
    waiting = _counted(sources, letters)
    rows = proof.rows - proof.uncommitted
    lost_bytes = sum(source.lost_bytes for source in sources) + missing
    at_least = any(source.lost_at_least for source in sources)
    duplicates = doubled + proof.surplus_rows

    return Verdict(
        complete=bool(sources)
        and not (lost_bytes or at_least or duplicates or proof.faults or waiting),
        sources=len(sources),
        events=rows,
        bytes=sum(source.bytes for source in sources),
        lost_bytes=lost_bytes,
        lost_at_least=at_least,
        lost_events=proof.missing_rows,
        duplicate_events=duplicates,
        quarantined_events=proof.quarantined,
        skipped_bytes=sum(source.skipped_bytes for source in sources),
        open_sources=sum(source.is_open for source in sources),
        foreign_events=sum(source.events for source in sources if source.foreign),
        gaps=[gap for source in sources for gap in source.gaps],
        unknown_ends=[end for source in sources if (end := _unknown_end(source)) is not None],
        copies=[],
        by_source=sources,
        faults=proof.faults,
        cut_events=proof.cut,
        overlapping_events=proof.whole,
        uncommitted_rows=proof.uncommitted,
        lines=rows - sum(continuing.values()) - sum(proof.quarantined_of.values()),
        rows=rows,
        dead_letters=len(waiting),
        dead_letter_bytes=sum(letter.bytes for letter in waiting),
        dismissed_dead_letters=sum(letter.state == "dismissed" for letter in letters),
        letters=list(letters),
        redacted_events=proof.redacted,
    )


def _count_lines(sources: list[AuditedSource], proof: Proof, continuing: Mapping[str, int]) -> None:
    for source in sources:
        no_lines = proof.quarantined_of.get(source.source, 0)
        # below 0 where a damaged header counts fewer rows than there are
        source.lines = max(0, source.events - continuing.get(source.source, 0) - no_lines)


def _counted(sources: list[AuditedSource], letters: Sequence[AuditedLetter]) -> list[AuditedLetter]:
    """Return the letters that wait, having counted them with their sources."""
    waiting = [letter for letter in letters if letter.state == "waiting"]
    by_name = {source.source: source for source in sources}
    for letter in waiting:
        if (source := by_name.get(letter.source or "")) is not None:
            source.dead_letters += 1
            source.dead_letter_bytes += letter.bytes
    return waiting


def _charge_faults(sources: list[AuditedSource], faults: Sequence[Fault]) -> int:
    """Count the bytes that rows lack as lost with their sources; return those of no source."""
    by_name, missing = {source.source: source for source in sources}, 0
    for fault in faults:
        source = by_name.get(fault.source or "")
        previous = None if fault.previous is None else max(0, fault.previous)
        if source is not None and previous is not None and previous >= source.complete_from:
            source.complete_to = min(source.complete_to, previous)
        if source is None:
            missing += fault.missing_bytes
        elif fault.missing_bytes:
            source.lost_bytes += fault.missing_bytes
            # what several batches have is in its bytes once, and may be missing from all of them
            source.bytes = max(0, source.bytes - fault.missing_bytes)
            if fault.previous is not None and fault.position is not None:
                source.damaged.append((fault.previous, fault.position))
    return missing


def with_copies(verdict: Verdict, copies: list[CopiedSource]) -> Verdict:
    """Return *verdict* with the lines of *copies* counted as duplicated (ADR 16).

    They are in the tables under two sources, each of which is complete by itself.
    """
    lines = sum(copy.lines for copy in copies)
    return replace(
        verdict,
        copies=copies,
        complete=verdict.complete and not lines,
        duplicate_events=verdict.duplicate_events + lines,
    )


def _unknown_end(source: AuditedSource) -> UnknownEnd | None:
    last = max(
        (gap for gap in source.gaps if gap.end_unseen), key=lambda gap: gap.end, default=None
    )
    return (
        UnknownEnd(source.source, source.path, last.end, last.reason) if last is not None else None
    )
