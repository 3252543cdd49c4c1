"""Which failures of Iggy may pass.

`IggyError` is a refusal that will be the same next time; `TransientError` is everything else: a
lost connection, silence, and refusals that say so themselves, as `IggyUnavailableError`.
"""

from logdrive.errors import LogdriveError, TransientError
from logdrive.wire.iggy.errors import IggyError, Reason

MISSING_TOPIC = frozenset(
    {
        Reason.STREAM_NOT_FOUND,
        Reason.STREAM_NAME_NOT_FOUND,
        Reason.TOPIC_NOT_FOUND,
        Reason.TOPIC_NAME_NOT_FOUND,
        Reason.RESOURCE_NOT_FOUND,
    }
)
"""Reasons that say that a topic, or its stream, is not there."""

EXISTS = frozenset(
    {
        Reason.STREAM_ID_EXISTS,
        Reason.STREAM_NAME_EXISTS,
        Reason.TOPIC_ID_EXISTS,
        Reason.TOPIC_NAME_EXISTS,
    }
)
"""Reasons that say that somebody else has created it meanwhile."""


LOGIN_REFUSED = frozenset(
    {
        Reason.UNAUTHENTICATED,
        Reason.INVALID_CREDENTIALS,
        Reason.INVALID_USER_NAME,
        Reason.INVALID_PASSWORD,
        Reason.USER_INACTIVE,
    }
)
"""Reasons for which another user or password is needed."""


def explain_refusal(where: str, error: IggyError) -> str:
    """Return what the service at *where* refuses a sink, and what an operator can do about it."""
    text = f"{where} refuses: {error}"
    if error.reason in LOGIN_REFUSED:
        return f"{text}: give user and password, in sink.uri or in [sink.login]"
    if error.reason is Reason.UNAUTHORIZED:
        return (
            f"{text}: give the user the right to read the topic and to send to it, and to create "
            "stream and topic, or create them"
        )
    return text


class IggyUnavailableError(TransientError):
    """A refusal after which the same request may succeed; *error* is what the service said."""

    def __init__(self, where: str, error: IggyError) -> None:
        super().__init__(f"{where} refuses: {error}")
        self.error = error


class IggySilentError(TransientError):
    """A service that has not answered in time: it may be stopped, and says nothing of itself."""


def classify(where: str, error: IggyError) -> LogdriveError:
    """Return *error*, as an `IggyUnavailableError` if it may pass."""
    return IggyUnavailableError(where, error) if error.retryable else error
