"""Decides when each followed file is looked at again.

The schedule is a calendar: files that are due at about the same time stand in one list. With ten
thousand files that takes an eighth of the memory of a heap of them, and less time.

A look is one of two kinds. A quick look reads two bytes and sees that an open file has not grown. A
close look asks for the file's status, which also tells whether it was truncated, renamed or
deleted. Close looks are planned at longer intervals, and follow a quick look that sees a change.
"""

import heapq
import math
from collections.abc import Sized
from typing import Final

from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.poll_intervals import next_interval, shortest_interval
from logdrive.host.clock import Clock

_CLOSE_LOOK_SECONDS: Final = 10.0
"""Seconds between two close looks at a file that is looked at often."""

_LOOKS_A_CLOSE_LOOK: Final = 4
"""At least so many looks per close look, which costs several times as much as a quick one."""

_TROUBLE_SECONDS: Final = 5.0
"""Seconds between two looks at a file that can't be read."""

_TICKS: Final = 128
"""Ticks per second. Times are rounded down to these; they are exact as floats, as 128 is a power of
two.
"""


class LookSchedule:
    """Followed files in the order in which they are due; a dropped file stays until it is due."""

    def __init__(self, clock: Clock, followed: Sized) -> None:
        """Intervals depend on the number of *followed* files."""
        self._clock = clock
        self._followed = followed
        self._ticks: list[int] = []  # a heap: those in the calendar
        self._calendar: dict[int, list[FollowedFile]] = {}  # files by tick, as they were added
        self._due: list[FollowedFile] = []  # of a tick that has come, the next one last

    def add_due_now(self, followed: FollowedFile) -> None:
        """Add a file that is due at once."""
        self._add(followed, self._clock.monotonic())

    def next_due(self, now: float) -> FollowedFile | None:
        """Return the next file that is due at *now*, None without one.

        Call `postpone_next` or `remove_next` for it before the next call.
        """
        if not self._due and self._ticks and self._ticks[0] <= now * _TICKS:
            self._due = self._calendar.pop(heapq.heappop(self._ticks))
            self._due.reverse()
        return self._due[-1] if self._due else None

    def postpone_next(self, now: float) -> None:
        """Plan another look at the file of `next_due`, which has not grown."""
        followed = self._due.pop()
        self._lengthen_interval(followed, now)
        self._add(followed, now + followed.interval)

    def remove_next(self) -> None:
        """Remove the file of `next_due`."""
        self._due.pop()

    def add_after_look(self, followed: FollowedFile, now: float, *, has_grown: bool) -> None:
        """Plan the looks at a file after a close look at *now* (s)."""
        if has_grown:
            followed.interval = shortest_interval(len(self._followed))
        else:
            self._lengthen_interval(followed, now)

        soon = max(_CLOSE_LOOK_SECONDS, _LOOKS_A_CLOSE_LOOK * followed.interval)
        # a deleted file must be noticed well before it counts as ended
        ends_after = followed.generation.settings.end_after_seconds
        followed.look_closely_at = now + min(soon, ends_after / 2)
        self._add(followed, self._clock.monotonic() + followed.interval)

    def seconds_until_due(self, now: float) -> float | None:
        """Return the seconds until the next file is due, 0 if one is, None without any file."""
        if self._due:
            return 0.0
        return max(0.0, self._ticks[0] / _TICKS - now) if self._ticks else None

    def _lengthen_interval(self, followed: FollowedFile, now: float) -> None:
        """Set the interval of a file that has not grown."""
        generation = followed.generation
        if followed.trouble and not followed.lacks_handle:
            followed.interval = _TROUBLE_SECONDS
            return

        interval = next_interval(
            followed.interval,
            len(self._followed),
            now - generation.grown_at,
            is_open=generation.file is not None,
        )
        if followed.lacks_handle:
            # another file gives up its handle only when this one asks again: if that takes long,
            # rotated files may be gone by then
            interval = min(interval, _TROUBLE_SECONDS)
        followed.interval = interval

    def _add(self, followed: FollowedFile, due: float) -> None:
        tick = math.floor(due * _TICKS)
        files = self._calendar.get(tick)
        if files is None:
            self._calendar[tick] = [followed]
            heapq.heappush(self._ticks, tick)
        else:
            files.append(followed)
