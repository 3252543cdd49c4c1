"""The agent's configuration: parsed and checked once at start, never changed.

`config/agent.toml` explains each key.
"""

from typing import Annotated

import msgspec

from agent.config.agent_table import AgentTable
from agent.config.files import InputTable
from agent.config.output import OutputTable
from logdrive.records.flatten import OWN_KEYS, flatten_labels
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole agent.toml."""

    agent: AgentTable
    """The [agent] table."""

    input: Annotated[list[InputTable], msgspec.Meta(min_length=1)]
    """The [[input]] tables; a file belongs to the first that matches it."""

    output: OutputTable
    """The [output] table."""

    def __post_init__(self) -> None:
        """Refuse fields that Lumberjack v1 can't carry if the agent may speak it."""
        if self.output.dialect not in ("lumberjack/1", "auto"):
            return
        for number, table in enumerate(self.input):
            try:
                pairs = len(flatten_labels(table.fields, table.tags)) + len(OWN_KEYS)
            except ValueError as error:
                raise ValueError(f"input: in input[{number}], {error}") from error
            if pairs > PLAIN_LUMBERJACK.pairs:
                most = PLAIN_LUMBERJACK.pairs - len(OWN_KEYS)
                raise ValueError(
                    f"input: input[{number}] has more than {most} fields, the most that "
                    f"{self.output.dialect} carries"
                )
