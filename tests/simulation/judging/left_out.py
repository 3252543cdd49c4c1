"""Bytes that the agents of some histories leave out, and what the judge makes of that."""

import re
from typing import Final

from tests.simulation.plan import AgentPlan

EXCLUDED: Final = re.compile(rb"line \d*[37]\b")
"""What the [[input.processor]] table `exclude` of such an agent searches for."""
_CHARACTER: Final = 3  # bytes of one, at most, beyond which no event that is cut ends


def may_be_left_out(data: bytes | bytearray, start: int, end: int, plan: AgentPlan) -> bool:
    """Return whether the agent of *plan* may leave out the bytes from *start* to *end* of *data*.

    These are the rest of an event that is too long, and events that match `EXCLUDED`. Where events
    have several lines, it is enough that one line matches.
    """
    lines = bytes(data[start:end]).splitlines(keepends=True)
    line = data.rfind(b"\n", 0, start) + 1
    if plan.longest and plan.several_lines and (start or "exclude" in plan.processors):
        lines = []  # where an event of several lines is cut can't be told
    elif plan.longest and start - line > plan.longest - _CHARACTER:
        lines = lines[1:]
    if not lines:
        return end <= len(data)
    if "exclude" not in plan.processors or end > len(data):
        return False
    found = [_is_excluded(line, plan) for line in lines]
    return any(found) if plan.several_lines else all(found)


def may_be_there(data: bytes, plan: AgentPlan) -> bool:
    """Return whether *data*, which arrived, has no event that the agent of *plan* excludes."""
    return "exclude" not in plan.processors or EXCLUDED.search(data) is None


def _is_excluded(line: bytes, plan: AgentPlan) -> bool:
    """Return whether *line*, or what is left of it where it is too long, matches `EXCLUDED`."""
    cuts = range(plan.longest - _CHARACTER, plan.longest + 1) if plan.longest else ()
    return any(EXCLUDED.search(one) for one in (line, *(line[:cut] for cut in cuts)))
