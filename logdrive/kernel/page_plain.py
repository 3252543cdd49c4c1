"""No loop: without a compiler, Arrow makes the pages that `page_loops` would make."""

from collections.abc import Callable
from typing import Any

SnappyPage = Callable[[bytes, Any, Any, int, int, bytearray], int]
"""`snappy_page(levels, offsets, data, first, count, room)` makes a page of texts, compressed.

The page is *levels*, and the *count* texts from the *first* on, each behind its length, as
Parquet's encoding PLAIN has them. *offsets* and *data* are buffers of bytes: *offsets* has the
places of 32 bits in *data* where the texts begin, and where the last ends.

Returns the bytes of the compressed page, which is at the beginning of *room*. That has to be 200
bytes more than twice the page before it is compressed. Raises ValueError if it is less, if the
places do not rise within *data*, or if the page has 2 GiB or more.
"""

snappy_page: SnappyPage | None = None
