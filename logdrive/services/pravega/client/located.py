"""What a store answers to LocateAppends, checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from logdrive.errors import ProtocolError
from logdrive.store.index.segment import Extent
from logdrive.store.store_files import StoreFiles
from logdrive.wire.pravega.own import AppendsLocated


@dataclass(frozen=True, slots=True)
class LocatedAppends:
    """The first of the appends that hold a range of a segment, without a gap between them."""

    extents: Sequence[Extent]
    """At least one; the first holds the start of the range."""
    heads: Sequence[bytes]
    """How each begins, the first from the start of the range on; unchecked. [] if not asked for."""
    store: UUID
    """The store's id."""
    files: StoreFiles | None
    """Where the store's log is, if the client asked from the store's host."""


def read_located(answer: AppendsLocated, start: int, head_bytes: int, host: str) -> LocatedAppends:
    """Return what *answer* says; the other arguments are those of the request.

    Raises `ProtocolError` if it is no answer to that request.
    """
    extents = [
        Extent(offset, place, end - offset)
        for (offset, end), place in zip(pairwise(answer.offsets), answer.places, strict=False)
    ]
    if (
        not extents
        or len(answer.offsets) != len(answer.places) + 1
        or min(extent.length for extent in extents) <= 0
        or not extents[0].offset <= start < extents[0].offset + extents[0].length
    ):
        raise _unfitting(answer, start)

    heads: list[bytes] = []
    if head_bytes:
        data = b"".join(answer.heads) if isinstance(answer.heads, tuple) else answer.heads
        at, place = 0, start
        for extent in extents:
            end = at + min(head_bytes, extent.offset + extent.length - place)
            heads.append(bytes(data[at:end]))
            at, place = end, extent.offset + extent.length
        if at != len(data):
            raise _unfitting(answer, start)

    files = StoreFiles(host, answer.directory, answer.identity) if answer.directory else None
    return LocatedAppends(extents, heads, answer.store, files)


def _unfitting(answer: AppendsLocated, start: int) -> ProtocolError:
    return ProtocolError(
        f"{len(answer.places)} appends of {answer.segment} that are none from {start} on", offset=0
    )
