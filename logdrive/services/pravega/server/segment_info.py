"""`require_info`: what is durable of a segment that must exist."""

from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.index.index import SegmentInfo


def require_info(store: Store, segment: str) -> SegmentInfo:
    """Return what is durable of *segment*, by its full name. Raises `NoSuchSegmentError`."""
    info = store.info(segment)
    if info is None:
        raise NoSuchSegmentError(segment)
    return info
