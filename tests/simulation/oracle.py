"""The judge: what applications wrote on one side, what the tables hold on the other. Knows the promises, not how they are kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from logdrive.pipeline.audit import NOT_WANTED, Source, Verdict
from logdrive.pipeline.cover import size, union
from tests.simulation.beats import Beat
from tests.simulation.files import Life
from tests.simulation.hosts import AgentHost
from tests.simulation.reader import Batch, Tables
from tests.simulation.witnesses import Witness


class BrokenPromise(AssertionError):  # noqa: N818  # it is no error of a program
    """A history that should not be. *promise* is which one was broken, in few words, the same for all histories that break it."""

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise


@dataclass(slots=True)
class _Arrived:
    """One source in the tables."""

    source: str
    host: str
    pieces: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(len(data) for _, data in self.pieces)


def judge(hosts: Sequence[AgentHost], beats: Sequence[Beat], tables: Tables) -> None:
    """Raise `BrokenPromise` unless the tables are what they must be once everything has come to rest."""
    verdict = tables.verdict()
    audited = {source.source: source for source in verdict.by_source}
    _follow_on(tables.batches)
    owners = _owners([life for host in hosts for life in host.applications.lives], _arrived(tables.batches))
    for host in hosts:
        on_disk = host.applications.on_disk
        for life in host.applications.lives:
            arrived = owners.get(life)
            source = audited.get(arrived.source) if arrived is not None else None
            if life in on_disk:
                _whole(life, arrived, source, host)
            elif life.witness is not None and host.plan.start == "beginning":
                _told(life, life.witness, arrived, audited.get(_id_of(life.witness, tables.batches)), host)
        if forgotten := host.starts.forgotten():
            raise BrokenPromise("nothing is lost in silence", f"{host.name} forgot between two starts that {forgotten} had ended")
    for life, arrived in owners.items():
        _honest(life, arrived, audited[arrived.source])
    _verdict(verdict)
    for beat in beats:
        _foreign(beat, tables.batches)


# Sources ---------------------------------------------------------------------------------------------------------------


def _arrived(batches: Iterable[Batch]) -> list[_Arrived]:
    found: dict[str, _Arrived] = {}
    for batch in batches:
        head = batch.head
        if head.kind == "data" and head.source is not None:
            arrived = found.setdefault(head.source, _Arrived(head.source, head.host or ""))
            arrived.pieces += [(row.start, row.data) for row in batch.rows]
    return [arrived for arrived in found.values() if arrived.pieces]


def _owners(lives: Sequence[Life], arrived: list[_Arrived]) -> dict[Life, _Arrived]:
    """Return which source each life arrived as: exactly one, whose every byte is the life's."""
    owners: dict[Life, _Arrived] = {}
    for source in sorted(arrived, key=lambda source: -source.bytes):
        matching = [life for life in lives if life.host == source.host and _matches(life, source)]
        if not matching:
            start, data = source.pieces[0]
            raise BrokenPromise(
                "nothing is invented", f"source {source.source} has {data[:60]!r} at {start}, never written so on {source.host}"
            )
        free = [life for life in matching if life not in owners]
        if not free:
            raise BrokenPromise("once", f"{matching[0]} arrived as {owners[matching[0]].source} and as {source.source}")
        owners[free[0]] = source
    return owners


def _matches(life: Life, source: _Arrived) -> bool:
    return all(life.data[start : start + len(data)] == data for start, data in source.pieces)


def _whole(life: Life, arrived: _Arrived | None, source: Source | None, host: AgentHost) -> None:
    """What is on the disk at the end has arrived, to the last byte, but for what was not wanted from the start."""
    unwanted = [(gap.start, gap.end) for gap in source.gaps if gap.reason == NOT_WANTED] if source is not None else []
    if unwanted and host.plan.start != "end":
        raise BrokenPromise("everything arrives", f"of {life} bytes were declared not wanted")
    have = [(start, start + len(data)) for start, data in arrived.pieces] if arrived is not None else []
    if size(union([*have, *unwanted])) < len(life.data) and not (arrived is None and host.plan.start == "end"):
        raise BrokenPromise("everything arrives", f"{life} is on the disk, and {size(union(have))} bytes of it arrived")
    if source is not None and source.state == "ended":
        raise BrokenPromise("what is there has not ended", f"{life} is on the disk and ended by {source.ended}")


def _id_of(witness: Witness, batches: Iterable[Batch]) -> str:
    """Return the id of the source that the agent made of a life, "" where no batch of it came."""
    origin = witness.origin
    return next((batch.head.source or "" for batch in batches if batch.head.origin == origin), "")


def _told(life: Life, witness: Witness, arrived: _Arrived | None, source: Source | None, host: AgentHost) -> None:
    """What an agent knew when it vanished has arrived, or is told as lost: by that agent, or by the next from its checkpoint."""
    have = arrived.bytes if arrived is not None else 0
    if have >= life.owed:
        return
    what = f"{life}: {have} of {life.owed} bytes arrived"
    lived_on = witness.incarnation == host.incarnation
    if lived_on and witness.held and life.gone == "removed":
        raise BrokenPromise("an open file is read to its end", what)
    if not witness.origin or not (lived_on or host.starts.remember(witness)):
        return
    if source is None:
        raise BrokenPromise("nothing is lost in silence", f"{what}, and the audit knows nothing of it")
    if not source.lost_bytes and not source.lost_at_least:
        raise BrokenPromise("nothing is lost in silence", f"{what}, and the audit misses none")


def _closed(life: Life, arrived: _Arrived | None, source: Source) -> None:
    """A source that has ended without a gap has all that its life had when it went, whoever knew of that."""
    have = arrived.bytes if arrived is not None else 0
    if source.state == "ended" and have < life.owed and not source.lost_bytes and not source.lost_at_least:
        raise BrokenPromise("nothing is lost in silence", f"{life} ended by {source.ended} with {have} of {life.owed} bytes, and no gap")


def _honest(life: Life, arrived: _Arrived, source: Source) -> None:
    """The audit's figures of a source are true."""
    if source.bytes != arrived.bytes:
        raise BrokenPromise("the audit's verdict is true", f"{life}: {arrived.bytes} bytes arrived, the audit says {source.bytes}")
    missing = len(life.data) - arrived.bytes
    if source.lost_bytes > missing:
        raise BrokenPromise("the audit's verdict is true", f"{life}: {missing} bytes did not arrive, the audit misses {source.lost_bytes}")


def _verdict(verdict: Verdict) -> None:
    if verdict.faults:
        raise BrokenPromise("headers and rows agree", str(verdict.faults[0]))
    if verdict.duplicate_events:
        raise BrokenPromise("once", f"the audit counts {verdict.duplicate_events} doubled events")
    unexplained = [gap for gap in verdict.gaps if gap.reason == "unexplained" and gap.lost_bytes]
    if unexplained:
        raise BrokenPromise("each byte is in an event or a gap", str(unexplained[0]))
    if verdict.complete != (verdict.sources > 0 and not verdict.lost_bytes and not verdict.lost_at_least):
        raise BrokenPromise("the audit's verdict is true", f"complete is {verdict.complete} with {verdict.lost_bytes} lost bytes")


def _follow_on(batches: Iterable[Batch]) -> None:
    """In one store, each batch of a source begins where the one before ended, and nothing follows an end (rules D3, P2, G3)."""
    reached: dict[tuple[str, str], tuple[int, str]] = {}
    for batch in batches:
        head = batch.head
        if head.kind == "foreign" or head.source is None or head.position is None:
            continue
        place = batch.store, head.source
        before, kind = reached.get(place, (0, ""))
        if kind == "end":
            raise BrokenPromise("order within a source", f"{head.source}: a batch after its end in {batch.store}")
        if head.previous != before:
            raise BrokenPromise("order within a source", f"{head.source}: a batch from {head.previous} after {before} in {batch.store}")
        reached[place] = head.position, head.kind


# Foreign writers -------------------------------------------------------------------------------------------------------


def _foreign(beat: Beat, batches: Iterable[Batch]) -> None:
    """What a foreign writer had acknowledged is there, at least once; what it never sent is not."""
    stored = dict.fromkeys(event for batch in batches for event in batch.foreign if beat.mark in event)
    missing = [event for event in beat.acknowledged if event not in stored]
    if missing:
        what = f"{beat.name}: {len(missing)} events were acknowledged and are not there, first {missing[0]!r}"
        raise BrokenPromise("acknowledged is durable", what)
    if invented := stored.keys() - set(beat.sent):
        raise BrokenPromise("nothing is invented", f"{beat.name} never sent {min(invented)!r}")
