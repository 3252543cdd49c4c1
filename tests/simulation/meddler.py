"""What may come between two calls that one program makes of its disk: its own death, for one."""

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
    """A death after so many calls, and as many more as *counts* goes on for, one in each later life.

    Only calls that change the disk count, unless *reads* do as well.
    """

    counts: list[int]
    reads: bool
    power: bool
    down: float
    then_off: float


class Meddler:
    """Watches the disk calls of one program in all of its lives."""

    def __init__(self, host: Mortal) -> None:
        self._host = host
        self._countdown: Countdown | None = None

    def count_down(self, countdown: Countdown) -> None:
        """Let the program die as *countdown* says, instead of what was asked for before."""
        self._countdown = countdown

    def calm(self) -> None:
        """Let nothing more come between."""
        self._countdown = None

    def before(self, call: str, path: str) -> None:
        """Let happen what is due before a call."""

    def after(self, call: str, path: str) -> None:
        """Count a call; the program may not survive it."""
        countdown = self._countdown
        if countdown is None or not (countdown.reads or call in CHANGES):
            return
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
