"""Audits the bronze tables (rules A3, A4): which bytes of each source are missing or duplicated.

The headers in `batches` say what each source has sent, and which gaps its agent knows of. The rows
in `events` are then compared with the headers (`verify_rows`), and sources that may be copies with
each other (`copies`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from logdrive.model.dead_letters import DISMISSED
from logdrive.pipeline.audit.copies import CopiedSource, find_copies, find_pairs
from logdrive.pipeline.audit.dead_letters import AuditedLetter, has_letters, read_dead_letters
from logdrive.pipeline.audit.engine import EngineFactory
from logdrive.pipeline.audit.engine_arrow import ArrowEngine
from logdrive.pipeline.audit.file_rows import read_table
from logdrive.pipeline.audit.header_sums import HEADER_COLUMNS
from logdrive.pipeline.audit.sources import NOT_WANTED, AuditedSource, Gap
from logdrive.pipeline.audit.verify_rows import Fault, Proof, prove_rows
from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.decode.coverage import Interval, subtract, total_size, union
from logdrive.pipeline.decode.schema import BATCHES, EVENTS, FOREIGN, HEADLESS
from logdrive.pipeline.tables.delta import open_table

FIRST_RUN = "first_run"
"""Reason in the mark of an agent that begins at the end of its files (ADR 15); no file's."""
UNEXPLAINED = "unexplained"
"""Reason of a gap that the audit finds: bytes neither in rows nor in a gap of the agent's."""


class Head(NamedTuple):
    """The columns of `batches` that the audit reads."""

    segment: str
    offset: int  # of the header, in the segment
    kind: str
    source: str | None
    host: str | None
    path: str | None
    position: int | None  # in the file, behind the batch
    kept: list[Interval] | None
    rows: int
    bytes: int
    skipped: int  # bytes of the file that the agent dropped
    received: int | None  # µs since 1970
    mark_start: int | None
    mark_end: int | None
    mark_reason: str | None
    mark_exact: bool | None
    resend: bool
    origin: str | None


_HEADERS = pa.schema([field for field in BATCHES if field.name in {*Head._fields, *HEADER_COLUMNS}])


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
    is no source. Counts of events are counts of rows.
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
    skipped_bytes: int  # dropped by agents on purpose
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

    @property
    def complete_but_for_ends(self) -> bool:
        """True if nothing but unknown ends keeps the tables from being complete."""
        return bool(self.unknown_ends) and not (
            self.lost_bytes or self.duplicate_events or self.faults or self.dead_letters
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        values = asdict(self)
        for source, whole in zip(values["by_source"], self.by_source, strict=True):
            del source["kept"], source["gaps"], source["damaged"], source["first_heard"]
            source["heard"] = whole.heard_at or None
        return values


def audit(directory: str, open_engine: EngineFactory = ArrowEngine) -> Verdict:
    """Audit the tables in *directory*, of which the engine that *open_engine* makes reads the rows.

    Raises `StorageError` if there are none.
    """
    events_path, batches_path = table_paths(directory)
    batches = open_table(batches_path, BATCHES)  # before the events, which are committed first
    engine = open_engine(open_table(events_path, EVENTS))
    headers = read_table(batches.files, _HEADERS)
    sources = audit_sources(heads_from_table(headers))
    proof = prove_rows(engine, headers)

    # each of these reads rows again, needed only if the headers or the proof call for it
    doubled = [source.source for source in sources if source.doubled_bytes]
    continuing = engine.count_continuing() if proof.unended else {}
    doubles = engine.count_doubled(doubled) if doubled else 0

    letters = read_dead_letters(batches) if has_letters(headers) else []
    judged = verdict(sources, proof, doubles, continuing, letters)
    return with_copies(judged, find_copies(engine, find_pairs(sources)))


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
    )


def _count_lines(sources: list[AuditedSource], proof: Proof, continuing: Mapping[str, int]) -> None:
    for source in sources:
        no_lines = proof.quarantined_of.get(source.source, 0)
        source.lines = source.events - continuing.get(source.source, 0) - no_lines


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
        if source is None:
            missing += fault.missing_bytes
        elif fault.missing_bytes:
            source.lost_bytes += fault.missing_bytes
            source.bytes -= fault.missing_bytes
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


def heads_from_table(table: pa.Table) -> list[Head]:
    """Return the rows of *table*, a part of `batches` with the columns of `Head`."""
    columns = {name: table[name] for name in Head._fields}
    columns["received"] = columns["received"].cast(pa.int64())
    values = {name: column.to_pylist() for name, column in columns.items()}
    values["kept"] = [
        None if kept is None else [(one["start"], one["end"]) for one in kept]
        for kept in values["kept"]
    ]
    return [Head(*row) for row in zip(*(values[name] for name in Head._fields), strict=True)]


def audit_sources(rows: Iterable[Head]) -> list[AuditedSource]:
    """Return every source in *rows* with its gaps and losses, by host and path."""
    sources: dict[str, AuditedSource] = {}
    gaps: dict[str, list[Head]] = {}
    for row in sorted(rows, key=lambda row: (row.received or 0, row.segment, row.offset)):
        if row.kind == HEADLESS or row.source is None or row.mark_reason == FIRST_RUN:
            continue
        if row.kind == FOREIGN and row.mark_reason == DISMISSED:
            continue  # a person's note about a dead letter: the client did not send it

        source = sources.setdefault(row.source, AuditedSource(row.source))
        _add_head(source, row)
        if row.kind == "gap":
            gaps.setdefault(row.source, []).append(row)
        # the file may have gone on: a gap of unknown length (ADR 5)
        elif row.kind == "end" and row.mark_exact is False:
            gaps.setdefault(row.source, []).append(row._replace(mark_start=row.mark_end))

    for name, source in sources.items():
        _judge_source(source, gaps.get(name, []))
    return sorted(
        sources.values(), key=lambda source: (source.host or "", source.path or "", source.source)
    )


def _add_head(source: AuditedSource, row: Head) -> None:
    """Add one header to its source."""
    # the latest names, the first origin
    source.host, source.path = row.host or source.host, row.path or source.path
    source.origin = source.origin or row.origin
    source.first_heard = source.first_heard or (row.received or 0) // 1000
    source.heard = max(source.heard, (row.received or 0) // 1000)
    source.events += row.rows
    source.resend = source.resend or row.resend
    if row.kind != FOREIGN:  # the mark of a foreign batch has bytes of an event, no positions
        source.last = max(source.last, row.position or 0, row.mark_end or 0)

    if row.kind == "end":
        source.state, source.ended = "ended", row.mark_reason
    elif row.kind == FOREIGN:
        source.foreign = True
        source.bytes += row.bytes
    elif row.kind == "data":
        source.kept += row.kept or []
        source.skipped_bytes += row.skipped


def _judge_source(source: AuditedSource, gaps: list[Head]) -> None:
    """Find out which bytes of [0, last) are missing, and which are there twice."""
    # What is in rows, and what the agent was told not to send.
    have = union(source.kept)
    source.bytes += total_size(have)
    source.doubled_bytes = total_size(source.kept) - total_size(have)
    unwanted = union(
        (gap.mark_start or 0, gap.mark_end or 0) for gap in gaps if gap.mark_reason == NOT_WANTED
    )
    fine = union([*have, *unwanted])

    # Gaps that the agent reported. Bytes that came after all are not lost, and bytes that are in
    # several gaps are lost once.
    known: list[Interval] = []
    for gap in sorted(gaps, key=lambda gap: (gap.mark_start or 0, gap.mark_end or 0)):
        interval = (gap.mark_start or 0, gap.mark_end or 0)
        lost = (
            []
            if gap.mark_reason == NOT_WANTED
            else subtract(subtract(union([interval]), fine), union(known))
        )
        known.append(interval)
        exact = gap.mark_exact is not False
        source.gaps.append(
            Gap(
                source.source,
                source.path,
                *interval,
                gap.mark_reason or "",
                exact,
                total_size(lost),
            )
        )

    # Bytes that are neither in rows nor in a gap: only the audit notices them.
    if not source.foreign:
        for start, end in subtract(union([(0, source.last)]), union([*fine, *known])):
            source.gaps.append(
                Gap(source.source, source.path, start, end, UNEXPLAINED, True, end - start)
            )

    source.lost_at_least = any(gap.end_unseen for gap in source.gaps)
    source.lost_bytes = sum(gap.lost_bytes for gap in source.gaps)
