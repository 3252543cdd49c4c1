"""Source registry: all sources that this agent knows, living, ended and absent; and their entries
in the checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from agent.config.files import InputTable
from agent.sources.acknowledged import Acknowledged
from agent.sources.attributes import encode_attributes
from agent.sources.checkpoint.entry import CheckpointEntry, CopyStamp
from agent.sources.first_lines import FirstLines
from agent.sources.identity import FirstLine, Identity
from agent.sources.incarnation_search import Counting
from agent.sources.incarnations import Incarnations
from agent.sources.input_totals import InputTotals
from agent.sources.paths import path_from_text
from agent.sources.place import FileLocation
from agent.sources.readable import InputKind, Labels, LabelsByPath, Readable
from agent.sources.source import Source
from agent.sources.source_entry import make_entry, update_entry
from logdrive.records.runs import FIRST_RUN, FORGOTTEN, REMOVED, GapOrEndMark

_FEW = 4
"""Limit on the sources that register only to see whether the store went back (rule D9)."""
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
    first_lines: FirstLines = field(default_factory=FirstLines)
    """Living and ended sources by their first line."""
    copies: dict[CopyStamp, None] = field(default_factory=dict)
    """Files that are copies with nothing left to read (rule G5)."""
    uncounted: bool = False
    """Whether files that a start without a checkpoint found have no source yet: only the store
    knows which counts of them exist (rule G3).
    """
    scanned_ms: int = 0
    """When the last scan for files began after which none waited to be surveyed, in ms since the
    epoch; 0 where that is not known.
    """
    forgotten: set[UUID] = field(default_factory=set)
    """Stems of sources that an operator gave up: if such a file comes back, it is sent again, and
    says so (rule A4).
    """
    finished: Acknowledged = field(default_factory=Acknowledged)
    """Totals of the sources that have ended since the start."""
    finished_by_input: dict[int, InputTotals] = field(default_factory=dict)
    """The same by the identity of their input's table; 0 for those whose bytes were gone."""
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
        siblings: Sequence[tuple[str, Identity]] = (),
    ) -> Source:
        """Make the source of a generation as soon as its first line is known.

        *counting* says how it comes by its count, if it is the first of those that look alike.
        *closes_when_complete*: see `Source`. *siblings* are paths and identities of files that
        it may be a copy of, where only the store can tell (rule G5).
        """
        stem = identity.stem
        incarnations = self.incarnations_of(stem, identity)
        if counting is Counting.AFTER:
            # others that look alike may have come and gone since the checkpoint was written
            counting = Counting.AFTER if incarnations.next_count() else Counting.KNOWN
        elif incarnations.members:
            # the count of a generation that looks alike must be known first
            known = incarnations.counts_known()
            counting = Counting.KNOWN if known else Counting.NEXT
        count = 0 if counting is Counting.MANY else incarnations.next_count()

        source = Source(
            generation,
            incarnations,
            None,
            count=count,
            counting=counting,
            closes_when_complete=closes_when_complete,
        )
        self.search_siblings(source, siblings)
        if stem in self.forgotten:
            source.mark_resent()
        incarnations.add(source)
        self.sources[source] = None
        if generation.first_line is not None:
            self.first_lines.add(generation.first_line.crc, source)
        self.changed = True
        return source

    def add_source(self, source: Source, place: FileLocation, first_line: FirstLine) -> None:
        """Add a living source that has no bytes; *place* has its path."""
        self.incarnations_of(source.incarnations.stem).add(source)
        self.sources[source] = make_entry(source, place, first_line)
        self.changed = True

    def search_siblings(self, source: Source, siblings: Sequence[tuple[str, Identity]]) -> None:
        """Let *source* be asked for under the ids of *siblings*, too: it may be a copy (G5)."""
        if siblings:
            source.search_siblings(
                [(path, self.incarnations_of(one.stem, one)) for path, one in siblings]
            )

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
        self.first_lines.add(entry.crc, source)
        return source

    def start_of(self, source: Source) -> int:
        """Return the position from which bytes of a living source are wanted."""
        entry = self.sources[source]
        return self.update_entry(source).start if entry is None else entry.start

    def keep_entry(self, source: Source) -> None:
        """Keep the entry of *source* as it is now: its file is gone, its rest may be in a copy."""
        self.sources[source] = self.update_entry(source)

    def drop_entry(self, source: Source) -> None:
        """Make the entry of *source* of its generation again: it lives on in another file."""
        self.sources[source] = None

    def decide_starts(self, *, here_before: bool, now_ms: int) -> list[Source]:
        """Decide where files begin that wait for the store's answer; return their sources.

        At their end, or at 0 if the agent was *here before* (rule P2).
        """
        waiting = [source for source in self.sources if source.undecided]
        for source in waiting:
            source.on_start_decided(wanted=here_before, now_ms=now_ms)
            entry = self.sources[source]
            if here_before and entry is not None:
                entry.start = 0
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
        """Return what the S frame of a source at *path* with *labels* says, as JSON."""
        return encode_attributes(self.host, self.agent, path, labels)

    # Ended and absent sources --------------------------------------------------------------------

    def set_aside(self, source: Source) -> None:
        """Keep only the entry of a living source that no input asks for any more.

        None of its runs may be in flight. What was acknowledged is in the entry.
        """
        entry = self.update_entry(source)
        del self.sources[source]
        self.first_lines.remove(entry.crc, source)
        self._count_finished(source)
        self.incarnations_of(entry.stem).remove(source)
        self.add_absent(entry)
        self.changed = True

    def finish_source(self, source: Source, now_ms: int) -> None:
        """Move a living source, whose end record is stored, to the ended ones."""
        entry = self.update_entry(source)
        entry.done = now_ms
        del self.sources[source]
        self.first_lines.remove(entry.crc, source)
        self._count_finished(source)
        self.incarnations_of(entry.stem).remove(source)
        self.add_ended(entry)
        self.changed = True

    def _count_finished(self, source: Source) -> None:
        """Add what was acknowledged of *source*, which leaves the living ones, to the totals."""
        self.finished.add(source.acknowledged)
        table = id(source.generation.settings) if source.generation is not None else 0
        self.finished_by_input.setdefault(table, InputTotals()).add_source(source)

    def add_ended(self, entry: CheckpointEntry) -> None:
        """Add the entry of a source whose end record was acknowledged."""
        self.ended[entry.origin] = entry
        self.first_lines.add(entry.crc, entry)
        self.incarnations_of(entry.stem).on_ended(entry.count)
        if entry.ended == FORGOTTEN:
            self.forgotten.add(entry.stem)

    def add_absent(self, entry: CheckpointEntry, *, wanted: bool = False) -> None:
        """Add the entry of a source whose file can't be looked for now, or is not *wanted*."""
        self.absent[entry.origin] = entry
        if wanted:
            self.first_lines.add(entry.crc, entry)

    def take_absent(self, kind: InputKind) -> list[CheckpointEntry]:
        """Return the absent entries of one *kind* and remove them, to look for them once more."""
        entries = [entry for entry in self.absent.values() if entry.input == kind.value]
        for entry in entries:
            del self.absent[entry.origin]
            self.first_lines.remove(entry.crc, entry)
        return entries

    def take_forgotten(self, origin: UUID) -> CheckpointEntry:
        """Return the absent entry *origin* and remove it: an operator gives it up."""
        entry = self.absent.pop(origin)
        self.first_lines.remove(entry.crc, entry)
        self.forgotten.add(entry.stem)
        self.changed = True
        return entry

    def drop_ended(self, origin: UUID) -> None:
        """Forget an ended entry before its time."""
        entry = self.ended.pop(origin)
        self.first_lines.remove(entry.crc, entry)
        if not self.incarnations[entry.stem].members:
            del self.incarnations[entry.stem]
        self.changed = True

    def revive_ended(self, store: UUID, now_ms: int) -> None:
        """Make living sources of the ended ones of *store*, which has lost data (rule G6)."""
        for entry in list(self.ended.values()):
            if entry.store == store:
                self._revive(entry, now_ms)

    def last_acknowledged(self, sources: Iterable[Source], now_ms: int) -> list[Source]:
        """Return the source that was acknowledged last, revived if it has ended (rule D9).

        Of the living ones, it is one of *sources*, those of one connection. A few are returned, if
        several were acknowledged at that moment.
        """
        stored = [source for source in sources if source.store is not None]
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
        self.first_lines.remove(entry.crc, entry)
        entry.done = None
        source = self.restore_source(entry, None, None)
        source.revive(GapOrEndMark(entry.ended or REMOVED, entry.exact), now_ms)
        return source

    def set_uncounted(self, uncounted: bool) -> None:
        """Note whether counts of files without a source are unknown."""
        self.uncounted = uncounted
        self.changed = True

    def note_scan(self, began_ms: int) -> None:
        """Note that all files were looked at that were there at *began_ms*."""
        self.scanned_ms = began_ms

    def restore_copies(self, copies: Iterable[CopyStamp]) -> None:
        """Take over the copies of a checkpoint."""
        self.copies.update(dict.fromkeys(copies))

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
            entry = make_entry(source, generation.place, generation.first_line)
            entry.input = generation.input_kind.value
        update_entry(entry, source)
        # the first line is needed for further origin ids, where the count is not known
        identity = self.incarnations_of(entry.stem).identity
        counted = entry.counting == Counting.KNOWN.value
        entry.first = identity.first_line if identity is not None and not counted else None
        return entry

    def checkpoint_entries(self, now_ms: int, keep_ms: int) -> Iterator[CheckpointEntry]:
        """Yield all entries, up to date; forget what ended more than *keep_ms* ago.

        The record of the first run is kept for good.
        """
        outdated = [
            entry
            for entry in self.ended.values()
            if (entry.done or 0) < now_ms - keep_ms and entry.ended != FIRST_RUN
        ]
        for entry in outdated:
            self.drop_ended(entry.origin)
        yield from map(self.update_entry, self.sources)
        yield from self.ended.values()
        yield from self.absent.values()
