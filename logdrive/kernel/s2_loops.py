"""The loops that run once per record of S2's protocol: compiled in C if logdrive was installed so,
else in Python.

Nothing else depends on them. `LOGDRIVE_LOOPS=plain` selects the Python ones.
"""

import os
from typing import TYPE_CHECKING, Final

from logdrive.kernel import s2_plain

if not TYPE_CHECKING:
    try:
        if os.environ.get("LOGDRIVE_LOOPS") == "plain":
            raise ImportError
        from logdrive.kernel import _s2_loops as chosen
    except ImportError:
        chosen = s2_plain
else:
    chosen = s2_plain

COMPILED: Final[bool] = chosen is not s2_plain

frame_bodies = chosen.frame_bodies
encode_records = chosen.encode_records
