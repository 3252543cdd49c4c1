"""Iggy's errors: neutral reasons, and the code of each in every revision.

See docs/protocols/iggy.md#errors. A server raises `IggyError` with a reason and sends its
`code(revision)`; a client makes the same exception from a status by `error_of`.
"""

from enum import IntEnum
from typing import Final

from logdrive.errors import LogdriveError
from logdrive.wire.iggy.identifiers import Identifier
from logdrive.wire.iggy.revision import Revision


class Reason(IntEnum):
    """Why a request failed. The value is the code of R3; `IggyError.code` knows the others."""

    ERROR = 1
    INVALID_CONFIGURATION = 2
    INVALID_COMMAND = 3  # unknown code, or a payload that can't be read
    INVALID_FORMAT = 4
    FEATURE_UNAVAILABLE = 5
    INVALID_IDENTIFIER = 6
    INVALID_VERSION = 7
    DISCONNECTED = 8
    RESOURCE_NOT_FOUND = 20
    STALE_CLIENT = 30
    UNAUTHENTICATED = 40
    UNAUTHORIZED = 41
    INVALID_CREDENTIALS = 42
    INVALID_USER_NAME = 43
    INVALID_PASSWORD = 44
    INVALID_USER_STATUS = 45
    USER_EXISTS = 46
    USER_INACTIVE = 47
    CANNOT_DELETE_USER = 48
    CANNOT_CHANGE_PERMISSIONS = 49
    INVALID_TOKEN_NAME = 50
    TOKEN_EXISTS = 51
    TOO_MANY_TOKENS = 52
    INVALID_TOKEN = 53
    TOKEN_EXPIRED = 54
    TOO_MANY_USERS = 55
    INVALID_TOKEN_EXPIRY = 56
    NOT_COMMITTED = 57  # R3: the outcome is not known
    NOT_ACCEPTED = 58  # R3: not begun
    ALREADY_APPLIED = 59  # R3: another request had this number
    NOT_CONNECTED = 61
    CLIENT_SHUTDOWN = 63
    CLIENT_NOT_FOUND = 100
    INVALID_CLIENT_ID = 101

    CANNOT_CREATE_STREAM = 1000
    STREAM_NOT_FOUND = 1009
    STREAM_NAME_NOT_FOUND = 1010
    STREAM_ID_EXISTS = 1011
    STREAM_NAME_EXISTS = 1012
    INVALID_STREAM_NAME = 1013
    INVALID_STREAM_ID = 1014
    CANNOT_READ_STREAMS = 1015
    INVALID_TOPIC_SIZE = 1019
    TOO_MANY_STREAMS = 1020

    CANNOT_CREATE_TOPIC = 2000
    TOPIC_NOT_FOUND = 2010
    TOPIC_NAME_NOT_FOUND = 2011
    TOPIC_ID_EXISTS = 2012
    TOPIC_NAME_EXISTS = 2013
    INVALID_TOPIC_NAME = 2014
    TOO_MANY_PARTITIONS = 2015
    INVALID_TOPIC_ID = 2016
    CANNOT_READ_TOPICS = 2017
    INVALID_REPLICATION_FACTOR = 2018
    INVALID_PARTITIONS_COUNT = 2019
    TOO_MANY_TOPICS = 2021

    CANNOT_CREATE_PARTITION = 3000
    PARTITION_NOT_FOUND = 3007
    NO_PARTITIONS = 3008
    TOPIC_FULL = 3009
    CANNOT_READ_OFFSETS = 3020
    OFFSET_NOT_FOUND = 3021
    UNRESOLVED_CONSUMER = 3022

    SEGMENT_NOT_FOUND = 4000
    SEGMENT_CLOSED = 4001
    INVALID_MESSAGES_COUNT = 4009
    CANNOT_APPEND = 4010
    USER_HEADERS_TOO_BIG = 4017
    INVALID_HEADER_KEY = 4018
    INVALID_HEADER_VALUE = 4019
    PAYLOAD_TOO_BIG = 4022
    TOO_MANY_MESSAGES = 4023
    EMPTY_PAYLOAD = 4024
    INVALID_PAYLOAD_LENGTH = 4025
    CHECKSUM_MISMATCH = 4027
    INVALID_PARTITIONING = 4028
    INVALID_COMMAND_LENGTH = 4029
    NON_ZERO_OFFSET = 4031
    NON_ZERO_TIMESTAMP = 4032
    MISSING_INDEX = 4033  # of a message that the request announces, or ends elsewhere
    INVALID_INDEXES_SIZE = 4034
    INVALID_INDEXES_COUNT = 4035
    INVALID_MESSAGES_SIZE = 4036
    TOO_SMALL_MESSAGE = 4037
    INVALID_TIMESTAMP_DELTA = 4038
    BATCH_CHECKSUM_MISMATCH = 4039
    INVALID_HEADER_KIND = 4040
    UNKNOWN_OPTION = 4041
    INVALID_OPTION_VALUE = 4042
    OPTIONS_TOO_BIG = 4043
    INVALID_OFFSET = 4100
    INVALID_RESERVED_FIELD = 4101

    GROUP_NOT_FOUND = 5000
    GROUP_ID_EXISTS = 5001
    INVALID_GROUP_ID = 5002
    GROUP_NAME_NOT_FOUND = 5003
    GROUP_NAME_EXISTS = 5004
    INVALID_GROUP_NAME = 5005
    GROUP_MEMBER_NOT_FOUND = 5006
    PARTITION_NOT_OWNED = 5009

    SNAPSHOT_FAILED = 9000
    SHARD_PANICKED = 11001
    TIMED_OUT = 12001
    IO_ERROR = 13000
    ALREADY_AUTHENTICATED = 14000
    INVALID_SESSION = 14001
    INCOMPATIBLE_PROTOCOL = 14003


# what R0 called otherwise, or had other numbers for
_R0: Final = {
    Reason.CANNOT_READ_OFFSETS: 4101,
    Reason.GROUP_ID_EXISTS: 5001,
    Reason.GROUP_NAME_EXISTS: 5001,
    Reason.GROUP_NAME_NOT_FOUND: 5000,
    Reason.GROUP_MEMBER_NOT_FOUND: 5002,
    Reason.INVALID_GROUP_ID: 5003,
    Reason.IO_ERROR: 200,
}
# a thing that is missing by its name is told like one that is missing by its id
_R2C: Final = {
    Reason.STREAM_NAME_NOT_FOUND: 1009,
    Reason.TOPIC_NAME_NOT_FOUND: 2010,
    Reason.GROUP_NAME_NOT_FOUND: 5000,
}
_CODES: Final = {revision: {reason: int(reason) for reason in Reason} for revision in Revision}
for _revision in (Revision.R0, Revision.R0B):
    _CODES[_revision] |= _R0
for _revision in (Revision.R2A, Revision.R2B, Revision.R2C, Revision.R3):
    _CODES[_revision] |= _R2C
_REASONS: Final = {
    # of several reasons with one code the first is meant
    revision: {code: reason for reason, code in reversed(codes.items())}
    for revision, codes in _CODES.items()
}

_NOT_FOUND: Final = frozenset(
    {
        Reason.STREAM_NOT_FOUND,
        Reason.STREAM_NAME_NOT_FOUND,
        Reason.TOPIC_NOT_FOUND,
        Reason.TOPIC_NAME_NOT_FOUND,
        Reason.PARTITION_NOT_FOUND,
    }
)
_RETRYABLE: Final = frozenset(
    {
        Reason.DISCONNECTED,
        Reason.STALE_CLIENT,
        Reason.NOT_COMMITTED,
        Reason.NOT_ACCEPTED,
        Reason.NOT_CONNECTED,
        Reason.CANNOT_APPEND,
        Reason.SHARD_PANICKED,
        Reason.TIMED_OUT,
        Reason.IO_ERROR,
    }
)


class IggyError(LogdriveError):
    """A request that failed: its *reason*, and a *message* for logs; no message travels.

    *wire_code* is the status that a client got, None where a server raises the error.
    """

    def __init__(self, reason: Reason, message: str = "", *, wire_code: int | None = None) -> None:
        text = reason.name.lower().replace("_", " ")
        if wire_code is not None:
            text = f"{text} (status {wire_code})"
        super().__init__(f"{text}: {message}" if message else text)
        self.reason = reason
        self.message = message
        self.wire_code = wire_code

    def code(self, revision: Revision, *, sending: bool = False) -> int:
        """Return the status to send, never 0; *sending*: in answer to SendMessages."""
        if sending and revision is Revision.R3 and self.reason in _NOT_FOUND:
            return int(Reason.RESOURCE_NOT_FOUND)
        return _CODES[revision][self.reason]

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, on another connection if need be."""
        return self.reason in _RETRYABLE


def error_of(revision: Revision, code: int) -> IggyError:
    """Return the error that a status other than 0 means; one that is not known is ERROR."""
    reason = _REASONS[revision].get(code, Reason.ERROR)
    return IggyError(reason, wire_code=code)


def stream_not_found(stream: Identifier) -> IggyError:
    """Return the error for a stream that is missing, by its number or by its name."""
    by_name = isinstance(stream, str)
    reason = Reason.STREAM_NAME_NOT_FOUND if by_name else Reason.STREAM_NOT_FOUND
    return IggyError(reason, f"there is no stream {stream!r}")


def topic_not_found(topic: Identifier) -> IggyError:
    """Return the error for a topic that is missing, by its number or by its name."""
    by_name = isinstance(topic, str)
    reason = Reason.TOPIC_NAME_NOT_FOUND if by_name else Reason.TOPIC_NOT_FOUND
    return IggyError(reason, f"there is no topic {topic!r}")


def group_not_found(group: Identifier) -> IggyError:
    """Return the error for a consumer group that is missing, by its number or by its name."""
    by_name = isinstance(group, str)
    reason = Reason.GROUP_NAME_NOT_FOUND if by_name else Reason.GROUP_NOT_FOUND
    return IggyError(reason, f"there is no consumer group {group!r}")


def partition_not_found(partition: int | None) -> IggyError:
    """Return the error for a partition that is missing; *partition* counts from 0."""
    return IggyError(Reason.PARTITION_NOT_FOUND, f"there is no partition {partition}")
