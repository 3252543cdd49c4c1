"""Every source that this agent knows, living and ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agent.config import InputTable
from agent.records.batch import FIRST_RUN, REMOVED, Mark, end_run
from agent.sources.checkpoint import CheckpointEntry, path_of, shown, text_of
from agent.sources.identity import FirstLine, Identity
from agent.sources.incarnations import Incarnations
from agent.sources.place import FileLocation
from agent.sources.readable import Labels, LabelsByPath, Readable
from agent.sources.source import Acknowledged, Counting, Source
from logdrive.model.limits import ATTRIBUTES_BYTES
from logdrive.model.numbers import CLOSED, is_closed
from logdrive.model.records import compact_json

_FEW = 4
_LONGEST_PATH = 1000
_NO_LABELS = InputTable(paths=["/"])
"""Stands for the input of a file that no input names any more."""


@dataclass(slots=True)
class SourceRegistry:
    """*sources* in the order in which they were met, *ended* by origin (rule G6).

    A source comes with its entry of the checkpoint where nothing can be read of it any more. The
    others have none: theirs is made of what they are read from whenever the checkpoint is written.

    *absent* are entries of the checkpoint whose files can't be looked for now, or that no input
    asks for.
    """

    host: str
    agent: str
    inputs: LabelsByPath
    sources: dict[Source, CheckpointEntry | None] = field(default_factory=dict)
    ended: dict[UUID, CheckpointEntry] = field(default_factory=dict)
    absent: dict[UUID, CheckpointEntry] = field(default_factory=dict)
    families: dict[UUID, Incarnations] = field(default_factory=dict)
    finished: Acknowledged = field(default_factory=Acknowledged)
    """What was acknowledged of sources that have ended since the start."""
    after_write: list[Callable[[], None]] = field(default_factory=list)
    """What is to be done once the checkpoint holds all that is known now."""
    changed: bool = False
    """Something that the checkpoint holds is not in it yet."""

    # Sources -------------------------------------------------------------------------------------

    def family(self, stem: UUID, identity: Identity | None = None) -> Incarnations:
        """Return the lives that look alike under *stem*."""
        family = self.families.setdefault(stem, Incarnations(stem, identity))
        family.identity = family.identity or identity
        return family

    def begin(self, generation: Readable, identity: Identity, counting: Counting) -> Source:
        """Make the source of a life whose first line is known.

        *counting* is how it comes by its count, should it be the first.
        """
        family = self.family(identity.stem, identity)
        counting = (
            counting
            if not family.members
            else Counting.KNOWN
            if family.decided()
            else Counting.AFTER
        )
        count = 0 if counting is Counting.MANY else family.next_count()
        source = Source(generation, family, None, count=count, counting=counting)
        family.add(source)
        self.sources[source] = None
        self.changed = True
        return source

    def add(self, source: Source, place: FileLocation, first_line: FirstLine) -> None:
        """Enter a source of which nothing can be read."""
        self.family(source.names.stem).add(source)
        self.sources[source] = _entry(source, place, first_line)
        self.changed = True

    def restored(
        self, entry: CheckpointEntry, generation: Readable | None, identity: Identity | None
    ) -> Source:
        """Make the source of a checkpoint's *entry*; without *generation* its bytes are gone."""
        family = self.family(entry.stem, identity)
        attributes = None
        if generation is None:
            path = path_of(entry.path)
            attributes = self.attributes(path, self.inputs.of(path) or _NO_LABELS)
        source = Source(
            generation, family, attributes, count=entry.count, counting=Counting(entry.counting)
        )
        # Taken from the checkpoint, whatever a name made now would be (rule G2); one object of two
        # that are kept.
        source.origin = family.stem if entry.origin == family.stem else entry.origin
        source.number, source.store, source.undecided = entry.number, entry.store, entry.undecided
        if entry.resend:
            source.sends_again()
        source.acknowledged.at_ms = entry.acknowledged
        family.add(source)
        self.sources[source] = entry if generation is None else None
        return source

    def decide_starts(self, *, here_before: bool, now_ms: int) -> list[Source]:
        """Let files that wait for it begin at their end, or, where the agent was here before, at 0
        (rule P2). Return their sources.
        """
        waiting = [source for source in self.sources if source.undecided]
        for source in waiting:
            source.decide_start(wanted=here_before, now_ms=now_ms)
            self.changed = True
        # found later, when nobody asks any more
        for entry in [entry for entry in self.absent.values() if entry.undecided]:
            entry.undecided = False
            if here_before:
                entry.start, entry.resend = 0, True
            self.changed = True
        return waiting

    def enter_ended(self, entry: CheckpointEntry) -> None:
        """Enter a source whose end record was acknowledged."""
        self.ended[entry.origin] = entry
        family = self.family(entry.stem)
        family.highest_ended = max(family.highest_ended, entry.count)

    def finish(self, source: Source, now_ms: int) -> None:
        """Take notice that the end record of *source* is stored."""
        entry = self.entry(source)
        entry.done = now_ms
        del self.sources[source]
        self.finished.add(source.acknowledged)
        self.family(entry.stem).remove(source)
        self.enter_ended(entry)
        self.changed = True

    def revive(self, store: UUID, now_ms: int) -> list[Source]:
        """Return the ended sources of *store* as sources that must register again: it has stepped
        back (rule G6).
        """
        return [
            self._revived(entry, now_ms)
            for entry in list(self.ended.values())
            if entry.store == store
        ]

    def acknowledged_last(self, now_ms: int) -> list[Source]:
        """Return the source that was acknowledged last, revived if it has ended (rule D9); a few
        where several were at that moment.
        """
        known = [source for source in self.sources if source.store is not None]
        latest = max(
            [
                0,
                *(s.acknowledged.at_ms for s in known),
                *(e.acknowledged for e in self.ended.values()),
            ]
        )
        living = [source for source in known if source.acknowledged.at_ms == latest]
        ended = [entry for entry in self.ended.values() if entry.acknowledged == latest]
        few = max(0, _FEW - len(living))
        return living[:_FEW] + [self._revived(entry, now_ms) for entry in ended[:few]]

    def arrived(self, now_ms: int) -> list[Source]:
        """Return the source of the agent itself, if it has ended: each store that is met is to know
        it, and to go on knowing it.
        """
        return [
            self._revived(entry, now_ms)
            for entry in list(self.ended.values())
            if entry.ended == FIRST_RUN
        ]

    def _revived(self, entry: CheckpointEntry, now_ms: int) -> Source:
        del self.ended[entry.origin]
        entry.done = None
        source = self.restored(entry, None, None)
        if is_closed(source.number):
            source.number -= CLOSED
        source.ended = Mark(entry.ended or REMOVED, entry.exact)
        source.keep([end_run(source.number, source.ended, now_ms)])
        source.must_register = True
        return source

    def path(self, source: Source) -> str:
        """Return the name that the lines of *source* are known by."""
        if source.generation is not None:
            return source.generation.place.path
        entry = self.sources[source]
        assert entry is not None
        return path_of(entry.path)

    def attributes_of(self, source: Source) -> bytes:
        """Return what an S says of *source*, which may have changed since the last one: whether it
        sends again (rule A4).
        """
        generation, said = source.generation, source.attributes
        if said is None:
            assert generation is not None
            said = self.attributes(generation.place.path, generation.settings)
        return said[:-1] + b',"resend":true}' if source.resend else said

    def attributes(self, path: str, labels: Labels) -> bytes:
        """Return what an S says of a source (rule R4: it goes into every header as it is)."""
        said: dict[str, Any] = {"host": self.host, "agent": self.agent, "path": shown(path)}
        if labels.fields:
            said["fields"] = labels.fields
        if labels.tags:
            said["tags"] = labels.tags
        encoded = compact_json(said)
        # labels are bounded: the path is long, and escaped to be longer
        if len(encoded) > ATTRIBUTES_BYTES:
            encoded = compact_json(said | {"path": said["path"][-_LONGEST_PATH:]})
        return encoded

    # The checkpoint ------------------------------------------------------------------------------

    def entry(self, source: Source) -> CheckpointEntry:
        """Return the checkpoint's entry of a source as it stands now."""
        entry, generation = self.sources[source], source.generation
        if entry is None:
            assert generation is not None
            assert generation.first_line is not None
            entry = _entry(source, generation.place, generation.first_line)
        entry.origin, entry.count, entry.counting = (
            source.origin,
            source.count,
            source.counting.value,
        )
        entry.number, entry.store = source.number, source.store
        entry.undecided, entry.resend = source.undecided, source.resend
        entry.acknowledged = source.acknowledged.at_ms
        identity = self.family(entry.stem).identity
        entry.first = (
            identity.first_line
            if identity is not None and source.counting is not Counting.KNOWN
            else None
        )
        if generation is not None:
            entry.start, entry.seen = generation.start, generation.seen
            entry.last = generation.last if generation.seen > source.position else 0
            entry.modified_ns = generation.modified_ns
        if source.ended is not None:
            entry.ended, entry.exact = source.ended.reason, source.ended.exact
        return entry

    def entries(self, now_ms: int, keep_ms: int) -> list[CheckpointEntry]:
        """Return all that goes into the checkpoint; what ended more than *keep_ms* ago is
        dropped.
        """
        for entry in [
            e
            for e in self.ended.values()
            if (e.done or 0) < now_ms - keep_ms and e.ended != FIRST_RUN
        ]:
            del self.ended[entry.origin]
            if not self.families[entry.stem].members:
                del self.families[entry.stem]
        living = [self.entry(source) for source in self.sources]
        return [*living, *self.ended.values(), *self.absent.values()]


def _entry(source: Source, place: FileLocation, first_line: FirstLine) -> CheckpointEntry:
    """Return a new entry that says what *source* is, and nothing yet of how it stands."""
    return CheckpointEntry(
        origin=source.origin,
        stem=source.names.stem,
        path=text_of(place.path),
        name=text_of(place.name),
        mount=text_of(place.mount),
        device=place.device,
        inode=place.inode,
        birth_ns=place.birth_ns,
        span=first_line.span,
        crc=first_line.crc,
    )
