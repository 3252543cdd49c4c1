"""Chooses where to start in files that exist at the agent's first start (rule P2)."""

from typing import Final

from agent.inputs.files.file import Generation
from logdrive.model.units import KIB

_STEP: Final = 64 * KIB
"""Bytes per read while the last newline is searched from the end."""


def decide_start(generation: Generation) -> bool:
    """Set where to start in an open file whose input has `start = "end"`.

    That is the end of its last whole line. A file without a first line yet starts at 0. Returns
    whether bytes are skipped.
    """
    if (
        generation.settings.start != "end"
        or generation.first_line is None
        or generation.file is None
    ):
        return False

    end = generation.seen
    while end > 0:
        begin = max(0, end - _STEP)
        newline = generation.file.pread(end - begin, begin).rfind(b"\n")
        if newline >= 0:
            generation.set_start(begin + newline + 1)
            return True
        end = begin

    return False
