"""Events between two disk calls of a program: its death, failing calls, changes of its files."""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.support.disks.watched import CHANGES


class Mortal(Protocol):
    """The host of the program, which can kill it."""

    def die(self, why: str, *, power: bool, down: float, then_off: float) -> None:
        """Kill the program, for the reason *why*; raises `CancelledError` into it."""
        ...


@dataclass(slots=True)
class Countdown:
    """A death after some disk calls, and further deaths in the next lives."""

    counts: list[int]  # calls before each death, of this life and the next ones
    begin: str  # call from which they are counted, as `_is_meant` reads it; "" for the next one
    reads: bool  # False: only calls that change the disk count
    power: bool  # True: a power cut, else a kill
    down: float  # seconds until the next start
    then_off: float  # seconds from that start to a power cut; 0 for none


@dataclass(slots=True)
class Deed:
    """A change of files right before a disk call."""

    begin: str  # call from which calls are counted, as `_is_meant` reads it; "" for the next one
    calls: int  # calls from there on that come before
    do: Callable[[], None]


@dataclass(slots=True)
class Failures:
    """Disk calls that fail."""

    calls: tuple[str, ...]  # their names; empty for all that change nothing
    number: int  # errno
    times: int  # how many are left

    def mean(self, call: str) -> bool:
        """Return whether *call* is one of those that fail."""
        return call in self.calls or (not self.calls and call not in CHANGES)


def _is_meant(wanted: str, call: str, path: str) -> bool:
    """Return whether *wanted* means *call* on *path*.

    *wanted* is a call and, perhaps, how the file's name begins: "replace", "create log-".
    """
    kind, _, name = wanted.partition(" ")
    return not kind or (kind == call and os.path.basename(path).startswith(name))


class Meddler:
    """Watches the disk calls of one program in all of its lives.

    Calls fail, and deeds are done, only for paths that begin with *below*.
    """

    def __init__(self, host: Mortal, below: str = "") -> None:
        self._host = host
        self._below = below
        self._countdown: Countdown | None = None
        self._deeds: deque[Deed] = deque()
        self._failures: Failures | None = None

    def count_down(self, countdown: Countdown) -> None:
        """Let the program die as *countdown* says; it replaces an earlier one."""
        self._countdown = countdown

    def come_between(self, deeds: list[Deed]) -> None:
        """Add *deeds* to those that wait; each is counted from the one before."""
        self._deeds += deeds

    def fail(self, failures: Failures) -> None:
        """Let calls fail as *failures* say; they replace earlier ones."""
        self._failures = failures

    def still_fails_with(self, number: int) -> bool:
        """Return whether there are calls left that fail with the errno *number*."""
        return self._failures is not None and self._failures.number == number

    def calm(self) -> None:
        """End all of it."""
        self._countdown = self._failures = None
        self._deeds.clear()

    def before(self, call: str, path: str) -> None:
        """Do what is due before *call* on *path*. Raises OSError if the call is to fail."""
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
        deed.begin = ""  # from this call on every call counts
        deed.calls -= 1
        while deed.calls < 0:  # further deeds may be due before the same call
            self._deeds.popleft().do()
            if not self._deeds or self._deeds[0].begin or self._deeds[0].calls:
                break
            deed = self._deeds[0]
            deed.calls -= 1

    def after(self, call: str, path: str) -> None:
        """Count *call* on *path*, which was made; the program may die here."""
        countdown = self._countdown
        if countdown is None or not (countdown.reads or call in CHANGES):
            return
        if not _is_meant(countdown.begin, call, path):
            return
        countdown.begin = ""  # from this call on every call counts
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
