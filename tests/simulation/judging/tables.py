"""The judge of the pipeline's tables and its audit: they have what the stores have, once."""

from collections.abc import Iterable, Mapping, Sequence

from logdrive.pipeline.audit.audit import Verdict
from logdrive.pipeline.audit.sources import AuditedSource
from tests.simulation.hosts.applications import Life
from tests.simulation.hosts.programs import AgentHost
from tests.simulation.judging.arrivals import Arrived, Batch, arrived, covered
from tests.simulation.judging.bronze import Bronze, Row
from tests.simulation.judging.truth import BelievedError, NotKeptError, judge_lies
from tests.simulation.peers.liars import Liar
from tests.simulation.peers.reader import Tables
from tests.simulation.promises import BrokenPromise


def judge_tables(
    hosts: Sequence[AgentHost],
    liars: Sequence[Liar],
    tables: Tables,
    owners: Mapping[Life, Arrived],
    sources: Mapping[str, Arrived],
) -> None:
    """Raise `BrokenPromise` unless *tables* are what the stores have.

    That is *sources*, unless a peer has faults; *owners* are those of lives.
    """
    if tables.peer is None:
        _tables(owners, sources, liars, tables)
        return
    there = arrived(honest(tables.batches, liars))
    left = {life: there[one.source] for life, one in owners.items() if one.source in there}
    _tables(left, there, liars, tables)
    on_disk = [life for host in hosts for life in host.applications.on_disk]
    _found(on_disk, owners, there)


def _tables(
    owners: Mapping[Life, Arrived],
    sources: Mapping[str, Arrived],
    liars: Sequence[Liar],
    tables: Tables,
) -> None:
    """Require that the tables have each byte of the stores once, and that the audit is right.

    A faulty Iggy has lost what it had acknowledged, which the audit can't explain.
    """
    bronze, lossy = tables.bronze(), tables.peer is not None
    verdict = bronze.verdict()
    _lies(liars, tables, bronze, verdict)
    theirs = [source.source for liar in liars for source in liar.sources]

    # rows against headers
    if faults := [fault for fault in verdict.faults if fault.source not in theirs]:
        raise BrokenPromise("headers and rows agree", str(faults[0]))
    if verdict.duplicate_events:
        raise BrokenPromise("once", f"the audit counts {verdict.duplicate_events} doubled events")
    for life, source in owners.items():
        _rows(life, source, bronze.rows.get(source.source, []))

    # sources and gaps
    own = [source for source in verdict.by_source if source.source not in theirs]
    audited = {source.source: source for source in own if not source.foreign}
    if audited.keys() != sources.keys():
        raise BrokenPromise(
            "the audit's verdict is true",
            f"of {sorted(audited.keys() ^ sources.keys())[0]} only one side knows",
        )
    for name, source in sources.items():
        _figures(source, audited[name])

    gaps = [gap for gap in verdict.gaps if gap.source not in theirs]
    unexplained = [gap for gap in gaps if gap.reason == "unexplained" and gap.lost_bytes]
    if unexplained and not lossy:
        raise BrokenPromise("each byte is in an event or a gap", str(unexplained[0]))
    if verdict.complete != (
        bool(verdict.sources)
        and not any(source.lost or source.open_gap for source in sources.values())
        and not verdict.faults
    ):
        raise BrokenPromise(
            "the audit's verdict is true",
            f"complete is {verdict.complete} with {verdict.lost_bytes} lost bytes",
        )


def honest(batches: Iterable[Batch], liars: Sequence[Liar]) -> list[Batch]:
    """Return *batches* without those of *liars*."""
    theirs = [source.source for liar in liars for source in liar.sources]
    return [batch for batch in batches if batch.source not in theirs]


def _lies(liars: Sequence[Liar], tables: Tables, bronze: Bronze, verdict: Verdict) -> None:
    """Require that lies harm nobody but their liars, and are named."""
    try:
        judge_lies(liars, tables.batches, bronze, verdict)
    except BelievedError as error:
        raise BrokenPromise("a pack that lies is quarantined and named", str(error)) from error
    except NotKeptError as error:
        raise BrokenPromise("acknowledged is durable", str(error)) from error


def _found(
    lives: Iterable[Life], owners: Mapping[Life, Arrived], there: Mapping[str, Arrived]
) -> None:
    """Require that of each of *lives*, which have last lines, a loss shows in *there*.

    `_tables` has compared what shows there with the audit.
    """
    for life in lives:
        told = owners.get(life)
        left = there.get(told.source) if told is not None else None
        if told is None or (left is not None and left.bytes == told.bytes):
            continue
        if left is None or not left.lost:
            raise BrokenPromise(
                "what a peer has lost is found", f"{life}: of {told.bytes} bytes some are lost"
            )


def _rows(life: Life, source: Arrived, rows: Sequence[Row]) -> None:
    """Require that *rows* are the file's bytes, and have each byte that arrived once."""
    for row in rows:
        if row.end - row.start != len(row.data) or life.data[row.start : row.end] != row.data:
            raise BrokenPromise(
                "headers and rows agree",
                f"{life}: a row from {row.start} to {row.end} says {row.data[:60]!r}",
            )
    have = [(row.start, row.end) for row in rows]
    if covered(have) != source.bytes or covered([*have, *source.intervals]) != source.bytes:
        raise BrokenPromise(
            "headers and rows agree",
            f"{life}: {source.bytes} bytes arrived, the rows have {covered(have)} of them",
        )
    if sum(len(row.data) for row in rows) != source.bytes:
        raise BrokenPromise(
            "once", f"{life}: {source.bytes} bytes arrived, and some stand in two rows"
        )


def _figures(source: Arrived, audited: AuditedSource) -> None:
    """Require that the audit's figures for a source are ours."""
    # any of several reasons will do
    ended = audited.ended if audited.ended in source.ends else source.ended
    ours = source.bytes, source.lost, source.open_gap, ended
    theirs = audited.bytes, audited.lost_bytes, audited.lost_at_least, audited.ended
    if ours != theirs:
        what = (
            f"{source.source}: it counts {theirs}, there are {ours} (bytes, of them lost, "
            "perhaps more, why it ended)"
        )
        raise BrokenPromise("the audit's verdict is true", what)
    # of bytes that came twice the audit may have cut rows
    if not source.doubled and source.events != audited.events:
        raise BrokenPromise(
            "the audit's verdict is true",
            f"{source.source}: {source.events} events, it counts {audited.events}",
        )
