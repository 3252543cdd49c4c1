"""Messages of the connection itself, and all error replies
(docs/protocols/pravega.md#messages).
"""

from typing import Final

from logdrive.wire.pravega.fields import I32, I64, TailI32, TailI64, TailText, Text, Uuid
from logdrive.wire.pravega.layout import Message, message

WIRE_VERSION: Final = 17
"""The highest wire version that is spoken here."""
OLDEST_COMPATIBLE: Final = 5
"""The lowest one."""
UNSPECIFIED, TOKEN_CHECK_FAILED, TOKEN_EXPIRED = -1, 0, 1
"""Error codes of AuthTokenCheckFailed."""
ILLEGAL_ARGUMENT: Final = 0
"""Error code of ErrorMessage, beside UNSPECIFIED."""


@message(-127)
class Hello(Message):
    """The wire versions that a side speaks. Each side sends one, the client first."""

    high: I32 = WIRE_VERSION
    low: I32 = OLDEST_COMPATIBLE


@message(100)
class KeepAlive(Message):
    """A probe without content; a server echoes it."""


@message(50)
class WrongHost(Message):
    """The segment is at another segment store, or at none for now."""

    request_id: I64
    segment: Text
    correct_host: Text = ""
    stack_trace: TailText = ""


@message(51)
class SegmentIsSealed(Message):
    """The segment is sealed.

    *offset* is the offset of the read, or the event number of the append.
    """

    request_id: I64
    segment: Text
    stack_trace: TailText = ""
    offset: TailI64 = -1


@message(52)
class SegmentAlreadyExists(Message):
    """The segment exists already and can't be created."""

    request_id: I64
    segment: Text
    stack_trace: TailText = ""


@message(53)
class NoSuchSegment(Message):
    """There is no segment of that name. *offset* is the offset of the read, else -1."""

    request_id: I64
    segment: Text
    stack_trace: TailText = ""
    offset: TailI64 = -1


@message(55, below=16, was=("writer", "event_number", "stack_trace"))
class InvalidEventNumber(Message):
    """The writer's number is not the one that the append follows; the server closes then."""

    writer: Uuid
    request_id: I64 = -1
    stack_trace: TailText = ""
    event_number: TailI64 = -1


@message(56)
class SegmentIsTruncated(Message):
    """The read's *offset* lies before *start_offset*, the segment's first byte now."""

    request_id: I64
    segment: Text
    start_offset: I64
    stack_trace: TailText = ""
    offset: TailI64 = -1


@message(57)
class OperationUnsupported(Message):
    """The server knows the request but does not serve it."""

    request_id: I64
    operation: Text
    stack_trace: TailText = ""


@message(60)
class AuthTokenCheckFailed(Message):
    """The token does not allow the request."""

    request_id: I64
    stack_trace: TailText = ""
    error_code: TailI32 = UNSPECIFIED


@message(61)
class ErrorMessage(Message):
    """Refuses a request that is invalid; *error_code* is ILLEGAL_ARGUMENT or UNSPECIFIED."""

    request_id: I64
    segment: Text
    text: Text
    error_code: I32


@message(80)
class TableSegmentNotEmpty(Message):
    """The table has keys, and the request was to delete an empty table."""

    request_id: I64
    segment: Text
    stack_trace: Text = ""


@message(81)
class TableKeyDoesNotExist(Message):
    """A key was expected at some version and does not exist."""

    request_id: I64
    segment: Text
    stack_trace: Text = ""


@message(82)
class TableKeyBadVersion(Message):
    """A key is at another version than expected."""

    request_id: I64
    segment: Text
    stack_trace: Text = ""
