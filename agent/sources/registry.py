"""Every source that this agent knows, living and ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agent.config import InputTable
from agent.records.batch import FIRST_RUN, REMOVED, Mark, end_run
from agent.sources.checkpoint import CheckpointEntry, path_from_text, path_to_text, printable_path
from agent.sources.identity import FirstLine, Identity
from agent.sources.incarnations import Incarnations
from agent.sources.place import FileLocation
from agent.sources.readable import Labels, LabelsByPath, Readable
from agent.sources.source import Acknowledged, Counting, Source
from logdrive.model.limits import ATTRIBUTES_BYTES
from logdrive.model.numbers import CLOSED, is_closed
from logdrive.model.records import kept_json

_FEW = 4
_LONGEST_PATH = 1000
_NO_LABELS = InputTable(paths=["/"])
"""Stands for the input of a file that no input names any more."""


@dataclass(slots=True)
class SourceRegistry:
    """*sources* in the order in which they were met, *ended* by origin (rule G6).

    *absent* are entries of the checkpoint whose files can't be looked for now, or that no input
    asks for.
    """

    host: str
    agent: str
    inputs: LabelsByPath
    sources: dict[Source, CheckpointEntry] = field(default_factory=dict)
    ended: dict[UUID, CheckpointEntry] = field(default_factory=dict)
    absent: dict[UUID, CheckpointEntry] = field(default_factory=dict)
    incarnations: dict[UUID, Incarnations] = field(default_factory=dict)
    finished: Acknowledged = field(default_factory=Acknowledged)
    """What was acknowledged of sources that have ended since the start."""
    after_write: list[Callable[[], None]] = field(default_factory=list)
    """What is to be done once the checkpoint holds all that is known now."""
    changed: bool = False
    """Something that the checkpoint holds is not in it yet."""

    # Sources -------------------------------------------------------------------------------------

    def incarnations_of(self, stem: UUID, identity: Identity | None = None) -> Incarnations:
        """Return the lives that look alike under *stem*."""
        family = self.incarnations.setdefault(stem, Incarnations(stem, identity))
        family.identity = family.identity or identity
        return family

    def add_generation(
        self, generation: Readable, first_line: FirstLine, identity: Identity, counting: Counting
    ) -> Source:
        """Make the source of a life whose first line is known.

        *counting* is how it comes by its count, should it be the first.
        """
        family = self.incarnations_of(identity.stem, identity)
        counting = (
            counting
            if not family.members
            else Counting.KNOWN
            if family.counts_known()
            else Counting.AFTER
        )
        count = 0 if counting is Counting.MANY else family.next_count()
        source = Source(
            generation,
            family,
            self.encode_attributes(generation.place.path, generation.settings),
            count=count,
            counting=counting,
        )
        self.add_source(source, generation.place, first_line)
        return source

    def add_source(self, source: Source, place: FileLocation, first_line: FirstLine) -> None:
        """Enter a source."""
        family = self.incarnations_of(source.incarnations.stem)
        family.members.append(source)
        self.sources[source] = CheckpointEntry(
            origin=source.origin,
            stem=family.stem,
            path=path_to_text(place.path),
            name=path_to_text(place.name),
            mount=path_to_text(place.mount),
            device=place.device,
            inode=place.inode,
            birth_ns=place.birth_ns,
            span=first_line.span,
            crc=first_line.crc,
        )
        self.changed = True

    def restore_source(
        self, entry: CheckpointEntry, generation: Readable | None, identity: Identity | None
    ) -> Source:
        """Make the source of a checkpoint's *entry*; without *generation* its bytes are gone."""
        family = self.incarnations_of(entry.stem, identity)
        # one object of two that are kept, here and below
        entry.name = entry.path if entry.name == entry.path else entry.name
        entry.origin = family.stem if entry.origin == family.stem else entry.origin
        path = path_from_text(entry.path)
        attributes = self.encode_attributes(
            path,
            generation.settings
            if generation is not None
            else self.inputs.settings_for(path) or _NO_LABELS,
        )
        source = Source(
            generation, family, attributes, count=entry.count, counting=Counting(entry.counting)
        )
        # taken from the checkpoint, whatever a name made now would be (rule G2)
        source.origin = entry.origin
        source.number, source.store, source.undecided = entry.number, entry.store, entry.undecided
        if entry.resend:
            source.mark_resent()
        source.acknowledged.at_ms = entry.acknowledged
        family.members.append(source)
        self.sources[source] = entry
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

    def add_ended(self, entry: CheckpointEntry) -> None:
        """Enter a source whose end record was acknowledged."""
        self.ended[entry.origin] = entry
        family = self.incarnations_of(entry.stem)
        family.highest_ended = max(family.highest_ended, entry.count)

    def finish_source(self, source: Source, now_ms: int) -> None:
        """Take notice that the end record of *source* is stored."""
        entry = self.update_entry(source)
        entry.done = now_ms
        del self.sources[source]
        self.finished.add(source.acknowledged)
        self.incarnations_of(entry.stem).members.remove(source)
        self.add_ended(entry)
        self.changed = True

    def revive_ended(self, store: UUID, now_ms: int) -> list[Source]:
        """Return the ended sources of *store* as sources that must register again: it has stepped
        back (rule G6).
        """
        return [
            self._revived(entry, now_ms)
            for entry in list(self.ended.values())
            if entry.store == store
        ]

    def last_acknowledged(self, now_ms: int) -> list[Source]:
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

    def revive_first_run(self, now_ms: int) -> list[Source]:
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
        source = self.restore_source(entry, None, None)
        if is_closed(source.number):
            source.number -= CLOSED
        source.ended = Mark(entry.ended or REMOVED, entry.exact)
        source.add_runs([end_run(source.number, source.ended, now_ms)])
        source.must_register = True
        return source

    def encode_attributes(self, path: str, labels: Labels) -> bytes:
        """Return what an S says of a source (rule R4: it goes into every header as it is)."""
        said: dict[str, Any] = {
            "host": self.host,
            "agent": self.agent,
            "path": printable_path(path),
        }
        if labels.fields:
            said["fields"] = labels.fields
        if labels.tags:
            said["tags"] = labels.tags
        encoded = kept_json(said)
        # labels are bounded: the path is long, and escaped to be longer
        if len(encoded) > ATTRIBUTES_BYTES:
            encoded = kept_json(said | {"path": said["path"][-_LONGEST_PATH:]})
        return encoded

    # The checkpoint ------------------------------------------------------------------------------

    def update_entry(self, source: Source) -> CheckpointEntry:
        """Return the checkpoint's entry of a source as it stands now."""
        entry = self.sources[source]
        entry.origin, entry.count, entry.counting = (
            source.origin,
            source.count,
            source.counting.value,
        )
        entry.number, entry.store = source.number, source.store
        entry.undecided, entry.resend = source.undecided, source.resend
        entry.acknowledged = source.acknowledged.at_ms
        identity = self.incarnations_of(entry.stem).identity
        entry.first = (
            identity.first_line
            if identity is not None and source.counting is not Counting.KNOWN
            else None
        )
        generation = source.generation
        if generation is not None:
            entry.start, entry.seen = generation.start, generation.seen
            entry.last = generation.last_number if generation.seen > source.position else 0
            entry.modified_ns = generation.modified_ns
            if not generation.retired:
                entry.name = path_to_text(generation.place.name)
        if source.ended is not None:
            entry.ended, entry.exact = source.ended.reason, source.ended.exact
        return entry

    def checkpoint_entries(self, now_ms: int, keep_ms: int) -> list[CheckpointEntry]:
        """Return all that goes into the checkpoint; what ended more than *keep_ms* ago is
        dropped.
        """
        for entry in [
            e
            for e in self.ended.values()
            if (e.done or 0) < now_ms - keep_ms and e.ended != FIRST_RUN
        ]:
            del self.ended[entry.origin]
            if not self.incarnations[entry.stem].members:
                del self.incarnations[entry.stem]
        living = [self.update_entry(source) for source in self.sources]
        return [*living, *self.ended.values(), *self.absent.values()]
