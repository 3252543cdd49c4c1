"""What an answer says where it is not the one asked for, as an exception."""

from typing import TypeVar

from logdrive.errors import LogdriveError, TransientError
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.wire.pravega.control import (
    AuthTokenCheckFailed,
    ErrorMessage,
    NoSuchSegment,
    OperationUnsupported,
    SegmentIsSealed,
    SegmentIsTruncated,
    WrongHost,
)
from logdrive.wire.pravega.layout import Message

M = TypeVar("M", bound=Message)


class RequestRefusedError(LogdriveError):
    """The service understood a request and won't serve it."""


class TokenError(RequestRefusedError):
    """The service wants another token, or any."""


class WrongHostError(TransientError):
    """The segment is at another segment store by now."""


class TruncatedOffsetError(LogdriveError):
    """The bytes asked for were given up; the segment begins at *start* now."""

    def __init__(self, segment: str, start: int) -> None:
        super().__init__(f"segment {segment!r} begins at {start} now")
        self.start = start


def expected(wanted: type[M], answer: Message) -> M:
    """Return *answer* if it is of the type wanted, else raise what it says."""
    if isinstance(answer, wanted):
        return answer
    match answer:
        case NoSuchSegment():
            raise NoSuchSegmentError(answer.segment)
        case SegmentIsSealed():
            raise SegmentSealedError(answer.segment)
        case WrongHost():
            raise WrongHostError(f"{answer.segment} is at another segment store")
        case SegmentIsTruncated():
            raise TruncatedOffsetError(answer.segment, answer.start_offset)
        case AuthTokenCheckFailed():
            raise TokenError(
                "the service wants a token, or another one: its controller hands them "
                "out, to whom it knows"
            )
        case OperationUnsupported():
            raise RequestRefusedError(f"the service does not serve {answer.operation}")
        case ErrorMessage():
            raise RequestRefusedError(f"the service refused: {answer.text}")
        case _:
            raise TransientError(f"the service answered with {type(answer).__name__}")
