"""Reasons why a request on streams was refused. Nothing was changed then."""

from logdrive.errors import LogdriveError


class StreamsError(LogdriveError):
    """The request can't be done in the present state."""


class BadNameError(StreamsError):
    """Not a valid name of a scope or a stream."""


class NoSuchScopeError(StreamsError):
    """The scope does not exist."""


class ScopeExistsError(StreamsError):
    """The scope exists already."""


class ScopeNotEmptyError(StreamsError):
    """The scope still has streams, reader groups or key-value tables."""


class NoSuchStreamError(StreamsError):
    """The scope has no such stream."""


class StreamExistsError(StreamsError):
    """The stream exists already."""


class StreamSealedError(StreamsError):
    """The stream accepts no more changes."""


class StreamNotSealedError(StreamsError):
    """Only a sealed stream can be deleted."""


class NoSuchStreamSegmentError(StreamsError):
    """The stream has no such segment."""


class PreconditionError(StreamsError):
    """The request does not fit the stream's present state."""


class NoSuchTransactionError(StreamsError):
    """The stream has no such transaction, or has forgotten it."""


class TransactionEndedError(StreamsError):
    """The transaction has ended the other way: *committed* says how."""

    def __init__(self, committed: bool) -> None:
        super().__init__(f"the transaction is {'committed' if committed else 'aborted'}")
        self.committed = committed


class LeaseError(StreamsError):
    """The requested lease is out of range."""


class NoSuchGroupError(StreamsError):
    """The scope has no such reader group."""


class GenerationError(StreamsError):
    """The reader group was changed since, or is another one with that name."""


class NoSuchMapError(StreamsError):
    """The scope has no such key-value table."""


class MapExistsError(StreamsError):
    """The key-value table exists already."""


class NoSuchWriterError(StreamsError):
    """No writer of that name has noted a time, or it was forgotten."""


class TimeError(StreamsError):
    """The writer has noted a later time already."""


class PositionError(StreamsError):
    """The stream has no such position, or the writer was further already."""


class TooMuchNotedError(StreamsError):
    """More writers, or longer positions, than are kept for a stream."""
