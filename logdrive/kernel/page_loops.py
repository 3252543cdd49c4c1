"""The loop that writes pages of texts, if logdrive was installed with it: there is none in Python.

`LOGDRIVE_LOOPS=plain` leaves it out.
"""

from typing import TYPE_CHECKING

from logdrive.kernel import page_plain
from logdrive.kernel.choose import compiled_or

if TYPE_CHECKING:
    chosen = page_plain
else:
    chosen = compiled_or(page_plain, "_page_loops", "snappy_page")

snappy_page = chosen.snappy_page
