"""Names of S2's streams in the store's catalog.

A name that the catalog allows is the same there. Any other, such as one with a slash, has a stream
of the catalog that is called by a digest of it; only the S2 face's journal knows whose it is. Of a
stream that another face made with several segments, each segment is a stream of S2.
"""

import hashlib
import re
from typing import Final, NamedTuple

from logdrive.store.streams.names import is_plain_name
from logdrive.store.streams.state import Stream
from logdrive.wire.pravega.names import number_of_id, segment_name

_DIGESTED: Final = "_s2-"
_DIGEST_CHARACTERS: Final = 32
_NUMBERED: Final = re.compile(r"(.+)/(0|[1-9]\d{0,9})", re.DOTALL)


class NumberedName(NamedTuple):
    """The name of a segment of a stream that has several: `stream/number`."""

    stream: str
    number: int


def catalog_stream(name: str) -> str:
    """Return the stream of the catalog that an S2 stream called *name* has."""
    if is_plain_name(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{_DIGESTED}{digest[:_DIGEST_CHARACTERS]}"


def numbered_name(name: str) -> NumberedName | None:
    """Return what *name* means if it is that of one segment of several."""
    match = _NUMBERED.fullmatch(name)
    if match is None or not is_plain_name(match[1]):
        return None
    return NumberedName(match[1], int(match[2]))


def shown_names(name: str, stream: Stream) -> list[str]:
    """Return the names in S2 of a stream of the catalog."""
    if is_whole(stream):
        return [name]
    return [f"{name}/{number_of_id(segment.id)}" for segment in stream.segments]


def is_whole(stream: Stream) -> bool:
    """Return whether *stream* has one segment and never had others at the same time or before."""
    return len(stream.segments) == 1 and len(stream.epochs) == 1


def segment_of(scope: str, name: str, stream: Stream, number: int | None) -> str | None:
    """Return the full name of a stream's only segment, or of the one with *number*.

    None if it has no such segment.
    """
    if number is None:
        return segment_name(scope, name, stream.segments[0].id) if is_whole(stream) else None
    if is_whole(stream):
        return None
    return next(
        (
            segment_name(scope, name, segment.id)
            for segment in stream.segments
            if number_of_id(segment.id) == number
        ),
        None,
    )
