"""Asks an agent's control desk, without a socket."""

from typing import Any

import msgspec

from agent.control.messages import ControlAnswer
from tests.agent.world import World


async def ask(world: World, do: str, **keys: Any) -> ControlAnswer:
    """Return the answer to a request."""
    assert world.agent is not None
    line = msgspec.json.encode({"do": do, **keys}) + b"\n"
    return msgspec.json.decode(await world.agent.operations.desk.answer(line), type=ControlAnswer)
