"""Unacknowledged runs compared with a simple model, for any sequence of calls (D3)."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.sources.unacknowledged import UnacknowledgedRuns
from logdrive.model.records import DATA
from logdrive.records.runs import Run


class Model(RuleBasedStateMachine):
    """Two lists: the runs in flight, and the others."""

    def __init__(self) -> None:
        super().__init__()
        self.unacknowledged = UnacknowledgedRuns()
        self.in_flight: list[Run] = []
        self.waiting: list[Run] = []
        self.sent: list[tuple[int, Run]] = []
        """Every run that was ever sent and not acknowledged, with its epoch."""
        self.made = 0

    @rule(count=st.integers(1, 3))
    def add(self, count: int) -> None:
        runs = [Run(DATA, self.made + n, self.made + n + 1, [b"x"], 1, 9, 0) for n in range(count)]
        self.made += count
        self.unacknowledged.add(*runs)
        self.waiting += runs

    @rule()
    def send(self) -> None:
        run = self.unacknowledged.send_next()
        assert run is (self.waiting[0] if self.waiting else None)
        if run is not None:
            self.in_flight.append(self.waiting.pop(0))
            self.sent.append((self.unacknowledged.epoch, run))

    @rule()
    def give_up(self) -> None:
        self.unacknowledged.give_up_in_flight()
        self.waiting = self.in_flight + self.waiting
        self.in_flight = []

    @precondition(lambda self: self.sent)
    @rule()
    def acknowledge(self) -> None:
        epoch, run = self.sent.pop(0)
        counts = epoch == self.unacknowledged.epoch
        assert self.unacknowledged.acknowledge(epoch, run) is counts
        if counts:
            assert self.in_flight.pop(0) is run

    @rule()
    def clear(self) -> None:
        self.unacknowledged.give_up_in_flight()
        self.unacknowledged.clear()
        self.in_flight, self.waiting = [], []

    @invariant()
    def holds_both(self) -> None:
        assert list(self.unacknowledged.runs) == self.in_flight + self.waiting
        assert self.unacknowledged.sent == len(self.in_flight)
        assert self.unacknowledged.unsent == len(self.waiting)
        assert self.unacknowledged.unsent_bytes == sum(run.size for run in self.waiting)
        assert bool(self.unacknowledged) is bool(self.in_flight or self.waiting)


TestUnacknowledgedRuns = Model.TestCase
