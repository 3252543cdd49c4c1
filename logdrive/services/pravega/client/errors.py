"""Maps the error replies of a segment store to exceptions."""

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
    """The service understood the request and refuses to serve it."""


class TokenError(RequestRefusedError):
    """The service refused the delegation token, or asks for one: get a new one and reconnect."""


def token_refused() -> TokenError:
    """Return the error for a reply that refuses a token."""
    return TokenError(
        "the service refused the token of the request, or asks for one: "
        "its controller issues tokens to users who log in"
    )


class WrongHostError(TransientError):
    """The segment was moved to another segment store: ask the controller which one."""


class TruncatedOffsetError(LogdriveError):
    """The requested bytes were truncated; the segment starts at offset *start* now."""

    def __init__(self, segment: str, start: int) -> None:
        super().__init__(f"segment {segment!r} begins at {start} now")
        self.start = start


def expect_answer(wanted: type[M], answer: Message) -> M:
    """Return *answer* if it is of the type *wanted*, else raise the error that it stands for."""
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
            raise token_refused()
        case OperationUnsupported():
            raise RequestRefusedError(f"the service does not serve {answer.operation}")
        case ErrorMessage():
            raise RequestRefusedError(f"the service refused: {answer.text}")
        case _:
            raise TransientError(f"the service answered with {type(answer).__name__}")
