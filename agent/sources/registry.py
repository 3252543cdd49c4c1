"""Source registry: all sources that this agent knows, living, ended and absent; and their entries
in the checkpoint.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agent.config.files import InputTable
from agent.sources.acknowledged import Acknowledged
from agent.sources.checkpoint import CheckpointEntry
from agent.sources.identity import FirstLine, Identity
from agent.sources.incarnation_search import Counting
from agent.sources.incarnations import Incarnations
from agent.sources.paths import path_from_text, path_to_text, printable_path
from agent.sources.place import FileLocation
from agent.sources.readable import Labels, LabelsByPath, Readable
from agent.sources.source import Source
from logdrive.model.limits import ATTRIBUTES_BYTES
from logdrive.model.records import compact_json
from logdrive.records.runs import FIRST_RUN, REMOVED, GapOrEndMark

_FEW = 4
"""Limit on the sources that register only to see whether the store went back (rule D9)."""
_LONGEST_PATH = 1000
"""Characters that are kept of a path which makes the attributes too long."""
_NO_LABELS = InputTable(paths=["/"])
"""Stands for the input of a file that no input names any more."""


@dataclass(slots=True)
class SourceRegistry:
    """All sources. Its fields are read-only outside of this file."""

    host: str
    """The host's name."""
    agent: str
    """The agent's id."""
    inputs: LabelsByPath
    """Labels for sources whose bytes are gone."""
    sources: dict[Source, CheckpointEntry | None] = field(default_factory=dict)
    """Living sources in the order in which they came. A source whose bytes are gone has its entry;
    that of the others is made of their generation whenever the checkpoint is written.
    """
    ended: dict[UUID, CheckpointEntry] = field(default_factory=dict)
    """Entries of sources whose end record was acknowledged, by origin id (rule G6)."""
    absent: dict[UUID, CheckpointEntry] = field(default_factory=dict)
    """Entries whose files can't be looked for now, or that no input asks for, by origin id."""
    incarnations: dict[UUID, Incarnations] = field(default_factory=dict)
    """Generations that look alike, by stem."""
    finished: Acknowledged = field(default_factory=Acknowledged)
    """Totals of the sources that have ended since the start."""
    changed: bool = False
    """Whether something that belongs into the checkpoint is not in it."""
    _after_write: list[Callable[[], None]] = field(default_factory=list)
    """What to call once the checkpoint holds all that is known now."""

    # Living sources ------------------------------------------------------------------------------

    def incarnations_of(self, stem: UUID, identity: Identity | None = None) -> Incarnations:
        """Return the generations that look alike under *stem*; their *identity*, where known."""
        incarnations = self.incarnations.setdefault(stem, Incarnations(stem, identity))
        incarnations.identity = incarnations.identity or identity
        return incarnations

    def add_generation(
        self,
        generation: Readable,
        identity: Identity,
        counting: Counting,
        *,
        closes_when_complete: bool = False,
    ) -> Source:
        """Make the source of a generation as soon as its first line is known.

        *counting* says how it comes by its count, if it is the first of those that look alike.
        *closes_when_complete*: see `Source`.
        """
        incarnations = self.incarnations_of(identity.stem, identity)
        # the count of a generation that looks alike must be known first
        if incarnations.members:
            known = incarnations.counts_known()
            counting = Counting.KNOWN if known else Counting.AFTER
        count = 0 if counting is Counting.MANY else incarnations.next_count()

        source = Source(
            generation,
            incarnations,
            None,
            count=count,
            counting=counting,
            closes_when_complete=closes_when_complete,
        )
        incarnations.add(source)
        self.sources[source] = None
        self.changed = True
        return source

    def add_source(self, source: Source, place: FileLocation, first_line: FirstLine) -> None:
        """Add a living source that has no bytes; *place* has its path."""
        self.incarnations_of(source.incarnations.stem).add(source)
        self.sources[source] = _new_entry(source, place, first_line)
        self.changed = True

    def restore_source(
        self, entry: CheckpointEntry, generation: Readable | None, identity: Identity | None
    ) -> Source:
        """Make the source of a checkpoint's *entry*; without *generation* its bytes are gone."""
        incarnations = self.incarnations_of(entry.stem, identity)
        attributes = None
        if generation is None:
            path = path_from_text(entry.path)
            labels = self.inputs.settings_for(path) or _NO_LABELS
            attributes = self.encode_attributes(path, labels)

        source = Source(
            generation,
            incarnations,
            attributes,
            count=entry.count,
            counting=Counting(entry.counting),
        )
        # most sources have count 0: share one object
        entry.origin = incarnations.stem if entry.origin == incarnations.stem else entry.origin
        source.restore(entry)
        incarnations.add(source)
        self.sources[source] = entry if generation is None else None
        return source

    def decide_starts(self, *, here_before: bool, now_ms: int) -> list[Source]:
        """Decide where files begin that wait for the store's answer; return their sources.

        At their end, or at 0 if the agent was *here before* (rule P2).
        """
        waiting = [source for source in self.sources if source.undecided]
        for source in waiting:
            source.on_start_decided(wanted=here_before, now_ms=now_ms)
            self.changed = True

        # their files may be found later, when the store is not asked any more
        for entry in [entry for entry in self.absent.values() if entry.undecided]:
            entry.undecided = False
            if here_before:
                entry.start, entry.resend = 0, True
            self.changed = True
        return waiting

    def path_of(self, source: Source) -> str:
        """Return the path that the lines of *source* are known by."""
        if source.generation is not None:
            return source.generation.place.path
        entry = self.sources[source]
        assert entry is not None
        return path_from_text(entry.path)

    def attributes_of(self, source: Source) -> bytes:
        """Return what the S frame of *source* says, as JSON.

        It changes when the source begins to send again (rule A4).
        """
        generation, attributes = source.generation, source.attributes
        if attributes is None:
            assert generation is not None
            attributes = self.encode_attributes(generation.place.path, generation.settings)
        return attributes[:-1] + b',"resend":true}' if source.resend else attributes

    def encode_attributes(self, path: str, labels: Labels) -> bytes:
        """Return what the S frame of a source says, as JSON: it is in each header (rule R4)."""
        values: dict[str, Any] = {
            "host": self.host,
            "agent": self.agent,
            "path": printable_path(path),
        }
        if labels.fields:
            values["fields"] = labels.fields
        if labels.tags:
            values["tags"] = labels.tags
        encoded = compact_json(values)
        # labels have limits of their own, so it is the path that is long, and longer escaped
        if len(encoded) > ATTRIBUTES_BYTES:
            encoded = compact_json(values | {"path": values["path"][-_LONGEST_PATH:]})
        return encoded

    # Ended and absent sources --------------------------------------------------------------------

    def finish_source(self, source: Source, now_ms: int) -> None:
        """Move a living source, whose end record is stored, to the ended ones."""
        entry = self.update_entry(source)
        entry.done = now_ms
        del self.sources[source]
        self.finished.add(source.acknowledged)
        self.incarnations_of(entry.stem).remove(source)
        self.add_ended(entry)
        self.changed = True

    def add_ended(self, entry: CheckpointEntry) -> None:
        """Add the entry of a source whose end record was acknowledged."""
        self.ended[entry.origin] = entry
        self.incarnations_of(entry.stem).on_ended(entry.count)

    def add_absent(self, entry: CheckpointEntry) -> None:
        """Add the entry of a source whose file can't be looked for now."""
        self.absent[entry.origin] = entry

    def take_absent(self) -> list[CheckpointEntry]:
        """Return all absent entries and remove them, to look for their files once more."""
        entries = list(self.absent.values())
        self.absent.clear()
        return entries

    def revive_ended(self, store: UUID, now_ms: int) -> None:
        """Make living sources of the ended ones of *store*, which has lost data (rule G6)."""
        for entry in list(self.ended.values()):
            if entry.store == store:
                self._revive(entry, now_ms)

    def last_acknowledged(self, now_ms: int) -> list[Source]:
        """Return the source that was acknowledged last, revived if it has ended (rule D9).

        A few of them, if several were acknowledged at that moment.
        """
        stored = [source for source in self.sources if source.store is not None]
        latest = max(
            [
                0,
                *(source.acknowledged.at_ms for source in stored),
                *(entry.acknowledged for entry in self.ended.values()),
            ]
        )
        living = [source for source in stored if source.acknowledged.at_ms == latest]
        ended = [entry for entry in self.ended.values() if entry.acknowledged == latest]
        few = max(0, _FEW - len(living))
        return living[:_FEW] + [self._revive(entry, now_ms) for entry in ended[:few]]

    def revive_first_run(self, now_ms: int) -> list[Source]:
        """Return the source of the agent itself, if it has ended, as a living one.

        Each store that the agent sends to must have its record.
        """
        return [
            self._revive(entry, now_ms)
            for entry in list(self.ended.values())
            if entry.ended == FIRST_RUN
        ]

    def _revive(self, entry: CheckpointEntry, now_ms: int) -> Source:
        """Return an ended source as a living one, which sends its end record if that was lost."""
        del self.ended[entry.origin]
        entry.done = None
        source = self.restore_source(entry, None, None)
        source.revive(GapOrEndMark(entry.ended or REMOVED, entry.exact), now_ms)
        return source

    # The checkpoint ------------------------------------------------------------------------------

    def mark_changed(self) -> None:
        """Let the checkpoint be written: a source, or its place, has changed."""
        self.changed = True

    def call_after_write(self, action: Callable[[], None]) -> None:
        """Call *action* once the checkpoint holds all that is known now."""
        self._after_write.append(action)

    def begin_write(self) -> list[Callable[[], None]]:
        """Note that the entries are being written; return what to call once they are durable.

        Call `on_write_failed` with that list if they are not.
        """
        actions, self._after_write = self._after_write, []
        self.changed = False
        return actions

    def on_write_failed(self, actions: list[Callable[[], None]]) -> None:
        """Keep the *actions* of `begin_write` for the next write."""
        self._after_write = actions + self._after_write
        self.changed = True

    def update_entry(self, source: Source) -> CheckpointEntry:
        """Return the checkpoint's entry of a source, as it is now."""
        entry, generation = self.sources[source], source.generation
        if entry is None:
            assert generation is not None
            assert generation.first_line is not None
            entry = _new_entry(source, generation.place, generation.first_line)
        entry.origin = source.origin
        entry.count = source.count
        entry.counting = source.counting.value
        entry.number, entry.store = source.number, source.store
        entry.undecided = source.undecided
        entry.resend = source.resend
        entry.acknowledged = source.acknowledged.at_ms

        # the first line is needed for further origin ids, where the count is not known
        identity = self.incarnations_of(entry.stem).identity
        counted = source.counting is Counting.KNOWN
        entry.first = identity.first_line if identity is not None and not counted else None

        if generation is not None:
            entry.start, entry.seen = generation.start, generation.seen
            entry.last = generation.last_number if generation.seen > source.position else 0
            entry.modified_ns = generation.modified_ns
        if source.ended is not None:
            entry.ended, entry.exact = source.ended.reason, source.ended.exact
        return entry

    def checkpoint_entries(self, now_ms: int, keep_ms: int) -> Iterator[CheckpointEntry]:
        """Yield all entries, up to date; forget what ended more than *keep_ms* ago.

        The record of the first run is kept for good.
        """
        forgotten = [
            entry
            for entry in self.ended.values()
            if (entry.done or 0) < now_ms - keep_ms and entry.ended != FIRST_RUN
        ]
        for entry in forgotten:
            del self.ended[entry.origin]
            if not self.incarnations[entry.stem].members:
                del self.incarnations[entry.stem]
        yield from map(self.update_entry, self.sources)
        yield from self.ended.values()
        yield from self.absent.values()


def _new_entry(source: Source, place: FileLocation, first_line: FirstLine) -> CheckpointEntry:
    """Return an entry that identifies *source*; `update_entry` adds what is known of it now."""
    return CheckpointEntry(
        origin=source.origin,
        stem=source.incarnations.stem,
        path=path_to_text(place.path),
        name=path_to_text(place.name),
        mount=path_to_text(place.mount),
        device=place.device,
        inode=place.inode,
        birth_ns=place.birth_ns,
        span=first_line.span,
        crc=first_line.crc,
    )
