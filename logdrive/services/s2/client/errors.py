"""Which failures of S2 may pass.

`S2Error` is an answer that will be the same next time; `TransientError` is everything else: a lost
connection, and answers that say so themselves, as `S2UnavailableError`.
"""

from collections.abc import Mapping

from logdrive.errors import LogdriveError, TransientError
from logdrive.wire.s2.errors import S2Error, parse_error

RETRY_AFTER = "retry-after-ms"
_LONGEST_SECONDS = 60.0  # of waiting that a service can ask for


class S2UnavailableError(TransientError):
    """An answer after which the same request may succeed.

    *retry_after* is how many seconds the service asks to wait, 0 if it says nothing.
    """

    def __init__(self, error: S2Error, retry_after: float = 0.0) -> None:
        super().__init__(f"the service answers {error.status} {error}")
        self.error = error
        self.retry_after = retry_after


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> LogdriveError:
    """Return the error that an answer means: `S2UnavailableError` if it may pass."""
    return classify(parse_error(status, body), headers.get(RETRY_AFTER, ""))


def classify(error: S2Error, retry_after_ms: str = "") -> LogdriveError:
    """Return *error*, as an `S2UnavailableError` if it may pass."""
    if not error.retryable:
        return error
    seconds = int(retry_after_ms) / 1000 if retry_after_ms.isdecimal() else 0.0
    return S2UnavailableError(error, min(seconds, _LONGEST_SECONDS))
