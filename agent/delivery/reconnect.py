"""When a connection is made again: how long a failure is waited for, and whether it ever passes."""

from random import Random
from typing import Final

from agent.config.output import BackoffTable
from agent.delivery.dialect import EndedError, ReceiverRefusedError, RetiredError
from logdrive.errors import ProtocolError, RejectedError
from logdrive.net.retry import Backoff, FullJitter
from logdrive.wire.lumberjack.frames import RefusalCode

_LONG_PAUSE_SECONDS: Final = 60.0
"""Added to the pause after an error that will not pass soon."""
_IDLE_SECONDS: Final = 60.0
"""A connection that the receiver closed while idle is made again after this time at most, or as
soon as there is something to send, or a refused source to be asked for.
"""
_TOO_OFTEN: Final = 3
"""After this many connections in a row that ended before the first frame, it is no restart of the
receiver but a wrong setting.
"""
_NOT_SOON: Final = (
    RefusalCode.PROTOCOL,
    RefusalCode.LIMIT,
    RefusalCode.NOT_ALLOWED,
    RefusalCode.NO_ROUTE,
    RefusalCode.NO_PROGRESS,
    RefusalCode.BAD_ATTRIBUTES,
)
"""Reasons of refusals that will not pass soon."""


class ReconnectPolicy:
    """The pauses of one connection, to one of *hosts* receivers in turn."""

    def __init__(self, table: BackoffTable, hosts: int, random: Random) -> None:
        self._hosts = hosts
        self._random = random
        # Pauses between attempts; an acknowledgement makes them short again.
        self._backoff = Backoff(FullJitter(table.initial_seconds, table.max_seconds, random))
        # Connections in a row that ended before the first frame.
        self._silent_ends = 0
        # The receiver closed the last connection while it was idle.
        self.closed_idle = False

    @property
    def has_failed(self) -> bool:
        """Whether nothing was stored since the last failure."""
        return self._backoff.failures > 0

    def on_progress(self) -> None:
        """Make pauses short again: the connection did more than to be made."""
        self._backoff.reset()

    def is_permanent(self, error: BaseException) -> bool:
        """Return whether only a change of settings would mend *error*; call it once for each."""
        # A restart of the receiver looks the same: only several in a row count.
        if isinstance(error, RejectedError) and not error.sure:
            self._silent_ends += 1
            return self._silent_ends >= _TOO_OFTEN
        self._silent_ends = 0
        return isinstance(error, RejectedError | ProtocolError) or _will_not_pass_soon(error)

    def seconds_after(self, error: BaseException) -> float:
        """Return the seconds to wait after *error*.

        Closing an idle connection, or one that is made anew, is no failure.
        """
        self.closed_idle = isinstance(error, EndedError) and error.idle
        if isinstance(error, RetiredError):
            return 0.0
        if self.closed_idle:
            # a receiver closes those of many agents at once
            return _IDLE_SECONDS * self._random.uniform(0.5, 1.0)

        seconds = self._backoff.next_wait()
        # It is going away, and another host is there.
        if is_draining(error) and self._hosts > 1:
            return 0.0
        # Not all hosts were tried yet.
        if self._backoff.failures < self._hosts:
            return 0.0
        # Nothing changes before an operator acts.
        if isinstance(error, ProtocolError) or _will_not_pass_soon(error):
            return seconds + _LONG_PAUSE_SECONDS
        return seconds


def is_draining(error: BaseException) -> bool:
    """Return whether *error* is how a receiver takes its leave, as it stops or of the idle."""
    return isinstance(error, ReceiverRefusedError) and error.code == RefusalCode.DRAINING


def _will_not_pass_soon(error: BaseException) -> bool:
    return isinstance(error, ReceiverRefusedError) and error.code in _NOT_SOON
