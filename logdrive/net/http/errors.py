"""Errors of HTTP, beside `TransientError` for a lost connection or stream."""

from logdrive.errors import LogdriveError, TransientError


class BodyTooLargeError(LogdriveError):
    """A body is longer than *limit* bytes; what is above the limit was not read."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is longer than {limit} bytes")
        self.limit = limit


class StreamResetError(TransientError):
    """The peer has reset one stream; the connection goes on. *code* is HTTP/2's error code."""

    def __init__(self, reason: str, *, code: int) -> None:
        super().__init__(reason)
        self.code = code


class PeerFaultError(LogdriveError):
    """The peer broke HTTP or one of our limits: its connection is closed.

    *code* is HTTP/2's error code for the GOAWAY frame, *limit* the limit's name in `HttpLimits`, or
    "" for a fault.
    """

    def __init__(self, reason: str, *, code: int, limit: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.limit = limit
