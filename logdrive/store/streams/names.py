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

_NAME: Final = re.compile(r"_?[A-Za-z0-9.-]+")
_FIRST_SEGMENT: Final = re.compile(r"([^/]+)/([^/]+)/0\.#epoch\.0")
_SCOPE_LENGTH: Final = 255
_STREAM_LENGTH: Final = 250
_NUMBER_BITS: Final = 32


def check_scope(name: str) -> None:
    """Raise `BadNameError` unless *name* can be a scope's: letters, digits, '.' and '-', after '_' for what is internal to clients."""
    if name == SYSTEM or len(name) > _SCOPE_LENGTH or _NAME.fullmatch(name) is None:
        raise BadNameError(f"{name[:300]!r} is no name for a scope")


def check_stream(name: str) -> None:
    """Raise `BadNameError` unless *name* can be a stream's."""
    if len(name) > _STREAM_LENGTH or _NAME.fullmatch(name) is None:
        raise BadNameError(f"{name[:300]!r} is no name for a stream")


def stream_of(segment: str) -> tuple[str, str] | None:
    """Return scope and stream whose first segment *segment* is; None where it is not the first of a stream, or of none."""
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


def name_of(scope: str, stream: str, segment: int) -> str:
    """Return the full name of the segment of that id."""
    return segment_name(scope, stream, segment & ((1 << _NUMBER_BITS) - 1), epoch_of(segment))


def transaction_name(segment: str, transaction: UUID) -> str:
    """Return the name of the segment in which *transaction* gathers what goes to *segment*."""
    return f"{segment}#transaction.{transaction.hex}"
