"""The loops that run once per line: compiled in C if logdrive was installed so, else in Python.

The compiled loops save about half of a line's cost in full records (docs/benchmarks.md). Nothing
else depends on them. `LOGDRIVE_LOOPS=plain` selects the Python ones.
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
