"""The judge: what applications wrote on one side, what the tables hold on the other.

Knows the promises, not how they are kept.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from logdrive.pipeline.audit.audit import Verdict
from logdrive.pipeline.audit.sources import AuditedSource
from tests.simulation.arrivals import Arrived, Batch, arrived, covered, foreign_events
from tests.simulation.beats import Beat
from tests.simulation.bronze import Bronze, Row
from tests.simulation.doubles import (
    is_elsewhere,
    is_first_line_only,
    is_first_line_seen,
    is_unknown,
)
from tests.simulation.files import Life
from tests.simulation.hosts import AgentHost
from tests.simulation.liars import Liar
from tests.simulation.plain import InventedError, NotThereError, judge_plain
from tests.simulation.reader import Tables
from tests.simulation.truth import BelievedError, NotKeptError, judge_lies
from tests.simulation.witnesses import Starts, Witness


class BrokenPromise(AssertionError):  # noqa: N818  # it is no error of a program
    """A promise that a history broke.

    *promise* names it in few words, the same for all histories that break it; *what* is what this
    history did.
    """

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise


def judge(
    hosts: Sequence[AgentHost],
    beats: Sequence[Beat],
    liars: Sequence[Liar],
    tables: Tables,
    *,
    stores: int,
) -> None:
    """Raise `BrokenPromise` unless *stores* stores, and the tables, are as they must be once all is
    at rest.
    """
    if tables.peer is None:
        _follow_on(tables.batches, unnumbered=tables.records)
    # what a peer of ours acknowledged and lost was delivered, as far as a receiver could know
    batches = tables.batches if tables.peer is None else tables.ever
    sources = arrived(_honest(batches, liars))
    by_origin = {source.origin: source for source in sources.values()}
    starts = {host.applications.host: host.starts for host in hosts}
    lives = [life for host in hosts for life in host.applications.lives]
    owners = _owners(lives, sources, starts, stores)
    for host in hosts:
        if host.plan.plain:
            _plain(host, batches)
            continue

        on_disk = host.applications.on_disk
        for life in host.applications.lives:
            source = owners.get(life)
            if life in on_disk:
                _whole(life, source, host)
            elif host.plan.start == "beginning":
                # a life that is gone: what its agent knew of it must have arrived, or be a gap
                if life.witness is not None:
                    named = by_origin.get(life.witness.origin)
                    knew = host.starts.knew_count(life.witness)
                    if _is_told_by_another(life, source, named, sources.values(), knew=knew):
                        continue
                    _told(life, life.witness, source, named, host)
                if source is not None:
                    _closed(life, source)

        if forgotten := host.starts.forgotten():
            raise BrokenPromise(
                "nothing is lost in silence", f"{host.name} forgot {forgotten} between two starts"
            )
    _stored(hosts, liars, tables, owners, sources)
    for beat in beats:
        _foreign(beat, batches)


# Sources ----------------------------------------------------------------------------------------


def _owners(
    lives: Sequence[Life], sources: Mapping[str, Arrived], starts: Mapping[str, Starts], stores: int
) -> dict[Life, Arrived]:
    """Return the one source as which each life arrived, all of whose bytes are the life's.

    *starts* are those of the hosts' agents, which send to one of *stores* stores at a time.
    """
    owners: dict[Life, Arrived] = {}
    # large sources first: the bytes of a small one may be in several lives
    for source in sorted(
        (source for source in sources.values() if source.pieces), key=lambda source: -source.bytes
    ):
        matching = [life for life in lives if life.host == source.host and _matches(life, source)]
        if not matching:
            start, data = source.pieces[0]
            raise BrokenPromise(
                "nothing is invented",
                f"source {source.source} has {data[:60]!r} at {start}, never written so "
                f"on {source.host}",
            )
        free = [life for life in matching if life not in owners]
        if not free and any(
            is_first_line_only(life, source)
            or is_elsewhere(life, (owners[life], source), starts[source.host], stores)
            or is_unknown(life, (owners[life], source), starts[source.host])
            for life in matching
        ):
            continue
        if not free:
            raise BrokenPromise(
                "once",
                f"{matching[0]} arrived as {owners[matching[0]].source} and as {source.source}",
            )
        owners[free[0]] = source
    return owners


def _matches(life: Life, source: Arrived) -> bool:
    return all(life.data[start : start + len(data)] == data for start, data in source.pieces)


def _whole(life: Life, source: Arrived | None, host: AgentHost) -> None:
    """Require that *life*, which is on the disk, has arrived whole but for unwanted bytes."""
    if source is not None and source.unwanted and host.plan.start != "end":
        raise BrokenPromise("everything arrives", f"of {life} bytes were declared not wanted")
    have = covered([*source.intervals, *source.unwanted]) if source is not None else 0
    if have < len(life.data) and not (source is None and host.plan.start == "end"):
        raise BrokenPromise(
            "everything arrives", f"{life} is on the disk, and {have} bytes of it arrived"
        )
    if source is not None and source.ended is not None:
        raise BrokenPromise(
            "what is there has not ended", f"{life} is on the disk and ended by {source.ended}"
        )


def _told(
    life: Life, witness: Witness, source: Arrived | None, named: Arrived | None, host: AgentHost
) -> None:
    """Require that all of *life*, which is gone, has arrived or is in a gap.

    Its agent reports the gap, or the next one from the checkpoint. *named* is the source as which
    the witness knew it, *source* the one that has its bytes.
    """
    have = source.bytes if source is not None else 0
    if have >= life.owed:
        return
    # a copy that is a source of its own: NULs at its end wait for what is written behind them (P5)
    is_open = source is not None and source.ended is None
    if life.copy and is_open and not life.data[have : life.owed].strip(b"\0"):
        return
    what = f"{life}: {have} of {life.owed} bytes arrived"
    lived_on = witness.incarnation == host.incarnation
    # what a store that was restored lacks is sent again from files that are still there, if at all
    is_read = witness.held and not host.plan.keep_removed_bytes and not host.store_set_back
    if lived_on and is_read and life.gone == "removed":
        raise BrokenPromise("an open file is read to its end", what)
    if not witness.origin or not (lived_on or host.starts.remember(witness)):
        return  # no agent since knows of it
    is_surely_known = witness.source is not None and not host.starts.lost
    knows_more = named is None or not is_first_line_seen(life, named)
    if life.copy and is_surely_known and knows_more and not host.store_set_back:
        raise BrokenPromise("what a copy has is not lost", what)
    if named is None:
        raise BrokenPromise("nothing is lost in silence", f"{what}, and nothing is said of it")
    if not named.lost and not named.open_gap:
        raise BrokenPromise("nothing is lost in silence", f"{what}, and no gap is told")


def _is_told_by_another(
    life: Life,
    source: Arrived | None,
    named: Arrived | None,
    sources: Iterable[Arrived],
    *,
    knew: bool,
) -> bool:
    """Return whether another source tells of *life* than the one *named* that its agent gave it.

    *source* is the one that has its bytes. The agent *knew* by which count it went, or not.
    """
    if named is None:
        return not knew and _is_told(life, sources)
    return (named is not source or not knew) and _took_its_place(named, sources)


def _took_its_place(named: Arrived, sources: Iterable[Arrived]) -> bool:
    """Return whether the next life took over the source *named*, or another life had it before.

    No byte that was read told the two apart. Another source, perhaps of another path, then has an
    end that was not seen (P4).
    """
    return bool(named.pieces) and any(
        other.open_gap for other in sources if other.host == named.host and other is not named
    )


def _is_told(life: Life, sources: Iterable[Arrived]) -> bool:
    """Return whether a source of the host of *life*, of which nothing arrived, tells of so much."""
    return any(
        not other.pieces and other.open_gap and other.last >= life.owed
        for other in sources
        if other.host == life.host
    )


def _closed(life: Life, source: Arrived) -> None:
    """Require that *source*, if it has ended without a gap, has all bytes of *life*."""
    if (
        source.ended is not None
        and source.bytes < life.owed
        and not source.lost
        and not source.open_gap
    ):
        what = (
            f"{life} ended by {source.ended} with {source.bytes} of {life.owed} bytes, and no gap"
        )
        raise BrokenPromise("nothing is lost in silence", what)


def _follow_on(batches: Iterable[Batch], *, unnumbered: Container[tuple[str, str]]) -> None:
    """Require that, in one store, each batch of a source begins where the one before ended.

    Nothing follows an end (rules D3, P2, G3). In *unnumbered* segments, each with its store, no
    numbers are kept: runs may be there again, but never one before those that it follows (rule S5).
    """
    reached: dict[tuple[str, str], tuple[int, str]] = {}
    for batch in sorted(
        (batch for batch in batches if batch.kind != "foreign"), key=lambda batch: batch.place
    ):
        place, header = (batch.store, batch.source), batch.header
        before, kind = reached.get(place, (0, ""))
        if (batch.store, batch.segment) in unnumbered:
            if header["previous"] > before:
                raise BrokenPromise(
                    "order within a source", f"{batch.source}: {header} at {before}"
                )
            reached[place] = max(before, header["position"]), batch.kind
            continue
        if kind == "end":
            raise BrokenPromise(
                "order within a source", f"{batch.source}: a batch after its end in {batch.store}"
            )
        if header["previous"] != before:
            what = (
                f"{batch.source}: a batch from {header['previous']} after {before} in {batch.store}"
            )
            raise BrokenPromise("order within a source", what)
        reached[place] = header["position"], batch.kind


# Tables -----------------------------------------------------------------------------------------


def _stored(
    hosts: Sequence[AgentHost],
    liars: Sequence[Liar],
    tables: Tables,
    owners: Mapping[Life, Arrived],
    sources: Mapping[str, Arrived],
) -> None:
    """Compare the tables with what the stores have: *sources*, unless a peer has faults."""
    if tables.peer is None:
        _tables(owners, sources, liars, tables)
        return
    there = arrived(_honest(tables.batches, liars))
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


def _honest(batches: Iterable[Batch], liars: Sequence[Liar]) -> list[Batch]:
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


# Agents that speak the plain dialect ------------------------------------------------------------


def _plain(host: AgentHost, batches: Iterable[Batch]) -> None:
    try:
        judge_plain(host, foreign_events(batches))
    except NotThereError as error:
        raise BrokenPromise("everything arrives", str(error)) from error
    except InventedError as error:
        raise BrokenPromise("nothing is invented", str(error)) from error


# Foreign peers ----------------------------------------------------------------------------------


def _foreign(beat: Beat, batches: Iterable[Batch]) -> None:
    """Require that all acknowledged events of *beat* are stored, and none that it never sent."""
    stored = dict.fromkeys(event for event in foreign_events(batches) if beat.mark in event)
    missing = [event for event in beat.acknowledged if event not in stored]
    if missing:
        what = (
            f"{beat.name}: {len(missing)} events were acknowledged and are not there, first "
            f"{missing[0]!r}"
        )
        raise BrokenPromise("acknowledged is durable", what)
    if invented := stored.keys() - set(beat.sent):
        raise BrokenPromise("nothing is invented", f"{beat.name} never sent {min(invented)!r}")
