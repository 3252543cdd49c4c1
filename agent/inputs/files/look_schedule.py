"""Decides when each followed file is looked at again.

A look is one of two kinds. A quick look reads two bytes and sees that an open file has not grown. A
close look asks for the file's status, which also tells whether it was truncated, renamed or
deleted. Close looks are planned at longer intervals, and follow a quick look that sees a change.
"""

import heapq
from collections.abc import Sized
from itertools import count
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


class LookSchedule:
    """Followed files in the order in which they are due; a dropped file stays until it is due."""

    def __init__(self, clock: Clock, followed: Sized) -> None:
        """Intervals depend on the number of *followed* files."""
        self._clock = clock
        self._followed = followed
        self._heap: list[tuple[float, int, FollowedFile]] = []  # when due (s), order, file
        self._order = count()  # files that are due at the same time keep their order

    def add_due_now(self, followed: FollowedFile) -> None:
        """Add a file that is due at once."""
        self._push(followed, 0.0)

    def next_due(self, now: float) -> FollowedFile | None:
        """Return the next file that is due at *now*, None without one.

        Call `postpone_next` or `remove_next` for it before the next call.
        """
        heap = self._heap
        return heap[0][2] if heap and heap[0][0] <= now else None

    def postpone_next(self, now: float) -> None:
        """Plan another look at the file of `next_due`, which has not grown."""
        followed = self._heap[0][2]
        self._lengthen_interval(followed, now)
        heapq.heapreplace(self._heap, (now + followed.interval, next(self._order), followed))

    def remove_next(self) -> None:
        """Remove the file of `next_due`."""
        heapq.heappop(self._heap)

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
        self._push(followed, followed.interval)

    def seconds_until_due(self, now: float) -> float | None:
        """Return the seconds until the next file is due, 0 if one is, None without any file."""
        return max(0.0, self._heap[0][0] - now) if self._heap else None

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

    def _push(self, followed: FollowedFile, seconds: float) -> None:
        heapq.heappush(self._heap, (self._clock.monotonic() + seconds, next(self._order), followed))
