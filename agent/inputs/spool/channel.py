"""The way into the spool of one input: from what a reader read to blocks that are durable.

Theory of operation. Readers hand over what they read, and one task, `run`, appends it: as much in
one block as came while the block before was on its way to the disk. A reader that can wait calls
`append`, which returns once the bytes are durable; it reads on only then, so that a full spool, or
a slow disk, makes the program at the other end wait. Datagrams can't wait: `offer` drops them where
there is no room, and what was dropped is a gap in the source (rule P4), once there is room again.

A disk that is full is tried again; one that failed to sync ends the agent (`StorageError`).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from agent.config.spooled import SpooledTable
from agent.inputs.spool.blocks import Senders
from agent.inputs.spool.lost import FULL, NOT_READ, NOT_WRITTEN, LostMessages
from agent.inputs.spool.stream import SpooledStream
from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.model.units import MIB

_BLOCK_TEXT: Final = 1 * MIB
"""Bytes of text that are enough for a block."""
_QUEUE_BYTES: Final = 1 * MIB
"""Bytes that wait for the disk before readers wait, too."""
_MOST_QUEUED: Final = 8 * MIB
"""Bytes that wait for the disk before datagrams are dropped."""
_MESSAGE_COST: Final = 64
"""Bytes that a message or a block takes besides its text, about."""
_LEAST_MESSAGE: Final = 2
"""Bytes that a message has at least, with its newline."""
_LOOK_SECONDS: Final = 0.1
"""A full spool is looked at this often."""
_RETRY_SECONDS: Final = 1.0
"""Pause after the disk took nothing."""
_WARN_SECONDS: Final = 60.0
"""Seconds between two warnings of one kind."""
STREAM_BYTES: Final = 1 << 45
"""Bytes after which an input goes on as another source: positions have an end (rule P1)."""


@dataclass(slots=True)
class _Piece:
    """What waits to be appended: text, or the bytes that were lost in its place."""

    text: bytes = b""
    senders: Senders = field(default_factory=list)
    lost: int = 0
    done: "asyncio.Future[None] | None" = None

    @property
    def size(self) -> int:
        return len(self.text) + _MESSAGE_COST * (1 + sum(len(sizes) for _, sizes in self.senders))


class SpoolChannel:
    """What one input's readers append to."""

    def __init__(
        self,
        key: str,
        table: SpooledTable,
        make_stream: Callable[[SpooledTable], Awaitable[SpooledStream]],
        on_grown: Callable[[SpooledStream], None],
        on_ended: Callable[[SpooledStream], None],
        *,
        has_room: Callable[[int], bool],
        clock: Clock,
        log: Any,
    ) -> None:
        """Make a stream with the first bytes of *table*, whose key in the file is *key*.

        *on_grown* is called after each block, *on_ended* for a stream to which nothing is added any
        more. *has_room* says whether the disk has room for so many bytes.
        """
        self.key = key
        self.table = table
        self.stream: SpooledStream | None = None  # the one that is appended to
        self._former: list[SpooledStream] = []  # those that were, and are not all sent
        self._make_stream = make_stream
        self._on_grown = on_grown
        self._on_ended = on_ended
        self._has_room = has_room
        self._clock = clock
        self._log = log
        self._losses = LostMessages(table.name, clock, log)
        self._queue: deque[_Piece] = deque()
        self._queued = 0  # bytes in the queue, with the cost of each message
        self._lost = 0  # bytes lost behind what is queued
        self._skip = 0  # bytes lost behind the last block
        self._is_ending = False  # whether readers were stopped
        self._warned_at = dict[str, float]()  # by what was warned of (monotonic, s)
        self._wake = asyncio.Event()  # something is queued
        self._taken = asyncio.Event()  # something left the queue
        self._idle = asyncio.Event()  # nothing is queued, or on its way to the disk
        self._idle.set()

    def add_former(self, stream: SpooledStream) -> None:
        """Note a *stream* of an earlier process, which takes of the room, too, until it is sent."""
        self._former.append(stream)

    # Readers -------------------------------------------------------------------------------------

    async def append(self, text: bytes, senders: Senders) -> None:
        """Append *text*, whole lines or not; return once it is durable.

        *senders* says where messages end, [] for lines.
        """
        while self._queued > _QUEUE_BYTES:
            self._taken.clear()
            await self._taken.wait()
        done = asyncio.get_running_loop().create_future()
        self._add(_Piece(text, senders, done=done))
        await done

    def offer(self, text: bytes, senders: Senders) -> None:
        """Append messages if there is room, else drop them: they are lost."""
        piece = _Piece(text, senders)
        if self._has_room_for(piece):
            self._note_lost()
            self._add(piece)
            return
        self._lost += len(text)
        cause = NOT_WRITTEN if self._queued + piece.size > _MOST_QUEUED else FULL
        self._losses.count(cause, sum(len(sizes) for _, sizes in senders), len(text))

    def note_dropped(self, messages: int) -> None:
        """Note *messages* that the kernel dropped: a gap, of the least that they can have had."""
        self._lost += messages * _LEAST_MESSAGE
        self._losses.count(NOT_READ, messages, messages * _LEAST_MESSAGE)

    def stop_waiting(self) -> None:
        """Take what readers have read already even into a full spool, or it would be lost."""
        self._is_ending = True

    async def flush(self) -> None:
        """Return once all that was handed over is durable."""
        self._losses.tell_rest()
        self._note_lost()
        await self._idle.wait()

    async def finish(self) -> None:
        """End the stream once all that was handed over is durable: the input has ended."""
        await self.flush()
        self._end_stream()

    def _end_stream(self) -> None:
        if self.stream is not None:
            self._on_ended(self.stream)
            self.add_former(self.stream)
            self.stream = None

    def look_at_lost(self) -> None:
        """Tell of what was lost, and make a gap of it if there is room; call it now and then."""
        self._losses.tell()
        if self._lost and self._has_room_for(_Piece()):
            self._note_lost()

    def _add(self, piece: _Piece) -> None:
        self._queue.append(piece)
        self._queued += piece.size
        self._idle.clear()
        self._wake.set()

    def _note_lost(self) -> None:
        if self._lost:
            self._add(_Piece(lost=self._lost))
            self._lost = 0

    def _has_room_for(self, piece: _Piece) -> bool:
        """Return whether messages can be taken; once some were lost, not before there is some
        room, so that what is lost is one gap, not one between any two messages.
        """
        limit = self.table.spool_bytes
        if self._lost:
            limit -= limit // 8
        if self._queued + piece.size > _MOST_QUEUED:
            return False
        return self._kept_bytes + self._queued + piece.size <= limit

    @property
    def _kept_bytes(self) -> int:
        return sum(stream.segment.kept_bytes for stream in self._streams())

    def _streams(self) -> list[SpooledStream]:
        """Return the streams that take room."""
        self._former = [stream for stream in self._former if not stream.retired]
        return [*self._former, self.stream] if self.stream is not None else self._former

    # The way to the disk -------------------------------------------------------------------------

    async def run(self) -> None:
        """Append what is handed over, until cancelled. Raises `StorageError`."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._append_next()
            self._idle.set()

    async def _append_next(self) -> None:
        """Append the next pieces, as one block, or the gap that comes next."""
        pieces = self._next_pieces()
        self._skip += pieces[0].lost
        text = b"".join(piece.text for piece in pieces)
        await self._append_block(text, [each for piece in pieces for each in piece.senders])
        for piece in pieces:
            self._queued -= piece.size
            if piece.done is not None and not piece.done.done():
                piece.done.set_result(None)
        self._taken.set()

    def _next_pieces(self) -> list[_Piece]:
        """Take the pieces of the next block: a gap, or what comes before the next one."""
        pieces = [self._queue.popleft()]
        if pieces[0].lost:
            return pieces
        size = pieces[0].size
        while self._queue and not self._queue[0].lost:
            size += self._queue[0].size
            if size > _BLOCK_TEXT:
                break
            pieces.append(self._queue.popleft())
        return pieces

    async def _append_block(self, text: bytes, senders: Senders) -> None:
        while True:
            try:
                # at the end what was read must be kept, in the last room
                if not self._is_ending and not self._has_room(len(text)):
                    raise TransientError("the disk is full, but for a rest that the store needs")
                stream = await self._stream_with_room(len(text))
                await stream.segment.append(stream.segment.end + self._skip, text, senders)
            except TransientError as error:
                self.warn("spool not written: it is tried again", reason=str(error))
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                self._skip = 0
                self._on_grown(stream)
                return

    async def _stream_with_room(self, size: int) -> SpooledStream:
        """Return the stream to append to; wait until its input may keep *size* more bytes."""
        if self.stream is not None and self.stream.segment.end >= STREAM_BYTES:
            self._end_stream()
        if self.stream is None:
            self.stream = await self._make_stream(self.table)
        while self._is_full_for(size):
            self.warn("spool full: nothing more is read", spool_bytes=self.table.spool_bytes)
            await self._clock.sleep(_LOOK_SECONDS)
        return self.stream

    def _is_full_for(self, size: int) -> bool:
        if self._is_ending or all(stream.is_free for stream in self._streams()):
            return False
        return self._kept_bytes + size > self.table.spool_bytes

    def warn(self, event: str, **values: object) -> None:
        """Log a warning, once a minute at most of each kind."""
        now = self._clock.monotonic()
        if now - self._warned_at.get(event, -_WARN_SECONDS) >= _WARN_SECONDS:
            self._warned_at[event] = now
            self._log.warning(event, input=self.table.name, **values)
