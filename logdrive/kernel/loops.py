"""The loops that run once a line: compiled where that could be done when logdrive was installed,
else in Python.

The compiled ones save about half of what a line costs in full records (docs/benchmarks.md); nothing
else depends on them. `LOGDRIVE_LOOPS=plain` takes those in Python.
"""

import os
from typing import TYPE_CHECKING, Final

from logdrive.kernel import plain

if not TYPE_CHECKING:
    try:
        if os.environ.get("LOGDRIVE_LOOPS") == "plain":
            raise ImportError
        from logdrive.kernel import _loops as chosen
    except ImportError:
        chosen = plain
else:
    chosen = plain

COMPILED: Final[bool] = chosen is not plain

cut_events = chosen.cut_events
place_lines = chosen.place_lines
full_frames = chosen.full_frames
