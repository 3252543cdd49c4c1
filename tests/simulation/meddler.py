"""What may come between two calls that one program makes of its disk: its death, or what others do
to its files.
"""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.support.watched_disk import CHANGES


class Mortal(Protocol):
    """The program's host, as far as it can die."""

    def die(self, why: str, *, power: bool, down: float, then_off: float) -> None:
        """End the program here; never returns to it."""
        ...


@dataclass(slots=True)
class Countdown:
    """A death after so many calls, and as many more as *counts* goes on for, one in each later
    life.

    Only calls that change the disk count, unless *reads* do as well; they count from the first call
    on that *begin* names, with "" from now on.
    """

    counts: list[int]
    begin: str
    reads: bool
    power: bool
    down: float
    then_off: float


@dataclass(slots=True)
class Deed:
    """What is done right before the call that comes *calls* after the first one that *begin*
    names.
    """

    begin: str
    calls: int
    do: Callable[[], None]


@dataclass(slots=True)
class Failures:
    """The next *times* calls named in *calls*, or without these the next that change nothing, fail
    with *number*.
    """

    calls: tuple[str, ...]
    number: int
    times: int

    def mean(self, call: str) -> bool:
        """Tell whether *call* is one of those."""
        return call in self.calls or (not self.calls and call not in CHANGES)


def _is_meant(wanted: str, call: str, path: str) -> bool:
    """Tell whether *wanted*, as in "create log-" or "replace" (a call, and how the file's name
    begins), means this call.
    """
    kind, _, name = wanted.partition(" ")
    return not kind or (kind == call and os.path.basename(path).startswith(name))


class Meddler:
    """Watches the disk calls of one program in all of its lives.

    Deeds come before calls for what is *below* a directory.
    """

    def __init__(self, host: Mortal, below: str = "") -> None:
        self._host, self._below = host, below
        self._countdown: Countdown | None = None
        self._deeds: deque[Deed] = deque()
        self._failures: Failures | None = None

    def count_down(self, countdown: Countdown) -> None:
        """Let the program die as *countdown* says, instead of what was asked for before."""
        self._countdown = countdown

    def come_between(self, deeds: list[Deed]) -> None:
        """Let *deeds* be done one after the other, each counted from the one before, after those
        that wait already.
        """
        self._deeds += deeds

    def fail(self, failures: Failures) -> None:
        """Let calls fail as *failures* say, instead of what was asked for before."""
        self._failures = failures

    def calm(self) -> None:
        """Let nothing more come between."""
        self._countdown = self._failures = None
        self._deeds.clear()

    def before(self, call: str, path: str) -> None:
        """Let be done what is due before a call, which may fail. Raises OSError."""
        if not path.startswith(self._below):
            return
        failures = self._failures
        if failures is not None and failures.mean(call):
            failures.times -= 1
            if not failures.times:
                self._failures = None
            raise OSError(failures.number, os.strerror(failures.number), path)
        if not self._deeds:
            return
        deed = self._deeds[0]
        if not _is_meant(deed.begin, call, path):
            return
        deed.begin = ""
        deed.calls -= 1
        while deed.calls < 0:
            self._deeds.popleft().do()
            if not self._deeds or self._deeds[0].begin or self._deeds[0].calls:
                break
            deed = self._deeds[0]
            deed.calls -= 1

    def after(self, call: str, path: str) -> None:
        """Count a call; the program may not survive it."""
        countdown = self._countdown
        if countdown is None or not (countdown.reads or call in CHANGES):
            return
        if not _is_meant(countdown.begin, call, path):
            return
        countdown.begin = ""
        countdown.counts[0] -= 1
        if countdown.counts[0] > 0:
            return
        del countdown.counts[0]
        if not countdown.counts:
            self._countdown = None
        self._host.die(
            f"has done {call} {path}",
            power=countdown.power,
            down=countdown.down,
            then_off=countdown.then_off,
        )
