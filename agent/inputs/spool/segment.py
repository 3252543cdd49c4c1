"""One segment of the spool: the blocks of one source, by position.

Theory of operation. A segment of the store has blocks one after the other (`blocks.py`), in the
order of their positions. What was acknowledged is freed: the segment then begins at a later block,
never after the bytes that the check of the acknowledged position is made of (rule P1). That
position is an attribute of the segment, written with each freeing, so that the spool needs no
checkpoint.

The segment's name is the input's name and the time at which the segment was made, its birth, since
a name may be used again: `pipe:/run/app.pipe@17c0…`.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import UUID

from agent.inputs.spool.blocks import (
    HEAD_BYTES,
    BlockHead,
    Senders,
    SpooledMessage,
    encode_block,
    messages_of,
    parse_head,
)
from agent.sources.readable import DueGap
from logdrive.errors import LogdriveError
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import position_of
from logdrive.model.units import KIB
from logdrive.records.runs import DAMAGED, OVERFLOW, REMOVED, GapOrEndMark
from logdrive.store.engine import SegmentInfo, Store
from logdrive.store.errors import StoreDamagedError

_ACKNOWLEDGED: Final = UUID("6b0f6c1e-0f0a-5d0e-9a59-6a0a3c1f6d01")
"""Attribute: the number that was acknowledged last when bytes were freed."""
_CLOSED: Final = UUID("6b0f6c1e-0f0a-5d0e-9a59-6a0a3c1f6d03")
"""Attribute: whether nothing is added any more."""
_WRITER: Final = UUID("6b0f6c1e-0f0a-5d0e-9a59-6a0a3c1f6d02")
"""The one writer; its number is the position after its last block."""
_MARK_BYTES: Final = 256 * KIB
"""Bytes between two places of which the position is kept in memory, and read at once at most."""
_LOST: Final = GapOrEndMark(OVERFLOW)
_FREED: Final = GapOrEndMark(REMOVED)
_DAMAGED: Final = GapOrEndMark(DAMAGED)
_AHEAD_BYTES: Final = 4 * KIB
"""Bytes read at once where only heads are looked at."""


def segment_name(name: str, birth_ns: int) -> str:
    """Return the name of the segment of the input *name* that was made at *birth_ns*."""
    return f"{name}@{birth_ns:x}"


def parse_segment_name(segment: str) -> tuple[str, int]:
    """Return the input's name and the birth in the name of a *segment*."""
    name, _, birth = segment.rpartition("@")
    return name, int(birth, 16)


class SpoolSegment:
    """The blocks of one source in the store."""

    def __init__(self, store: Store, segment: str) -> None:
        """Open a durable *segment* of *store*. Raises `StorageError` where it can't be read."""
        self._store = store
        self._segment = segment
        self.name, self.birth_ns = parse_segment_name(segment)
        # the number acknowledged when bytes were freed last
        self.acknowledged = max(0, store.attribute(segment, _ACKNOWLEDGED))

        # whether nothing is added any more
        self.closed = store.attribute(segment, _CLOSED) > 0

        # positions of some blocks, and their offsets in the segment, both ascending
        self._marks: list[tuple[int, int]] = []
        # gaps that were seen between blocks, by the position at which they begin
        self._gaps: dict[int, DueGap] = {}
        # bytes of the segment that were read last, and their offset
        self._window, self._window_at = b"", 0

        # the first and the last position: of what is kept, and after all
        self.first = self.end = position_of(self.acknowledged)
        # what the disk did not return as it was written, since it was told last
        self._damage: StoreDamagedError | None = None
        info = self._info()
        if info.start < info.length:
            self.end = store.attribute(segment, _WRITER)
            self._marks.append(self._first_mark(info.start))
            self.first = self._marks[0][0]

    def _first_mark(self, offset: int) -> tuple[int, int]:
        """Return the position of the first block, which is at *offset*, and that offset.

        Where the block is damaged, the acknowledged position stands for its own.
        """
        try:
            return self._head_at(offset).position, offset
        except StoreDamagedError:
            position, following = self._next_readable(offset)
            acknowledged = position_of(self.acknowledged)
            return (acknowledged, offset) if acknowledged < position else (position, following)

    @property
    def kept_bytes(self) -> int:
        """How many bytes of the segment are on the disk, or on their way there."""
        return self._store.submitted_length(self._segment) - self._info().start

    async def append(self, position: int, text: bytes, senders: Senders) -> None:
        """Append a block at *position*; return once it is durable.

        The caller waits for each append before the next one. Raises `TransientError` where the disk
        takes nothing now, `StorageError` where it never will.
        """
        end = position + len(text)
        length = await self._store.append(
            self._segment,
            parts := encode_block(position, text, senders),
            writer=_WRITER,
            expected=None,
            number=end,
            events=0,
        )
        offset = length - sum(map(len, parts))
        if not self._marks or offset - self._marks[-1][1] >= _MARK_BYTES:
            self._marks.append((position, offset))
        if position > self.end:
            self._gaps[self.end] = DueGap(position, _LOST)
        self.end = end

    # Reading -------------------------------------------------------------------------------------

    def read_text(self, position: int, limit: int) -> bytes:
        """Return up to *limit* bytes of text from *position* on, b"" if none follows there.

        Less, if a gap follows: what is damaged is one. Raises `StorageError`.
        """
        parts, wanted = list[bytes](), limit
        with self._reading():
            for head, offset in self._blocks_from(position, ahead=limit):
                if head.position > position or not wanted:
                    break  # a gap follows, or there is enough
                skip = position - head.position
                size = min(head.text - skip, wanted)
                at = offset + HEAD_BYTES + head.senders + skip
                parts.append(self._bytes(at, size, ahead=wanted))
                position += size
                wanted -= size
        return b"".join(parts)

    def read_before(self, position: int) -> bytes:
        """Return the up to 256 bytes of text before *position*, fewer behind a gap."""
        start, text = max(self.first, position - TAIL_BYTES), b""
        with self._reading():
            for head, offset in self._blocks_from(start, ahead=_AHEAD_BYTES):
                if head.position >= position:
                    break
                # what lies before a gap is not before the position
                if head.position > start:
                    start, text = head.position, b""
                size = min(head.end, position) - start
                at = offset + HEAD_BYTES + head.senders + start - head.position
                text += self._bytes(at, size, ahead=size)
                start += size
        return text if start == position else b""

    def gap_at(self, position: int) -> DueGap | None:
        """Return the gap that begins at *position*, None if none is known to.

        It is known once the text before it was read, or `find_gap` was called. Costs no read.
        """
        if position < self.first:
            return DueGap(max(self.first, position_of(self.acknowledged)), _FREED)
        return self._gaps.get(position)

    def find_gap(self, position: int) -> None:
        """Look whether a gap begins at *position*, where reading is to go on."""
        with self._reading():
            for head, _ in self._blocks_from(position, ahead=_AHEAD_BYTES):
                if head.position > position >= self.first:
                    self._gaps.setdefault(position, DueGap(head.position, _LOST))
                return

    def take_damage(self) -> StoreDamagedError | None:
        """Return what was found damaged since the last call, if anything was."""
        damage, self._damage = self._damage, None
        return damage

    def has_damage_before(self, position: int) -> bool:
        """Return whether bytes shortly before *position* are known to be damaged."""
        return any(
            gap.mark is _DAMAGED and begin < position <= gap.end + TAIL_BYTES
            for begin, gap in self._gaps.items()
        )

    def _skip_damaged(self, offset: int, begin: int) -> tuple[int, int]:
        """Make a gap, from the position *begin* on, of the block at *offset* and of those behind it
        that the disk does not return as written; return the position and the offset of the next.
        """
        position, following = self._next_readable(offset)
        if position > begin:
            self._gaps.setdefault(begin, DueGap(position, _DAMAGED))
        # reading goes on there
        place = self._place_of(following)
        if self._marks[place - 1][1] != following:
            self._marks.insert(place, (position, following))
        return position, following

    def _next_readable(self, offset: int) -> tuple[int, int]:
        """Return the position and the offset of the first block from *offset* on that is not
        damaged; those of the end, if there is none.
        """
        for extent in self._store.extents(self._segment, offset):
            try:
                return self._head_at(extent.offset).position, extent.offset
            except StoreDamagedError as error:
                self._damage = error
        return self.end, self._info().length

    def messages(self, start: int, end: int) -> Iterator[SpooledMessage]:
        """Yield the messages that lie in [start, end). Use the iterator up at once."""
        with self._reading():
            for head, offset in self._blocks_from(start, ahead=end - start):
                if head.position >= end:
                    return
                described = self._bytes(offset + HEAD_BYTES, head.senders, ahead=end - start)
                for message in messages_of(head, described):
                    if message.end > end:
                        return
                    if message.start >= start:
                        yield message

    def _blocks_from(self, position: int, *, ahead: int) -> Iterator[tuple[BlockHead, int]]:
        """Yield the heads of the blocks that end after *position*, with their offsets.

        *ahead* bytes are read at once. Damaged blocks are left out, and become gaps.
        """
        if not self._marks:
            return
        (end, offset), length = self._mark_before(position), self._info().length
        while offset < length:
            try:
                head = parse_head(self._bytes(offset, HEAD_BYTES, ahead=ahead), 0)
            except StoreDamagedError:
                end, offset = self._skip_damaged(offset, max(end, position))
                continue
            self._remember(head, offset)
            if end < head.position:
                self._gaps.setdefault(end, DueGap(head.position, _LOST))
            if head.end > position:
                yield head, offset
            offset, end = offset + head.size, head.end

    def _head_at(self, offset: int) -> BlockHead:
        return parse_head(self._store.read(self._segment, offset, HEAD_BYTES), 0)

    def _bytes(self, offset: int, size: int, *, ahead: int) -> bytes:
        """Return *size* bytes at *offset*; *ahead* bytes are read if these were not."""
        at = offset - self._window_at
        if at < 0 or at + size > len(self._window):
            wanted = max(size, min(ahead, _MARK_BYTES))
            try:
                self._window = self._store.read(self._segment, offset, wanted)
            except StoreDamagedError:
                # perhaps only of what is ahead
                self._window = self._store.read(self._segment, offset, size)
            self._window_at, at = offset, 0
        return self._window[at : at + size]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Drop what was read ahead at the end."""
        try:
            yield
        finally:
            self._window = b""

    def _remember(self, head: BlockHead, offset: int) -> None:
        """Note where a block is, if the places noted are far from it: a restart knows the first."""
        place = self._place_of(offset)
        if offset - self._marks[place - 1][1] >= _MARK_BYTES:
            self._marks.insert(place, (head.position, offset))

    def _mark_before(self, position: int) -> tuple[int, int]:
        """Return where a block begins, at or before *position* if any does, and its offset."""
        place = bisect_right(self._marks, position, key=lambda mark: mark[0]) - 1
        return self._marks[max(0, place)]

    def _place_of(self, offset: int) -> int:
        return bisect_right(self._marks, offset, key=lambda mark: mark[1])

    def _info(self) -> SegmentInfo:
        info = self._store.info(self._segment)
        assert info is not None, "it is deleted last"
        return info

    # Freeing -------------------------------------------------------------------------------------

    def free_acknowledged(self, number: int) -> None:
        """Let the store free what *number* acknowledges; it is durable some time after."""
        if number <= self.acknowledged:
            return
        _forget(self._store.update(self._segment, _ACKNOWLEDGED, None, number))
        self.acknowledged = number

        # the block with the first byte that the check of the position is made of is kept
        keep = max(self.first, position_of(number) - TAIL_BYTES)
        with self._reading():
            head, offset = next(self._blocks_from(keep, ahead=_AHEAD_BYTES), (None, 0))
        if head is not None and self.first < head.position <= position_of(number):
            _forget(self._store.truncate(self._segment, offset))
            self.first = head.position
            self._marks = [(head.position, offset), *(m for m in self._marks if m[1] > offset)]
            self._gaps = {at: end for at, end in self._gaps.items() if at >= self.first}

    def close(self) -> None:
        """Note that nothing is added any more."""
        self.closed = True
        _forget(self._store.update(self._segment, _CLOSED, None, 1))

    def delete(self) -> None:
        """Let the store delete the segment, which is not used again.

        A store that can't deletes it after the next start.
        """
        with suppress(LogdriveError):
            _forget(self._store.delete(self._segment))


def _forget(change: "asyncio.Future[Any]") -> None:
    """Let *change* fail unseen, as on a full disk: the next one of its kind does its work, too."""
    change.add_done_callback(lambda done: done.cancelled() or done.exception())


async def make_segment(store: Store, name: str, birth_ns: int) -> SpoolSegment:
    """Create the segment of the input *name*, durably. Raises what `Store.create` does."""
    segment = segment_name(name, birth_ns)
    await store.create(segment)
    return SpoolSegment(store, segment)
