"""Health of the agent: its figures, all together and by input, as status, metrics and the service
manager show them.

All sources are looked at every few seconds, in one pass; who asks gets the figures of the last
look, or of one made for it.
"""

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from agent.config.config import AgentConfig
from agent.config.events import EventsTable
from agent.delivery.delivery import Delivery
from agent.events.processors.counters import RuleCounter, RuleCounters
from agent.inputs.files.followed import FollowedFile
from agent.lag import LagMeter
from agent.sources.input_totals import InputTotals
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import Clock

STARTING, RUNNING, DRAINING = "starting", "running", "draining"
GONE: Final = "gone"
"""Stands for the input of sources whose bytes are gone, or that no input names any more."""

_SECONDS: Final = 5.0
"""Shortest time between two looks that nobody asked for."""
_SHARE: Final = 100
"""These looks take at most this part of the time (a hundredth), however many sources there are."""
_FRESH_SECONDS: Final = 1.0
"""Who asks within this time after a look gets its figures."""


class InputFigures(msgspec.Struct):
    """Figures of one input. Sizes are in bytes; totals are since the start."""

    sources: int = 0
    """Sources that have not ended."""
    behind: int = 0
    """Sources of which something can be sent and is unacknowledged."""
    lag_bytes: int = 0
    """Bytes seen and not acknowledged."""
    lag_seconds: float = 0.0
    """The greatest lag of a source."""
    totals: InputTotals = msgspec.field(default_factory=InputTotals)
    """What was acknowledged and parsed since the start."""


class AgentHealth:
    """The figures of one agent. `Agent` sets *phase* as it starts, runs and drains."""

    def __init__(
        self,
        registry: SourceRegistry,
        followed: Collection[FollowedFile],
        connection: Delivery,
        clock: Clock,
        config: AgentConfig,
        rule_counters: RuleCounters,
    ) -> None:
        self.registry = registry
        self.followed = followed
        self.connection = connection
        self.rule_counters = rule_counters
        self.lag = LagMeter()
        self.phase = STARTING
        self.inputs: dict[str, InputFigures] = {}  # by the input's name, as of the last look
        self._clock = clock
        self._started = clock.monotonic()
        self._looked_at = float("-inf")  # monotonic seconds
        self._behind_seconds = 0.0
        # tables of inputs, by their identity, with the names that they have, or had
        self._tables: dict[int, tuple[EventsTable, str]] = {}
        self.use_config(config)

    def use_config(self, config: AgentConfig) -> None:
        """Name inputs as *config* does: by their tables, as in `input[0]`.

        Tables of earlier ones keep their names: a counter must not go back.
        """
        self._behind_seconds = config.control.behind_seconds
        self._tables |= {id(table): (table, key) for key, table in config.tables()}

    async def run(self) -> None:
        """Look at all sources every few seconds, until cancelled.

        Not while files are found: nothing is sent yet, and there may be 100,000.
        """
        while True:
            began = self._clock.monotonic()
            if self.phase != STARTING:
                self.look()
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(_SECONDS, took * _SHARE))

    def look_if_stale(self) -> None:
        """Look at all sources, unless that was just done."""
        if self._clock.monotonic() - self._looked_at >= _FRESH_SECONDS:
            self.look()

    def look(self) -> None:
        """Look at all sources. Takes about 1 µs for one at rest."""
        now, lag, sources = self._clock.monotonic(), self.lag, self.registry.sources
        inputs = {name: InputFigures() for _, name in self._tables.values()}
        for table, finished in self.registry.finished_by_input.items():
            totals = inputs.setdefault(self._name_of_table(table), InputFigures()).totals
            _add(totals, finished)

        lag.begin_look(now, self._clock.now_ms())
        for source in sources:
            name = self._name_of(source)
            if (figures := inputs.get(name)) is None:
                figures = inputs[name] = InputFigures()
            figures.sources += 1
            figures.totals.add_source(source)
            if (waiting := lag.look_at(source)) is not None:
                lag_bytes, seconds = waiting
                figures.behind += 1
                figures.lag_bytes += lag_bytes
                figures.lag_seconds = max(figures.lag_seconds, seconds)
        lag.end_look(sources)
        self.inputs, self._looked_at = inputs, now

    def _name_of(self, source: Source) -> str:
        generation = source.generation
        return GONE if generation is None else self._name_of_table(id(generation.settings))

    def _name_of_table(self, table: int) -> str:
        """Return the name of the input with the identity *table*."""
        _, name = self._tables.get(table, (None, GONE))
        return name

    def rules(self) -> Iterator[tuple[str, RuleCounter]]:
        """Yield what each rule of a processor did, with the name of its input: each once."""
        totals: dict[tuple[str, int, str, str], RuleCounter] = {}
        for table, counter in self.rule_counters:
            name = self._name_of_table(id(table))
            key = name, counter.number, counter.action, counter.rule
            total = totals.setdefault(key, RuleCounter(*key[1:]))
            total.add(counter)
        for (name, *_), total in totals.items():
            yield name, total

    @property
    def uptime_seconds(self) -> float:
        """Seconds since the agent was made."""
        return self._clock.monotonic() - self._started

    @property
    def total(self) -> InputFigures:
        """The figures of all inputs together."""
        total = InputFigures()
        for one in self.inputs.values():
            total.sources += one.sources
            total.behind += one.behind
            total.lag_bytes += one.lag_bytes
            total.lag_seconds = max(total.lag_seconds, one.lag_seconds)
            _add(total.totals, one.totals)
        return total

    @property
    def not_ready_because(self) -> str:
        """Why the agent does not deliver as it should, for people; "" if it does."""
        if self.phase != RUNNING:
            return f"the agent is {self.phase}"
        lag = self.lag.longest_seconds(self._clock.monotonic())
        if self._behind_seconds and lag >= self._behind_seconds:
            because = self.connection.problem or "the receiver takes less than is written"
            return f"lines have waited for {lag:.0f} s: {because}"
        return ""


def _add(totals: InputTotals, others: InputTotals) -> None:
    totals.acknowledged.add(others.acknowledged)
    totals.parsed += others.parsed
    totals.failed += others.failed
    totals.truncated += others.truncated
