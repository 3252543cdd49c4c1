"""Names of scopes and streams (Pravega's naming), and of streams that belong to others."""

import re
from typing import Final

from logdrive.store.streams.errors import BadNameError
from logdrive.wire.pravega.names import KV_TABLE_SUFFIX, SegmentName, segment_name

SYSTEM: Final = "_system"
"""The scope of the store's own segments; users have no streams there."""

CONTROLLER: Final = "_controller"
"""The internal stream of `SYSTEM` that has the journal of streams."""

S2: Final = "_s2"
"""The internal stream of `SYSTEM` that has what only S2 knows of streams."""

S2_INDEX: Final = "_s2-index"
"""What precedes, in `SYSTEM`, the names of segments that S2's numbers of records are kept for."""

IGGY: Final = "_iggy"
"""The internal stream of `SYSTEM` that has what only Iggy knows of streams, and its offsets."""

OWN: Final = tuple(f"{SYSTEM}/{name}/" for name in (CONTROLLER, S2, S2_INDEX, IGGY))
"""Prefixes of the names of the store's own segments."""

_MARK: Final = "_MARK"
_NAME: Final = re.compile(r"_?[A-Za-z0-9.-]+")
_SCOPE_LENGTH: Final = 255
_STREAM_LENGTH: Final = 250


def check_scope(name: str) -> None:
    """Raise `BadNameError` unless *name* is valid for a scope.

    Letters, digits, '.' and '-', after '_' for scopes that clients use internally.
    """
    if name == SYSTEM or len(name) > _SCOPE_LENGTH or _NAME.fullmatch(name) is None:
        raise BadNameError(f"{name[:300]!r} is not a valid name for a scope")


def check_stream(name: str) -> None:
    """Raise `BadNameError` unless *name* is valid for a stream."""
    if len(name) > _STREAM_LENGTH or _NAME.fullmatch(name) is None:
        raise BadNameError(f"{name[:300]!r} is not a valid name for a stream")


def is_plain_name(name: str) -> bool:
    """Return whether *name* can be a user's name of a stream, or of a scope, in every protocol.

    Those with "_" in front are internal.
    """
    if name.startswith("_") or name.endswith(KV_TABLE_SUFFIX):
        return False
    try:
        check_stream(name)
    except BadNameError:
        return False
    return True


def group_stream(group: str) -> str:
    """Return the stream that the readers of *group* share their state in. Raises `BadNameError`."""
    check_stream(stream := f"_RG{group}")
    return stream


def mark_stream(stream: str) -> str:
    """Return the stream that has the watermarks of *stream*."""
    return f"{_MARK}{stream}"


def marked_stream(stream: str) -> str | None:
    """Return the stream whose watermarks *stream* has; None if it is not a mark stream."""
    return stream.removeprefix(_MARK) if stream.startswith(_MARK) else None


def kv_table_segment(scope: str, table: str, number: int) -> str:
    """Return the full name of a key-value table's segment. Raises `BadNameError`."""
    check_stream(table)
    return segment_name(scope, table + KV_TABLE_SUFFIX, number)


def stream_of_first_segment(segment: str) -> tuple[str, str] | None:
    """Return the scope and the stream whose first segment is *segment*.

    None if it is not a first segment, or has names that are not allowed.
    """
    name = SegmentName.match(segment)
    if name is None or name.id != 0:
        return None
    try:
        check_scope(name.scope)
        check_stream(name.stream)
    except BadNameError:
        return None
    return name.scope, name.stream
