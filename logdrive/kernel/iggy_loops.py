"""The loops that run once per message of Iggy's protocol: compiled in C if logdrive was installed
so, else in Python.

Nothing else depends on them. `LOGDRIVE_LOOPS=plain` selects the Python ones.
"""

from typing import TYPE_CHECKING, Final

from logdrive.kernel import iggy_plain
from logdrive.kernel.choose import compiled_or

if TYPE_CHECKING:
    chosen = iggy_plain
else:
    chosen = compiled_or(
        iggy_plain, "_iggy_loops", "frame_messages", "encode_messages", "cut_messages"
    )

COMPILED: Final[bool] = chosen is not iggy_plain

frame_messages = chosen.frame_messages
encode_messages = chosen.encode_messages
cut_messages = chosen.cut_messages
