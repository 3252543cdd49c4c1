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


class IggyUnavailableError(TransientError):
    """A refusal after which the same request may succeed; *error* is what the service said."""

    def __init__(self, where: str, error: IggyError) -> None:
        super().__init__(f"{where} refuses: {error}")
        self.error = error


def classify(where: str, error: IggyError) -> LogdriveError:
    """Return *error*, as an `IggyUnavailableError` if it may pass."""
    return IggyUnavailableError(where, error) if error.retryable else error
