"""Why something asked of streams was refused. Nothing was changed then."""

from logdrive.errors import LogdriveError


class RefusedError(LogdriveError):
    """What was asked can't be, as things are."""


class BadNameError(RefusedError):
    """No name for a scope or a stream."""


class NoSuchScopeError(RefusedError):
    """There is no such scope."""


class ScopeExistsError(RefusedError):
    """The scope is there."""


class ScopeNotEmptyError(RefusedError):
    """The scope still has streams."""


class NoSuchStreamError(RefusedError):
    """There is no such stream in the scope."""


class StreamExistsError(RefusedError):
    """The stream is there."""


class StreamSealedError(RefusedError):
    """The stream takes nothing more."""


class StreamNotSealedError(RefusedError):
    """Only a sealed stream can be deleted."""


class NoSuchStreamSegmentError(RefusedError):
    """The stream has no such segment."""


class PreconditionError(RefusedError):
    """What was asked does not fit the stream as it is."""


class NoSuchTransactionError(RefusedError):
    """The stream has no such transaction, or has forgotten it."""


class TransactionEndedError(RefusedError):
    """The transaction went the other way already: *committed* says which."""

    def __init__(self, committed: bool) -> None:
        super().__init__(f"the transaction is {'committed' if committed else 'aborted'}")
        self.committed = committed


class LeaseError(RefusedError):
    """The lease asked for is not one that is given."""


class NoSuchGroupError(RefusedError):
    """The scope has no such reader group."""


class GenerationError(RefusedError):
    """The reader group was changed since, or is another one of that name."""


class NoSuchMapError(RefusedError):
    """The scope has no such key-value table."""


class MapExistsError(RefusedError):
    """The key-value table is there."""


class NoSuchWriterError(RefusedError):
    """No writer of that name has noted a time, or it is forgotten."""


class TimeError(RefusedError):
    """The writer has noted a later time before."""


class PositionError(RefusedError):
    """The stream has no such place, or the writer was further before."""


class TooMuchNotedError(RefusedError):
    """More writers, or longer positions, than are kept of a stream."""
