"""Runs of one source that no acknowledgement covers yet: the source's part of the send window."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from logdrive.records.run_pack import RunPack
from logdrive.records.runs import ELSEWHERE, Run


class UnacknowledgedRuns(msgspec.Struct, gc=False):  # in no cycle
    """The runs, oldest first; they follow one another from the number acknowledged last.

    Only their `Source` changes them. One object for each source, ten thousand of them.
    """

    # A tuple, as most sources have none at a time: the empty tuple takes no memory, an empty list
    # 64 bytes, an empty deque 760. There are never more than a few.
    runs: tuple[Run, ...] = ()
    # How many of `runs`, from the oldest on, are in flight.
    sent: int = 0
    # Counts how often runs in flight were given up. A run is acknowledged only in the epoch in
    # which it was sent (rule D3).
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def unsent(self) -> int:
        """How many runs are not in flight."""
        return len(self.runs) - self.sent

    @property
    def holds_raw_text(self) -> bool:
        """Whether a run that is not in flight keeps its text, as its pack is not compressed yet."""
        return any(
            isinstance(run.records, RunPack) and not run.records.is_compressed
            for run in self.runs[self.sent :]
        )

    @property
    def unsent_bytes(self) -> int:
        """Encoded bytes of the runs that are not in flight."""
        return sum(run.size for run in self.runs[self.sent :])

    @property
    def elsewhere(self) -> Sequence[Run]:
        """The oldest runs, as far as they are gaps of bytes that another store has.

        They can't be made again: the store there is now knows nothing of the one before.
        """
        return elsewhere_gaps(self.runs)

    def add(self, *runs: Run) -> None:
        """Append runs that follow the last one."""
        self.runs += runs

    def replace(self, runs: tuple[Run, ...]) -> None:
        """Hold *runs* instead; none may be in flight."""
        assert not self.sent
        self.runs = runs

    def clear(self) -> None:
        """Drop all runs, in flight or not."""
        self.runs = ()
        self.sent = 0

    def drop_unsent(self) -> None:
        """Drop the runs that are not in flight, as they can be made again; not `elsewhere`."""
        self.runs = self.runs[: max(self.sent, len(self.elsewhere))]

    def send_next(self) -> Run | None:
        """Return the oldest run that is not in flight and count it as sent; None without one."""
        if self.sent == len(self.runs):
            return None
        run = self.runs[self.sent]
        self.sent += 1
        return run

    def give_up_in_flight(self) -> None:
        """Count no run as sent any more, and begin a new epoch."""
        self.epoch += 1
        self.sent = 0

    def acknowledge(self, epoch: int, run: Run) -> bool:
        """Drop *run*, sent in *epoch*; return whether that is the current epoch."""
        if epoch != self.epoch:
            return False
        assert self.runs[0] is run, "runs are acknowledged in the order in which they were sent"
        self.runs = self.runs[1:]
        self.sent -= 1
        return True


def elsewhere_gaps(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the first of *runs*, as far as they are gaps of bytes that another store has."""
    return tuple(takewhile(_is_elsewhere, runs))


def _is_elsewhere(run: Run) -> bool:
    return run.mark is not None and run.mark.reason == ELSEWHERE
