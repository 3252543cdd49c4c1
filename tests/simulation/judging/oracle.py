"""The judge: what applications wrote on one side, what the tables hold on the other.

Knows the promises, not how they are kept.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial

from tests.simulation.hosts.applications import Life
from tests.simulation.hosts.compressing import SUFFIXES
from tests.simulation.hosts.programs import AgentHost
from tests.simulation.judging.arrivals import (
    RESENT,
    Arrived,
    Batch,
    arrived,
    covered,
    foreign_events,
)
from tests.simulation.judging.doubles import (
    first_line_span,
    is_elsewhere,
    is_first_line_only,
    is_first_line_seen,
    is_unknown,
)
from tests.simulation.judging.left_out import may_be_left_out, may_be_there
from tests.simulation.judging.plain import InventedError, NotThereError, judge_plain
from tests.simulation.judging.tables import honest, judge_tables
from tests.simulation.judging.witnesses import Starts, Witness
from tests.simulation.peers.beats import Beat
from tests.simulation.peers.liars import Liar
from tests.simulation.peers.reader import Tables
from tests.simulation.plan import AgentPlan
from tests.simulation.promises import BrokenPromise


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
    sources = arrived(honest(batches, liars))
    owners = _owners(hosts, sources, stores)
    for host in hosts:
        if host.plan.plain:
            _plain(host, batches)
            continue

        _lives(host, owners, sources)
        if forgotten := host.starts.forgotten():
            raise BrokenPromise(
                "nothing is lost in silence", f"{host.name} forgot {forgotten} between two starts"
            )
    judge_tables(hosts, liars, tables, owners, sources)
    for beat in beats:
        _foreign(beat, batches)


def _lives(host: AgentHost, owners: Mapping[Life, Arrived], sources: Mapping[str, Arrived]) -> None:
    """Require that of each life of *host* all has arrived, or what has not is told."""
    _excluded(host, sources.values())
    by_origin = {source.origin: source for source in sources.values()}
    on_disk = host.applications.on_disk
    for life in host.applications.lives:
        source = owners.get(life)
        if source is None and may_be_left_out(life.data, 0, len(life.data), host.plan):
            continue  # it has no event that anybody could miss
        if source is None or is_first_line_only(life, source):
            source = _without_events(life, sources.values(), host) or source
        if life in on_disk:
            _whole(life, source, host)
        elif host.plan.start == "beginning":
            # a life that is gone: what its agent knew of it must have arrived, or be a gap
            source = source or _sent_before(life, sources.values(), host)
            _copied(life, source, host)
            if life.witness is not None:
                named = by_origin.get(life.witness.origin)
                if _is_told_by_another(life, source, named, sources.values(), host):
                    continue
                _told(life, life.witness, source, named, host)
            if source is not None:
                _closed(life, source)


# Sources ----------------------------------------------------------------------------------------


def _owners(
    hosts: Sequence[AgentHost], sources: Mapping[str, Arrived], stores: int
) -> dict[Life, Arrived]:
    """Return the one source as which each life arrived, all of whose bytes are the life's.

    The agents of *hosts* send to one of *stores* stores at a time.
    """
    owners: dict[Life, Arrived] = {}
    told = {source.origin for source in sources.values()}
    lives = [(life, host) for host in hosts for life in host.applications.lives]
    # large sources first: the bytes of a small one may be in several lives
    for source in sorted(
        (source for source in sources.values() if source.pieces),
        key=lambda source: (-source.sent, -source.bytes),
    ):
        matching = {
            life: host
            for life, host in lives
            if life.host == source.host and _matches(life, source, host.plan)
        }
        if not matching:
            start, data = source.pieces[0]
            raise BrokenPromise(
                "nothing is invented",
                f"source {source.source} has {data[:60]!r} at {start}, never written so "
                f"on {source.host}, or left out other lines than it may",
            )
        if source.ended == RESENT:
            continue  # all of the file comes with the next count
        free = [life for life in matching if life not in owners]
        if not free and any(
            is_first_line_only(life, source)
            or is_elsewhere(life, (owners[life], source), host.starts, stores)
            or is_unknown(life, (owners[life], source), host.starts)
            for life, host in matching.items()
        ):
            continue
        if not free:
            life = next(iter(matching))
            raise BrokenPromise(
                "once", f"{life} arrived as {owners[life].source} and as {source.source}"
            )
        starts = {life: host.starts for life, host in matching.items()}
        owners[min(free, key=partial(_unlikely, source, told, starts))] = source
    return owners


def _unlikely(
    source: Arrived, told: Container[str], starts: Mapping[Life, Starts], life: Life
) -> int:
    """Return how unlikely *source* is that of *life*, of several that its bytes are in.

    One that lacks events, or was not sent to its end, may have nothing that is not in other lives,
    too. *told* are the origins of all sources, *starts* those of each life's agent.
    """
    witness = life.witness
    origin = witness.origin if witness is not None and starts[life].knew_count(witness) else ""
    is_another = origin != source.origin
    return is_another + 2 * (is_another and origin in told) + (len(life.data) != source.sent)


def _without_events(life: Life, sources: Iterable[Arrived], host: AgentHost) -> Arrived | None:
    """Return a source that may be *life*, of which all was left out, or skipped; None if none is.

    Nothing that arrived of it says whose it is.
    """
    owed = life.owed or len(life.data)
    return min(
        (
            source
            for source in sources
            if source.host == life.host
            and not source.pieces
            and source.sent >= owed
            and _matches(life, source, host.plan)
        ),
        key=lambda source: source.sent,
        default=None,
    )


def _sent_before(life: Life, sources: Iterable[Arrived], host: AgentHost) -> Arrived | None:
    """Return the source that has all of *life*, and ended as it was to be sent again; None if none
    is.

    What was asked for is not known any more where the checkpoint is lost, and nothing is missing.
    """
    return next(
        (
            source
            for source in sources
            if source.host == life.host
            and source.ended == RESENT
            and source.sent >= life.owed
            and _matches(life, source, host.plan)
        ),
        None,
    )


def _matches(life: Life, source: Arrived, plan: AgentPlan) -> bool:
    """Return whether *source* has bytes of *life*, and lacks only what its agent leaves out."""
    if any(life.data[start : start + len(data)] != data for start, data in source.pieces):
        return False
    return all(may_be_left_out(life.data, start, end, plan) for start, end in source.left_out)


def _excluded(host: AgentHost, sources: Iterable[Arrived]) -> None:
    """Require that no event arrived that the agent of *host* had to leave out, and that what was
    skipped is what its operator had skipped.
    """
    for source in (one for one in sources if one.host == host.applications.host):
        if covered([*host.skipped, *source.skipped]) != covered(host.skipped):
            raise BrokenPromise(
                "only what an operator names is skipped",
                f"{source.source} lacks {source.skipped}, to be skipped were {host.skipped}",
            )
        for start, data in source.pieces:
            if not may_be_there(data, host.plan):
                raise BrokenPromise(
                    "what is excluded is left out", f"{source.source} has {data[:60]!r} at {start}"
                )


def _whole(life: Life, source: Arrived | None, host: AgentHost) -> None:
    """Require that *life*, which is on the disk, has arrived whole but for unwanted bytes."""
    if source is not None and source.unwanted and host.plan.start != "end":
        raise BrokenPromise("everything arrives", f"of {life} bytes were declared not wanted")
    have = (
        covered([*source.intervals, *source.left_out, *source.skipped, *source.unwanted])
        if source is not None
        else 0
    )
    if have < len(life.data) and not (source is None and host.plan.start == "end"):
        raise BrokenPromise(
            "everything arrives", f"{life} is on the disk, and {have} bytes of it arrived"
        )
    if source is not None and source.ended is not None:
        raise BrokenPromise(
            "what is there has not ended", f"{life} is on the disk and ended by {source.ended}"
        )


def _copied(life: Life, source: Arrived | None, host: AgentHost) -> None:
    """Require that all of *life* has arrived if a plain copy of it is on the disk.

    *source* is the one that has its bytes. A first line alone is no evidence (rule G5), and NULs at
    the end wait (P5). Of a life that had ended, what a store that was restored lacks is a gap
    (docs/agent.md): its copy is not read again.
    """
    if host.store_set_back:
        return
    have = source.sent if source is not None else 0
    is_there = life.copy in host.disk.paths() and not life.copy.endswith(tuple(SUFFIXES))
    text = len(life.data.rstrip(b"\0"))
    if is_there and max(have, first_line_span(life)) < text:
        what = f"{life}: {have} bytes arrived, and {life.copy} is on the disk"
        raise BrokenPromise("what a copy has is not lost", what)


def _told(
    life: Life, witness: Witness, source: Arrived | None, named: Arrived | None, host: AgentHost
) -> None:
    """Require that all of *life*, which is gone, has arrived or is in a gap.

    Its agent reports the gap, or the next one from the checkpoint. *named* is the source as which
    the witness knew it, *source* the one that has its bytes.
    """
    have = source.sent if source is not None else 0
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
    host: AgentHost,
) -> bool:
    """Return whether another source tells of *life* than the one *named* that its agent gave it.

    *source* is the one that has its bytes.
    """
    assert life.witness is not None
    knew = host.starts.knew_count(life.witness)
    if named is None:
        return not knew and _is_told(life, sources)
    if named.ended == RESENT:
        # the source that has its bytes says so, or the next count that nothing was sent of
        return (source is not None and source.open_gap) or any(
            other.last >= life.owed
            or host.starts.are_of_one_file(named.origin, other.origin)
            or not (knew or other.pieces)
            for other in sources
            if (other.open_gap or other.lost) and other.host == life.host and other is not named
        )
    return (named is not source or not knew) and _took_its_place(named, sources)


def _took_its_place(named: Arrived, sources: Iterable[Arrived]) -> bool:
    """Return whether the next life took over the source *named*, or another life had it before.

    No byte that was read told the two apart. Another source, perhaps of another path, then has an
    end that was not seen (P4).
    """
    return named.sent > 0 and any(
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
        and source.sent < life.owed
        and not source.lost
        and not source.open_gap
    ):
        what = f"{life} ended by {source.ended} with {source.sent} of {life.owed} bytes, and no gap"
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
