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
class WindowPart:
    """Events of one window in the order they came, and the acknowledgement that is due once they,
    and all before them, are durable.

    A part without events acknowledges earlier ones or, if *ack* is 0, answers a window of none.
    """

    events: tuple[KeyValueFrame | JsonRun, ...]  # in the order they came
    count: int  # number of events; a `JsonRun` holds many
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

    def group_frames(self, frames: Iterable[Frame], version: bytes = VERSION_2) -> list[WindowPart]:
        """Return the window parts in *frames*, the connection's next ones; *version* is its own.

        Raises `TypeError` for a frame that `FrameReader` gives to no reader of v1 or v2.
        """
        parts: list[WindowPart] = []
        events: list[KeyValueFrame | JsonRun] = []
        for frame in frames:
            if isinstance(frame, WindowFrame):
                # a window that is short of events ends where the next one is announced
                if self._unacknowledged:
                    parts.append(self._cut_part(events, end=True))
                # v2 writers wait for an answer to a window of no events, too
                if frame.count == 0 and version == VERSION_2:
                    parts.append(WindowPart((), 0, 0))
                self._size = self._left = frame.count
                self._announced, self._flushed = frame.count > 0, False
            elif isinstance(frame, KeyValueFrame | JsonRun):
                self._add_events(frame, events, parts)
            else:
                raise TypeError(f"{type(frame).__name__} is no frame of a v1 or v2 writer")

        # more of the window is to come, but its events need not wait for that
        if events:
            parts.append(self._cut_part(events, end=False))
        return parts

    def end_on_idle(self) -> WindowPart | None:
        """Return the acknowledgement that is due because the writer has been idle, None if none is.

        None is while an announced window lacks events and those that came were in envelopes: such
        writers send windows whole, and some take any answer for the whole window's.
        """
        if not self._unacknowledged or (self._announced and not self._bare):
            return None

        self._flushed = True
        return self._cut_part([], end=True)

    def _add_events(
        self,
        frame: KeyValueFrame | JsonRun,
        events: list[KeyValueFrame | JsonRun],
        parts: list[WindowPart],
    ) -> None:
        rest: KeyValueFrame | JsonRun | None = frame
        while rest is not None:
            taken, rest = rest, None
            # a run of J frames may reach beyond the window
            if isinstance(taken, JsonRun) and 0 < self._left < len(taken):
                taken, rest = taken.split(self._left)

            events.append(taken)
            self._count_events(taken)
            if self._size and self._left == 0:
                parts.append(self._cut_part(events, end=True))
                # streaming writers announce a window once: what follows counts as the same again
                self._left, self._announced = self._size, False

    def _count_events(self, taken: KeyValueFrame | JsonRun) -> None:
        count, self._last = (
            (len(taken), taken.last) if isinstance(taken, JsonRun) else (1, taken.sequence)
        )
        self._unacknowledged += count
        self._bare = taken.envelope == 0
        if self._size:
            self._left -= count

    def _cut_part(self, events: list[KeyValueFrame | JsonRun], *, end: bool) -> WindowPart:
        part = WindowPart(
            tuple(events),
            sum(len(e) if isinstance(e, JsonRun) else 1 for e in events),
            self._last if end else None,
        )
        events.clear()
        if end:
            self._unacknowledged = 0
        return part


def keepalive(version: bytes) -> bytes | None:
    """Return the keepalive, `A 0`; None in v1, whose writers take any answer for a success."""
    return AckFrame(0).encode(VERSION_2) if version == VERSION_2 else None
