"""The agent's configuration: parsed and checked once at start, never changed.

`config/agent.toml` explains each key.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from agent.config.agent_table import AgentTable
from agent.config.control import ControlTable
from agent.config.events import EventsTable
from agent.config.files import InputTable
from agent.config.journald import JournaldTable
from agent.config.output import OutputTable
from agent.config.spooled import PipeTable, SocketTable, SpooledTable, StdinTable, SyslogTable
from logdrive.records.flatten import OWN_KEYS, flatten_labels
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK

_OWN_PAIRS: Final = len(OWN_KEYS) + 2
"""Pairs that an event may have besides its fields, and those that say why fields were left out."""


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole agent.toml."""

    agent: AgentTable
    """The [agent] table."""

    input: list[InputTable] = msgspec.field(default_factory=list)
    """The [[input]] tables; a file belongs to the first that matches it."""

    stdin: StdinTable | None = None
    """The [stdin] table."""

    pipe: list[PipeTable] = msgspec.field(default_factory=list)
    """The [[pipe]] tables."""

    socket: list[SocketTable] = msgspec.field(default_factory=list)
    """The [[socket]] tables."""

    syslog: list[SyslogTable] = msgspec.field(default_factory=list)
    """The [[syslog]] tables."""

    journald: JournaldTable | None = None
    """The [journald] table."""

    output: OutputTable
    """The [output] table."""

    control: ControlTable = ControlTable()
    """The [control] table."""

    @property
    def spooled(self) -> dict[str, SpooledTable]:
        """The tables of inputs whose bytes are spooled, by the keys that they have in the file."""
        return {key: table for key, table in self.tables() if isinstance(table, SpooledTable)}

    def tables(self) -> Iterator[tuple[str, EventsTable]]:
        """Yield each input's table, with the key that it has in the file."""
        for key in ("input", "pipe", "socket", "syslog"):
            for number, table in enumerate(getattr(self, key)):
                yield f"{key}[{number}]", table
        for key in ("stdin", "journald"):
            if (table := getattr(self, key)) is not None:
                yield key, table

    def __post_init__(self) -> None:
        """Refuse what no table shows alone: no input, one twice, too many fields."""
        self._require_input()
        self._refuse_doubles()
        if self.output.dialect in ("lumberjack/1", "auto"):
            self._limit_pairs()

    def _require_input(self) -> None:
        if next(self.tables(), None) is None:
            raise ValueError(
                "input: there is none: write at least one of [[input]], [stdin], [[pipe]], "
                "[[socket]], [[syslog]], [journald]"
            )

    def _refuse_doubles(self) -> None:
        """Refuse two inputs of one name: both would be one source."""
        seen = dict[str, str]()
        for key, table in self.tables():
            if isinstance(table, SpooledTable):
                if table.name in seen:
                    raise ValueError(f"{key}: it is {seen[table.name]} once more: {table.name}")
                seen[table.name] = key

    def _limit_pairs(self) -> None:
        """Refuse fields that Lumberjack v1 can't carry, as the agent may speak it."""
        for key, table in self.tables():
            name = key.partition("[")[0]
            try:
                pairs = len(flatten_labels(table.fields, table.tags)) + _OWN_PAIRS
            except ValueError as error:
                raise ValueError(f"{name}: in {key}, {error}") from error
            if pairs > PLAIN_LUMBERJACK.pairs:
                most = PLAIN_LUMBERJACK.pairs - _OWN_PAIRS
                raise ValueError(
                    f"{name}: {key} has more than {most} fields, the most that "
                    f"{self.output.dialect} carries"
                )
