"""Decides when each followed file is looked at again.

The schedule is a calendar: files that are due at about the same time stand in one list. With ten
thousand files that takes an eighth of the memory of a heap of them, and less time.

A look is one of two kinds. A quick look sees, by one system call, that the file is as it was: its
size, the time of its last change, and its name. A close look (`CloseLooks`) follows one that sees a
change. Without a change it comes to a file that has to be closed, and now and then to one that is
closed: only a close look opens it, and compares its birth time.
"""

import heapq
import math
from collections.abc import Sized
from typing import Final

from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.poll_intervals import (
    longest_interval,
    next_interval,
    shortest_interval,
)
from logdrive.host.clock import Clock

_CLOSE_LOOK_SECONDS: Final = 10.0
"""Seconds between two close looks at a file that does not change, and is looked at often."""

_LOOKS_A_CLOSE_LOOK: Final = 12
"""At least so many looks per close look, which costs several times as much as a quick one."""

_LONGEST_CLOSE_LOOK_SECONDS: Final = 60.0
"""Limit on the seconds between two close looks, however seldom a file is looked at."""

_TROUBLE_SECONDS: Final = 5.0
"""Seconds between two looks at a file that can't be read."""

_TICKS: Final = 128
"""Ticks per second. Times are rounded down to these; they are exact as floats, as 128 is a power of
two.
"""

_LOOKS_A_GRAIN: Final = 8
"""Looks are up to so small a part of their interval (an eighth) early, so that many files are
looked at together: each time that the agent wakes costs as much as looks at a hundred files.
"""


class LookSchedule:
    """Followed files in the order in which they are due; a dropped file stays until it is due."""

    def __init__(self, clock: Clock, followed: Sized) -> None:
        """Intervals depend on the number of *followed* files."""
        self._clock = clock
        self._followed = followed
        self._ticks: list[int] = []  # a heap: those in the calendar
        self._calendar: dict[int, list[FollowedFile]] = {}  # files by tick, as they were added
        self._due: list[FollowedFile] = []  # of ticks that have come
        # the longest intervals of files at rest, closed and open, as of the last `take_due`
        self._longest = 0.0, 0.0
        # when a look was planned last, its interval, and the list of that tick, while it is in the
        # calendar: thousands of files at rest go there one after the other
        self._last_planned: tuple[float, float, list[FollowedFile]] = -math.inf, 0.0, []

    def add_due_now(self, followed: FollowedFile) -> None:
        """Add a file that is due at once."""
        self._add(followed, self._clock.monotonic(), 0.0)

    def take_due(self, now: float, most: int) -> list[FollowedFile]:
        """Take out up to *most* files that are due at *now* (s), in their order.

        Call `postpone` or `add_after_look` for each that is to be looked at again.
        """
        while len(self._due) < most and self._ticks and self._ticks[0] <= now * _TICKS:
            self._due += self._calendar.pop(heapq.heappop(self._ticks))
        self._last_planned = -math.inf, 0.0, []

        files = len(self._followed)
        self._longest = (
            longest_interval(files, at_rest=True, is_open=False),
            longest_interval(files, at_rest=True, is_open=True),
        )
        taken = self._due[:most]
        del self._due[:most]
        return taken

    def postpone(self, followed: FollowedFile, now: float) -> None:
        """Plan another look at a file that is as it was, as a quick look at *now* (s) saw."""
        # most files: what has the longest interval keeps it
        if followed.interval != self._longest[followed.generation.file is not None]:
            self._lengthen_interval(followed, now)
        if now >= followed.look_closely_at:
            self._plan_close_look(followed, now)
        self._add(followed, now, followed.interval)

    def add_after_look(self, followed: FollowedFile, now: float, *, has_grown: bool) -> None:
        """Plan the looks at a file after a close look at *now* (s)."""
        if has_grown:
            followed.interval = shortest_interval(len(self._followed))
        else:
            self._lengthen_interval(followed, now)
        self._plan_close_look(followed, now)
        self._add(followed, self._clock.monotonic(), followed.interval)

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

    def _plan_close_look(self, followed: FollowedFile, now: float) -> None:
        soon = max(_CLOSE_LOOK_SECONDS, _LOOKS_A_CLOSE_LOOK * followed.interval)
        followed.look_closely_at = now + min(soon, _LONGEST_CLOSE_LOOK_SECONDS)

    def _add(self, followed: FollowedFile, now: float, interval: float) -> None:
        """Plan a look at *interval* seconds after *now*, or a little earlier."""
        last_now, last_interval, files = self._last_planned
        if now != last_now or interval != last_interval:
            files = self._files_at(now + interval, interval)
            self._last_planned = now, interval, files
        files.append(followed)

    def _files_at(self, due: float, interval: float) -> list[FollowedFile]:
        """Return the calendar's list of the tick in which a look with this *interval* is due."""
        tick = math.floor(due * _TICKS)
        grain = int(interval * (_TICKS / _LOOKS_A_GRAIN))
        if grain > 1:
            tick &= -(1 << grain.bit_length() - 1)  # down to a multiple of a power of two
        if tick not in self._calendar:
            self._calendar[tick] = []
            heapq.heappush(self._ticks, tick)
        return self._calendar[tick]
