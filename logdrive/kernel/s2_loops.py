"""The loops that run once per record of S2's protocol: compiled in C if logdrive was installed so,
else in Python.

Nothing else depends on them. `LOGDRIVE_LOOPS=plain` selects the Python ones.
"""

from typing import TYPE_CHECKING, Final

from logdrive.kernel import s2_plain
from logdrive.kernel.choose import compiled_or

if TYPE_CHECKING:
    chosen = s2_plain
else:
    chosen = compiled_or(s2_plain, "_s2_loops", "frame_bodies", "encode_records")

COMPILED: Final[bool] = chosen is not s2_plain

frame_bodies = chosen.frame_bodies
encode_records = chosen.encode_records
