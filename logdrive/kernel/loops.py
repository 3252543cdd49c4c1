"""The loops that run once per line: compiled in C if logdrive was installed so, else in Python.

The compiled loops save about half of a line's cost in full records (docs/benchmarks.md). Nothing
else depends on them. `LOGDRIVE_LOOPS=plain` selects the Python ones.
"""

from typing import TYPE_CHECKING, Final

from logdrive.kernel import plain
from logdrive.kernel.choose import compiled_or

LOOPS: Final = (
    "adler32",
    "cut_events",
    "count_lines",
    "place_lines",
    "scan_lines",
    "line_frames",
    "line_events",
    "walk_plain",
)

if TYPE_CHECKING:
    chosen = plain
else:
    chosen = compiled_or(plain, "_loops", *LOOPS)

COMPILED: Final[bool] = chosen is not plain

adler32 = chosen.adler32
cut_events = chosen.cut_events
count_lines = chosen.count_lines
place_lines = chosen.place_lines
scan_lines = chosen.scan_lines
line_frames = chosen.line_frames
line_events = chosen.line_events
walk_plain = chosen.walk_plain
