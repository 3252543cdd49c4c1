"""Why something asked of streams was refused. Nothing was changed then."""

from logdrive.errors import LogdriveError


class StreamsError(LogdriveError):
    """What was asked can't be, as things are."""


class BadNameError(StreamsError):
    """No name for a scope or a stream."""


class NoSuchScopeError(StreamsError):
    """There is no such scope."""


class ScopeExistsError(StreamsError):
    """The scope is there."""


class ScopeNotEmptyError(StreamsError):
    """The scope still has streams."""


class NoSuchStreamError(StreamsError):
    """There is no such stream in the scope."""


class StreamExistsError(StreamsError):
    """The stream is there."""


class StreamSealedError(StreamsError):
    """The stream takes nothing more."""


class StreamNotSealedError(StreamsError):
    """Only a sealed stream can be deleted."""


class NoSuchStreamSegmentError(StreamsError):
    """The stream has no such segment."""


class PreconditionError(StreamsError):
    """What was asked does not fit the stream as it is."""


class NoSuchTransactionError(StreamsError):
    """The stream has no such transaction, or has forgotten it."""


class TransactionEndedError(StreamsError):
    """The transaction went the other way already: *committed* says which."""

    def __init__(self, committed: bool) -> None:
        super().__init__(f"the transaction is {'committed' if committed else 'aborted'}")
        self.committed = committed


class LeaseError(StreamsError):
    """The lease asked for is not one that is given."""


class NoSuchGroupError(StreamsError):
    """The scope has no such reader group."""


class GenerationError(StreamsError):
    """The reader group was changed since, or is another one of that name."""


class NoSuchMapError(StreamsError):
    """The scope has no such key-value table."""


class MapExistsError(StreamsError):
    """The key-value table is there."""


class NoSuchWriterError(StreamsError):
    """No writer of that name has noted a time, or it is forgotten."""


class TimeError(StreamsError):
    """The writer has noted a later time before."""


class PositionError(StreamsError):
    """The stream has no such place, or the writer was further before."""


class TooMuchNotedError(StreamsError):
    """More writers, or longer positions, than are kept of a stream."""
