"""The entries of one boot: the agent's `Readable` for the journal.

Positions are sequence numbers: the entry with the number n is the event [n, n + 1). The number of a
position has no check bits: ids of boot and numbers are random, so no other entries have them.

Entries are kept from the acknowledged one on, as far as there is room, so that what a lost
connection gave up is sent again without reading the journal again. Where they are not kept, the
journal is read again from there (`wants`).
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import ClassVar, Final

from agent.config.events import EventsTable
from agent.events.cutter import EventCutter
from agent.events.event import Event
from agent.inputs.journald.entries import BootId, JournalEntry, event_of
from agent.sources.identity import FirstLine, Identity
from agent.sources.place import FileLocation
from agent.sources.readable import DueGap, InputKind
from logdrive.model.numbers import number_of, position_of
from logdrive.records.chunk import TextChunk
from logdrive.records.runs import NOT_WANTED, VACUUMED, GapOrEndMark

MOUNT: Final = "journald"
"""Stands for a mount point in the identity of a boot (rule G2)."""
_BEFORE: Final = GapOrEndMark(NOT_WANTED)
_MISSING: Final = GapOrEndMark(VACUUMED)


@dataclass(frozen=True, slots=True)
class EntryChunk(TextChunk):
    """Consecutive entries. Offsets in `data`, which is empty, count entries, too."""

    entries: tuple[JournalEntry, ...] = field(default=())
    """The entries."""

    def tail_at(self, position: int) -> bytes:
        """Return nothing: entries are not checked by their bytes."""
        return b""

    def number_at(self, position: int) -> int:
        """Return the number of *position*."""
        return number_of(position, None)


class EntryCutter:
    """Makes an event of each entry."""

    def end_of_events(
        self,
        data: bytes,
        begin: int,
        *,
        whole: bool,
        final: bool,
        settled: bool = False,
        position: int = 0,
        in_line: bool = False,
    ) -> tuple[int, bool]:
        """Return the end of *data*: entries are whole."""
        return len(data), False

    def has_line_end(self, data: bytes, position: int) -> bool:
        """Return True: entries are whole."""
        return True

    def cut_events(self, chunk: TextChunk, most: int) -> list[Event]:
        """Return the events of the first *most* entries."""
        assert isinstance(chunk, EntryChunk)
        return [event_of(entry) for entry in chunk.entries[:most]]


ENTRIES: Final[EventCutter] = EntryCutter()


class JournalBoot:
    """One source of the journal. `JournalInput` adds its entries."""

    input_kind: ClassVar = InputKind.JOURNALD
    """The input that restores its source after a restart."""

    is_unique: ClassVar = True
    """Whether what a store has under its origin id is surely its own."""

    def __init__(self, boot: BootId, settings: EventsTable, *, start: int = 0) -> None:
        """Make the source of *boot*; *start* is the number of its first entry, 0 if not known."""
        self.boot = boot
        self.settings = settings
        self.start = start
        # the name has what a restart needs
        path, name = f"journald:{boot.boot}", f"{boot.boot}/{boot.sequence}"
        self.place = FileLocation(path, name, MOUNT, 0, 0, 0)
        self.first_line: FirstLine | None = FirstLine(name.encode(), 0, 0)
        self.cutter = ENTRIES
        self.position = 0  # after the last entry read
        self.seen = start  # after the last entry that is known
        self.modified_ns = 0
        self.prefix = b""  # there are no copies of it
        self.retired = False
        self.heard_at = 0.0  # when its last entry came (monotonic, s)
        self.passed = False  # whether the journal was read beyond it
        self.kept_bytes = 0  # memory of the entries kept, about
        self.rewound = False  # whether the journal is to be read again, from `wants` on
        self._reached = 0  # after the last entry that was added
        self._entries: list[JournalEntry] = []  # in order; there may be holes

    def identify(self, agent: str, host: str) -> Identity:
        """Return what its origin id is made of: the boot, and the numbers' id."""
        return Identity(agent, host, MOUNT, 0, 0, self.place.name.encode())

    # What the input does with it -----------------------------------------------------------------

    def add_entry(self, entry: JournalEntry, now: float) -> None:
        """Add the next entry, which came at *now* (monotonic, s).

        One that is known already, or not wanted any more, is left out.
        """
        end, self.heard_at = entry.number + 1, now
        self._reached = max(self._reached, end)
        known = self._entries[-1].number + 1 if self._entries else self.position
        if end <= max(known, self.start):
            return
        self._entries.append(entry)
        self.kept_bytes += entry.size
        self.seen = max(self.seen, end)

    def drop_acknowledged(self, position: int) -> None:
        """Forget the entries before the acknowledged *position*."""
        count = self._index(min(position, self.position))
        self.kept_bytes -= sum(entry.size for entry in self._entries[:count])
        del self._entries[:count]

    @property
    def wants(self) -> int:
        """The number of the last entry that is not wanted: the journal is to be read from there."""
        last = self._entries[-1].number if self._entries else self.position - 1
        return max(0, last, self.start - 1)

    # `Readable` ----------------------------------------------------------------------------------

    def _index(self, position: int) -> int:
        return bisect_left(self._entries, position, key=lambda entry: entry.number)

    @property
    def unread(self) -> int:
        """Numbers that are known and not read, missing ones included."""
        return max(0, self.seen - self.position)

    @property
    def has_lines(self) -> bool:
        """Whether `read_lines` may return entries."""
        return bool(self._entries) and self._entries[-1].number >= self.position

    @property
    def last_number(self) -> int:
        """No number beyond the position."""
        return 0

    def gap_at(self, position: int) -> DueGap | None:
        """Return the gap at *position*: what is before the first entry, or the journal lacks."""
        if position == 0 < self.start:
            return DueGap(self.start, _BEFORE)
        index = self._index(position)
        if index < len(self._entries):
            number = self._entries[index].number
            # entries before the ones that are kept are read again
            is_next = index > 0 or position == self.position
            return DueGap(number, _MISSING) if number > position and is_next else None
        return DueGap(self.seen, _MISSING) if self.passed and position < self.seen else None

    def set_start(self, position: int) -> None:
        """Do nothing: what is before the first entry is no entry of this boot."""

    def resume_from(self, number: int) -> None:
        """Go on from the position of *number*."""
        self.position = position_of(number)
        self.seen = max(self.seen, self.position)
        wanted = max(self.position, self.start)
        if wanted < self._reached and not (self._entries and self._entries[0].number <= wanted):
            # what is kept would look as if entries were missing before it
            self._entries.clear()
            self.kept_bytes, self.rewound = 0, True

    def matches_number(self, number: int) -> bool:
        """Return True: positions of this boot are never another's."""
        return True

    def number_at(self, position: int) -> int:
        """Return the number of *position*."""
        return number_of(position, None)

    def read_head(self, size: int) -> bytes:
        """Return nothing: entries say themselves what they are."""
        return b""

    def read_lines(self, now: float, *, limit: int, longest: int) -> TextChunk | None:
        """Return the next entries, about *limit* bytes of them, up to a gap; None without any."""
        entries, size, start = list[JournalEntry](), 0, self.position
        for index in range(self._index(start), len(self._entries)):
            entry = self._entries[index]
            if size >= limit or entry.number != self.position:
                break
            entries.append(entry)
            size += entry.size
            self.position += 1
        if not entries:
            return None
        return EntryChunk(start, b"", 0, self.position - start, entries=tuple(entries))

    def give_back(self, chunk: TextChunk, position: int) -> None:
        """Move back to *position* in *chunk*."""
        self.position = position

    def retire(self) -> None:
        """Forget the entries: nothing is read any more."""
        self.retired = True
        self._entries.clear()
        self.kept_bytes = 0
