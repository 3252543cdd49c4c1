"""The loops that run once per line of a file's text: compiled in C if logdrive was installed so,
else in Python.

Nothing else depends on them. `LOGDRIVE_LOOPS=plain` selects the Python ones.
"""

from typing import TYPE_CHECKING, Final

from logdrive.kernel import text_plain
from logdrive.kernel.choose import compiled_or

if TYPE_CHECKING:
    chosen = text_plain
else:
    chosen = compiled_or(text_plain, "_text_loops", "json_text", "split_texts")

COMPILED: Final[bool] = chosen is not text_plain

json_text = chosen.json_text
split_texts = chosen.split_texts
