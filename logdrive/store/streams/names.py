"""What scopes, streams and their segments are called (Pravega's naming)."""

import re
from typing import Final
from uuid import UUID

from logdrive.store.streams.errors import BadNameError
from logdrive.wire.pravega.routing import segment_name

SYSTEM: Final = "_system"
"""The scope of the store's own segments, which has no streams of users."""

OWN: Final = f"{SYSTEM}/_controller/"
"""What the names of the store's own segments begin with."""

_MARK: Final = "_MARK"
_NAME: Final = re.compile(r"_?[A-Za-z0-9.-]+")
_FIRST_SEGMENT: Final = re.compile(r"([^/]+)/([^/]+)/0\.#epoch\.0")
_SCOPE_LENGTH: Final = 255
_STREAM_LENGTH: Final = 250
_NUMBER_BITS: Final = 32


def check_scope(name: str) -> None:
    """Raise `BadNameError` unless *name* can be a scope's: letters, digits, '.' and '-', after '_'
    for what is internal to clients.
    """
    if name == SYSTEM or len(name) > _SCOPE_LENGTH or _NAME.fullmatch(name) is None:
        raise BadNameError(f"{name[:300]!r} is no name for a scope")


def check_stream(name: str) -> None:
    """Raise `BadNameError` unless *name* can be a stream's."""
    if len(name) > _STREAM_LENGTH or _NAME.fullmatch(name) is None:
        raise BadNameError(f"{name[:300]!r} is no name for a stream")


def state_of(group: str) -> str:
    """Return the stream in which the readers of *group* agree. Raises `BadNameError`."""
    check_stream(stream := f"_RG{group}")
    return stream


def mark_of(stream: str) -> str:
    """Return the stream in which readers look for how far the time of *stream* has come."""
    return f"{_MARK}{stream}"


def marked(stream: str) -> str | None:
    """Return the stream whose mark *stream* is; None where it is none."""
    return stream.removeprefix(_MARK) if stream.startswith(_MARK) else None


def map_segment(scope: str, table: str, number: int) -> str:
    """Return the full name of a key-value table's segment. Raises `BadNameError`."""
    check_stream(table)
    return segment_name(scope, f"{table}_kvtable", number, 0)


def stream_of(segment: str) -> tuple[str, str] | None:
    """Return scope and stream whose first segment *segment* is; None where it is not the first of a
    stream, or of none.
    """
    found = _FIRST_SEGMENT.fullmatch(segment)
    if found is None:
        return None
    scope, stream = found.groups()
    try:
        check_scope(scope)
        check_stream(stream)
    except BadNameError:
        return None
    return scope, stream


def segment_id(number: int, epoch: int) -> int:
    """Return the id of the segment that *epoch* made with *number*."""
    return epoch << _NUMBER_BITS | number


def epoch_of(segment: int) -> int:
    """Return the epoch that made the segment of that id."""
    return segment >> _NUMBER_BITS


def number_of(segment: int) -> int:
    """Return the number of the segment of that id, which no other one of its stream has."""
    return segment & ((1 << _NUMBER_BITS) - 1)


def name_of(scope: str, stream: str, segment: int) -> str:
    """Return the full name of the segment of that id."""
    return segment_name(scope, stream, number_of(segment), epoch_of(segment))


def transaction_name(segment: str, transaction: UUID) -> str:
    """Return the name of the segment in which *transaction* gathers what goes to *segment*."""
    return f"{segment}#transaction.{transaction.hex}"
