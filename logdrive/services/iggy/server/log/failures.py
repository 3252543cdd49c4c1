"""What Iggy's clients are told of errors of the store."""

from logdrive.errors import LogdriveError, TransientError
from logdrive.services.numbering.walk import NotEventsError
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.wire.iggy.errors import IggyError, Reason


def as_iggy_error(error: LogdriveError) -> IggyError:
    """Return what clients are told of *error*."""
    if isinstance(error, IggyError):
        return error
    if isinstance(error, NoSuchSegmentError):
        return IggyError(Reason.PARTITION_NOT_FOUND, "the partition was deleted")
    if isinstance(error, SegmentSealedError):
        return IggyError(
            Reason.SEGMENT_CLOSED,
            "the partition is sealed: its stream was scaled, or ended, through another protocol",
        )
    if isinstance(error, NotEventsError):
        return IggyError(Reason.FEATURE_UNAVAILABLE, f"no messages: {error}")
    if isinstance(error, TransientError):
        return IggyError(Reason.CANNOT_APPEND, str(error))
    return IggyError(Reason.IO_ERROR, str(error))
