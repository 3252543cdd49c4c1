"""Refusals of sources by E frames: how long a source pauses, and whether its receiver is the cause.

A receiver whose disk is full refuses one source after the other. Each pauses, so nothing is in
flight, and the connection looks idle. `ReceiverRefusals` is how the session notices all the same
that its receiver stores nothing.
"""

from typing import Final

from logdrive.net.retry import Exponential
from logdrive.wire.lumberjack.frames import RefusalCode

_PATIENT_CODES: Final = (
    RefusalCode.NOT_ALLOWED,
    RefusalCode.NO_ROUTE,
    RefusalCode.NO_PROGRESS,
    RefusalCode.BAD_ATTRIBUTES,
)
"""Reasons of refusals that will not pass soon."""
_RECEIVER_CODES: Final = (RefusalCode.DRAINING, RefusalCode.TRY_LATER, RefusalCode.INTERNAL)
"""Reasons that lie in the receiver's own state: another one may take the source at once."""
_SOON: Final = Exponential(1.0, 3600.0)
"""Pauses of a refused source, in seconds."""
_LATER: Final = Exponential(60.0, 3600.0)
"""Pauses after refusals that will not pass soon, in seconds."""
_RECEIVER: Final = Exponential(1.0, 60.0)
"""Pauses for a receiver's own state, in seconds: a disk may have room again at any time."""
_UNREADABLE: Final = Exponential(1.0, 60.0)
"""Pauses while a file can't be read, which concerns nobody else, in seconds."""


def is_receivers_own(code: int | None) -> bool:
    """Return whether the receiver's own state is the reason *code* of a refusal.

    None is a file that can't be read. Unknown codes are taken as INTERNAL.
    """
    return code is not None and (code in _RECEIVER_CODES or code > max(RefusalCode))


def refusal_pause_seconds(code: int | None, refusals: int, luck: float) -> float:
    """Return for how many seconds a refused source pauses.

    *code* is the reason, None for a file that can't be read; *refusals* says how often in a row it
    was refused before. *luck*, in [0, 1), makes the pause up to half as long again, so that sources
    do not all come back at once.
    """
    pauses = _LATER if code in _PATIENT_CODES else _SOON
    if code is None:
        pauses = _UNREADABLE
    elif is_receivers_own(code):
        pauses = _RECEIVER
    return pauses.after(refusals + 1) * (1 + luck / 2)


class ReceiverRefusals:
    """The refusals on one connection that its receiver's own state causes.

    They last from the first one until something is stored, or nothing waits any more.
    """

    def __init__(self) -> None:
        # When the first one came (monotonic seconds); None without any.
        self.since: float | None = None
        # What the last one said, for people; "" without any.
        self.reason = ""

    def note(self, reason: str, now: float) -> None:
        """Note a refusal."""
        self.reason = reason
        if self.since is None:
            self.since = now

    def clear(self) -> None:
        """Forget them."""
        self.since, self.reason = None, ""
