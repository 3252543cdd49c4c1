"""The windows that a writer has in flight, in all dialects: which of them an acknowledgement
completes.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from logdrive.errors import ProtocolError
from logdrive.wire.lumberjack.frames import VERSION_1, VERSION_2

Token = TypeVar("Token")


class AckTracker(Generic[Token]):
    """The windows that a writer has sent and that are not acknowledged, oldest first.

    *numbering* "window" (v1, v2): sequence numbers begin at 1 in each window, and an
    acknowledgement counts within the oldest one. "connection" (`logdrive/1`): numbers run on, and
    an acknowledgement means everything up to it. *version* is the windows' own.

    *Token* is the caller's own value for a window.
    """

    def __init__(
        self, numbering: Literal["window", "connection"], version: bytes = VERSION_2
    ) -> None:
        self._running = numbering == "connection"  # whether sequence numbers run on
        self._version = version  # version byte of the windows
        self._windows: deque[tuple[Token, int]] = deque()  # with the number of the last event
        self._sent = 0  # number of the last event sent
        self._acknowledged = 0  # number acknowledged last, with running numbers only

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def in_flight(self) -> Sequence[Token]:
        """Tokens of the windows in flight, oldest first."""
        return [token for token, _ in self._windows]

    def on_window_sent(self, token: Token, last_sequence: int, count: int) -> None:
        """Add a window of *count* events whose last one has the number *last_sequence*.

        Raises ValueError if the numbers do not follow those of the window before.
        """
        if count < 1 or last_sequence != (self._sent if self._running else 0) + count:
            raise ValueError(
                f"a window of {count} events that ends at {last_sequence}, after {self._sent}"
            )
        self._windows.append((token, last_sequence))
        self._sent = last_sequence

    def on_ack(self, sequence: int, *, version: bytes = VERSION_2, offset: int = 0) -> list[Token]:
        """Return the windows that the frame `A sequence` completes, none for 0, a keepalive.

        A number within a window completes nothing. Raises `ProtocolError` with *offset* for a
        number that was not sent, since the peer counts otherwise than we do, and for another
        *version* than the windows': the peer did not understand them. Only keepalives may have
        version 2 in a v1 connection, as Logstash's do.
        """
        if version != self._version and (sequence or self._version != VERSION_1):
            reason = (
                f"an acknowledgement in version {version.decode()} of a window in version "
                f"{self._version.decode()}"
            )
            raise ProtocolError(reason, offset=offset)

        # a keepalive
        if sequence == 0:
            return []
        return (
            self._ack_running(sequence, offset)
            if self._running
            else self._ack_oldest(sequence, offset)
        )

    def _ack_oldest(self, sequence: int, offset: int) -> list[Token]:
        # nothing is awaited without a window
        count = self._windows[0][1] if self._windows else 0
        if sequence > count:
            raise ProtocolError(
                f"an acknowledgement of {sequence} where {count} are awaited", offset=offset
            )
        return [self._windows.popleft()[0]] if sequence == count else []

    def _ack_running(self, sequence: int, offset: int) -> list[Token]:
        if not self._acknowledged < sequence <= self._sent:
            reason = (
                f"an acknowledgement of {sequence} between {self._acknowledged}, "
                f"acknowledged, and {self._sent}, sent"
            )
            raise ProtocolError(reason, offset=offset)
        self._acknowledged = sequence

        completed: list[Token] = []
        while self._windows and self._windows[0][1] <= sequence:
            completed.append(self._windows.popleft()[0])
        return completed
