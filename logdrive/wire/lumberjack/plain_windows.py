"""Windows of Lumberjack v1 and v2, as their readers see them: which events there are, and which
acknowledgement is due once they are kept.

Deployed writers disagree on nearly everything, so `WindowReader` refuses nothing. No bytes here, no
clock, no sockets.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from logdrive.wire.lumberjack.frames import (
    VERSION_2,
    AckFrame,
    Frame,
    JsonRun,
    KeyValueFrame,
    WindowFrame,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in the order they came, and the acknowledgement that is due once they, and all before
    them, are durable.

    A batch without events acknowledges earlier ones or, if *ack* is 0, answers a window of none.
    """

    events: tuple[KeyValueFrame | JsonRun, ...]
    count: int  # of the events; a `JsonRun` holds many
    ack: int | None  # sequence number to acknowledge, None if more of the window is to come


class WindowReader:
    """Groups the events of one v1 or v2 connection into those acknowledged together.

    Events are returned as they come, never kept until their window is full, so a window of 2^32 - 1
    events costs nothing. The rules satisfy every writer known (`docs/protocols/lumberjack.md`,
    "Windows as deployed writers use them").
    """

    __slots__ = ("_announced", "_bare", "_flushed", "_last", "_left", "_size", "_unacknowledged")

    def __init__(self) -> None:
        self._size = 0  # events of a window as the last W announced them; 0 before the first W
        self._left = 0  # events that the current window lacks
        self._announced = False  # a W announced this window; False: the one before is repeated
        self._unacknowledged = 0  # events returned without their acknowledgement so far
        self._last = 0  # sequence number of the last event
        self._bare = True  # the last event came outside of an envelope
        self._flushed = False  # the window so far was acknowledged because the writer was idle

    @property
    def open(self) -> bool:
        """Whether the writer may be waiting for an acknowledgement; a v2 writer wants keepalives
        then.
        """
        return self._unacknowledged > 0 or (self._announced and not self._flushed)

    def group_frames(self, frames: Iterable[Frame], version: bytes = VERSION_2) -> list[Batch]:
        """Return the batches of *frames*, the connection's next ones; *version* is its own.

        Raises `TypeError` for a frame that `FrameReader` gives to no reader of v1 or v2.
        """
        batches: list[Batch] = []
        events: list[KeyValueFrame | JsonRun] = []
        for frame in frames:
            if isinstance(frame, WindowFrame):
                # a window that is short of events ends where the next one is announced
                if self._unacknowledged:
                    batches.append(self._batch(events, end=True))
                # v2 writers wait for an answer to a window of no events, too
                if frame.count == 0 and version == VERSION_2:
                    batches.append(Batch((), 0, 0))
                self._size = self._left = frame.count
                self._announced, self._flushed = frame.count > 0, False
            elif isinstance(frame, KeyValueFrame | JsonRun):
                self._add_events(frame, events, batches)
            else:
                raise TypeError(f"{type(frame).__name__} is no frame of a v1 or v2 writer")
        if events:
            batches.append(self._batch(events, end=False))
        return batches

    def end_on_idle(self) -> Batch | None:
        """Return the acknowledgement that is due because the writer has been idle, None if none is.

        None is while an announced window lacks events and those that came were in envelopes: such
        writers send windows whole, and some take any answer for the whole window's.
        """
        if not self._unacknowledged or (self._announced and not self._bare):
            return None
        self._flushed = True
        return self._batch([], end=True)

    def _add_events(
        self,
        frame: KeyValueFrame | JsonRun,
        events: list[KeyValueFrame | JsonRun],
        batches: list[Batch],
    ) -> None:
        rest: KeyValueFrame | JsonRun | None = frame
        while rest is not None:
            part, rest = rest, None
            # a run of J frames may reach beyond the window
            if isinstance(part, JsonRun) and 0 < self._left < len(part):
                part, rest = part.split(self._left)
            events.append(part)
            self._count(part)
            if self._size and self._left == 0:
                batches.append(self._batch(events, end=True))
                # streaming writers announce a window once: what follows counts as the same again
                self._left, self._announced = self._size, False

    def _count(self, part: KeyValueFrame | JsonRun) -> None:
        count, self._last = (
            (len(part), part.last) if isinstance(part, JsonRun) else (1, part.sequence)
        )
        self._unacknowledged += count
        self._bare = part.envelope == 0
        if self._size:
            self._left -= count

    def _batch(self, events: list[KeyValueFrame | JsonRun], *, end: bool) -> Batch:
        batch = Batch(
            tuple(events),
            sum(len(e) if isinstance(e, JsonRun) else 1 for e in events),
            self._last if end else None,
        )
        events.clear()
        if end:
            self._unacknowledged = 0
        return batch


def keepalive(version: bytes) -> bytes | None:
    """Return the keepalive, `A 0`; None in v1, whose writers take any answer for a success."""
    return AckFrame(0).encode(VERSION_2) if version == VERSION_2 else None
