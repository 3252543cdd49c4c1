"""Where to start in the files that are there when the agent runs for the very first time (rule
P2).
"""

from typing import Final

from agent.inputs.files.file import Generation
from logdrive.model.units import KIB

_STEP: Final = 64 * KIB


def decide_start(generation: Generation) -> bool:
    """Let an open file that is to be followed from its end start there; return whether that skips
    anything.

    The end is rounded down to a line's start. A file that has no first line yet starts at 0.
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
