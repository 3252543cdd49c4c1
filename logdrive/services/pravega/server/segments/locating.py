"""LocateAppends: where a segment's appends are, and how each begins.

For readers that look for batches without their records, and for those on this host that read the
log files themselves. See docs/protocols/pravega.md#our-own-messages.
"""

from collections.abc import Callable
from typing import Final

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import HEADER_BYTES
from logdrive.net.turns import PORTION_SECONDS
from logdrive.services.pravega.server.segment_info import require_info
from logdrive.store.engine import Store
from logdrive.store.index.index import Extent
from logdrive.store.store_files import StoreFiles
from logdrive.wire.pravega.control import SegmentIsTruncated
from logdrive.wire.pravega.limits import PRAVEGA_HEAD_BYTES, PRAVEGA_LOCATED_APPENDS
from logdrive.wire.pravega.own import AppendsLocated, LocateAppends

_MOST_HEAD: Final = EVENT_HEAD + HEADER_BYTES
"""Bytes of one append's head at most: the longest header."""


def locate_appends(
    store: Store, files: StoreFiles | None, request: LocateAppends, time: Callable[[], float]
) -> AppendsLocated | SegmentIsTruncated:
    """Return the answer: as many appends as one turn of a connection lasts, but at least one.

    Heads are read as they are on the disk: to check them, all data would have to be read. *time* is
    the event loop's clock (s). Raises the store's errors.
    """
    segment, start = request.segment, request.start
    info = require_info(store, segment)
    end = min(request.end, info.length)
    if not info.start <= start < end:
        return SegmentIsTruncated(request.request_id, segment, info.start, "", start)

    head_bytes = max(0, min(request.head_bytes, _MOST_HEAD))
    most = PRAVEGA_LOCATED_APPENDS
    if head_bytes:
        most = min(most, PRAVEGA_HEAD_BYTES // head_bytes)
    found = _extents_until(store, segment, start, end, most)
    heads = []
    over = time() + PORTION_SECONDS
    for extent in found if head_bytes else ():
        at = max(extent.offset, start)
        size = min(head_bytes, extent.offset + extent.length - at)
        heads.append(store.read(segment, at, size, check=False, most=1))
        if time() >= over:  # the disk is slow, or the heads are not in the page cache
            del found[len(heads) :]
            break

    local = files is not None and request.host == files.host != ""
    return AppendsLocated(
        request.request_id,
        segment,
        (*(extent.offset for extent in found), found[-1].offset + found[-1].length),
        tuple(extent.place for extent in found),
        tuple(heads),
        store.store_id,
        files.directory if files is not None and local else "",
        files.identity if files is not None and local else "",
    )


def _extents_until(store: Store, segment: str, start: int, end: int, most: int) -> list[Extent]:
    """Return the first *most* extents that hold [*start*, *end*)."""
    found: list[Extent] = []
    for extent in store.extents(segment, start):
        found.append(extent)
        if len(found) == most or extent.offset + extent.length >= end:
            break
    return found
