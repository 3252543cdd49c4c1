"""The bytes of one spooled source: the agent's `Readable` over a segment of the spool."""

import errno
from typing import ClassVar, Final

from agent.config.events import EventsTable
from agent.events.cutter import EventCutter
from agent.events.cutting.make import make_cutter
from agent.inputs.spool.message_cutter import SpoolCutter
from agent.inputs.spool.segment import SpoolSegment
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.identity import FirstLine, Identity
from agent.sources.paths import path_to_text
from agent.sources.place import FileLocation
from agent.sources.readable import DueGap, InputKind
from logdrive.model.numbers import check_in, check_of, number_of, position_of
from logdrive.records.chunk import TextChunk
from logdrive.store.errors import StoreDamagedError

MOUNT: Final = "spool"
"""Stands for a mount point in the identity of a spooled source (rule G2)."""


class SpooledStream:
    """One spooled source. `SpoolInput` calls `on_grown`, `release_last_line` and `end_input`."""

    input_kind: ClassVar = InputKind.SPOOL
    """The input that restores its source after a restart."""

    is_unique: ClassVar = False
    """Whether what a store has under its origin id is surely its own."""

    def __init__(self, segment: SpoolSegment, settings: EventsTable, *, messages: bool) -> None:
        """Read the blocks of *segment*, which has *messages* if not lines."""
        self.segment = segment
        self.settings = settings
        self.place = FileLocation(segment.name, segment.name, MOUNT, 0, 0, segment.birth_ns)
        self.first_line: FirstLine | None = FirstLine(segment.name.encode(), 0, 0)
        # says where events end
        self.cutter: EventCutter = SpoolCutter(segment) if messages else make_cutter(settings)
        self.start = 0
        self.position = 0  # after the last byte read
        self.seen = segment.end  # the end of what is durable
        self.grown_at = 0.0  # when it grew last (monotonic, s)
        self.modified_ns = 0
        self.prefix = b""  # there are no copies of it
        self.ended = segment.closed  # whether nothing is added to it any more
        self.retired = False
        self._final = segment.closed  # whether a last line without newline is read
        self._more = True  # whether there may be whole lines between position and seen
        self._rested = -1  # the end at which a last event of whole lines was released
        self._in_line = False  # whether the position is in the middle of a line

    def identify(self, agent: str, host: str) -> Identity:
        """Return what its origin id is made of: the input's name, and the spool's birth."""
        return Identity(agent, host, MOUNT, 0, self.segment.birth_ns, self.segment.name.encode())

    @property
    def is_free(self) -> bool:
        """Whether all of it is acknowledged, as far as the spool knows."""
        return position_of(self.segment.acknowledged) >= self.segment.end

    def make_entry(self, identity: Identity) -> CheckpointEntry:
        """Return the entry that a checkpoint would have of it, for a start without one."""
        name = path_to_text(self.place.path)
        return CheckpointEntry(
            origin=identity.stem,
            stem=identity.stem,
            input=self.input_kind.value,
            path=name,
            name=name,
            mount=MOUNT,
            device=0,
            inode=0,
            birth_ns=self.segment.birth_ns,
            span=0,
            crc=0,
        )

    # What the input says of it -------------------------------------------------------------------

    def on_grown(self, now: float) -> None:
        """Note at *now* (monotonic, s) that the segment has grown."""
        self.seen, self.grown_at, self._more, self._final = self.segment.end, now, True, self.ended

    def release_last_line(self) -> None:
        """Let `read_lines` return a last line without newline, until more comes (rule P3)."""
        self._final = True

    def release_last_event(self) -> None:
        """Let `read_lines` return a last event of whole lines, until more comes (rule P3)."""
        if self._rested != self.seen:
            self._rested, self._more = self.seen, True

    def end_input(self) -> None:
        """Note that nothing is added any more."""
        self.ended = self._final = True
        self.segment.close()

    # `Readable` ----------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """Bytes that are durable and not read, those of gaps included."""
        return max(0, self.seen - self.position)

    @property
    def has_lines(self) -> bool:
        """Whether `read_lines` may return lines."""
        return self.seen > self.position and (self._more or self._final)

    @property
    def last_number(self) -> int:
        """No number beyond the position: the spool needs none to be known again."""
        return 0

    def gap_at(self, position: int) -> DueGap | None:
        """Return the gap that begins at *position*: lost before it was kept, damaged, or freed."""
        return self.segment.gap_at(position)

    def set_start(self, position: int) -> None:
        """Do nothing: a spool is read from its beginning."""

    def resume_from(self, number: int) -> None:
        """Go on from the position of *number*."""
        self.position, self._more, self._in_line = position_of(number), True, False
        self.segment.find_gap(self.position)

    def matches_number(self, number: int) -> bool:
        """Return whether a stored *number* can be this source's (rule D4).

        What lies before the first byte that is kept, and what is damaged, can't be compared, and
        contradicts nothing.
        """
        position, check = position_of(number), check_in(number)
        if position > self.seen:
            return False
        if position < self.segment.first or not check:
            return True
        before = self._read_before(position)
        return check_of(before) == check or self.segment.has_damage_before(position)

    def number_at(self, position: int) -> int:
        """Return the number of *position*."""
        return number_of(position, self._read_before(position))

    def read_head(self, size: int) -> bytes:
        """Return its first *size* bytes; none once they were freed.

        Raises OSError for what the disk does not return.
        """
        if self.segment.first:
            return b""
        try:
            return self.segment.read_text(0, size)
        except StoreDamagedError as error:
            raise OSError(errno.EIO, str(error)) from error

    def read_lines(self, now: float, *, limit: int, longest: int) -> TextChunk | None:
        """Return the next lines or messages, None without any; see `Readable`.

        What the disk does not return is a gap. Raises OSError where it returned it just now.
        """
        try:
            chunk = self._read_chunk(limit)
            if chunk.open_end and longest > limit:
                chunk = self._read_chunk(longest)
        except StoreDamagedError as error:
            raise OSError(errno.EIO, str(error)) from error
        if chunk.end == chunk.begin:
            return None
        self.position += chunk.end - chunk.begin
        self._in_line = chunk.open_end
        return chunk

    def _read_chunk(self, limit: int) -> TextChunk:
        before = self.segment.read_before(self.position)
        text = self.segment.read_text(self.position, limit)
        reached = self.position + len(text)
        self._more = whole = len(text) == limit
        # a line that a gap interrupts has no other end
        final = self._final or self.segment.gap_at(reached) is not None
        data, begin = before + text, len(before)
        end, open_end = self.cutter.end_of_events(
            data,
            begin,
            whole=whole,
            final=final,
            settled=self._rested == self.seen,
            position=self.position,
            in_line=self._in_line,
        )
        return TextChunk(self.position, data, begin, end, open_end, self._in_line)

    def _read_before(self, position: int) -> bytes:
        try:
            return self.segment.read_before(position)
        except StoreDamagedError as error:
            raise OSError(errno.EIO, str(error)) from error

    def give_back(self, chunk: TextChunk, position: int) -> None:
        """Move back to *position* in *chunk*, the last one read: what follows is read again."""
        self.position, self._more = position, True
        self._in_line = chunk.in_line and position == chunk.start

    def retire(self) -> None:
        """Note that nothing is read of it any more: `SpoolInput` deletes the segment."""
        self.retired = True
