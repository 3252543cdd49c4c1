"""How a client is told of a failure of the store, or of its streams."""

import structlog

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.store.errors import NoSuchSegmentError, OverloadedError, SegmentSealedError
from logdrive.store.streams.errors import StreamsError
from logdrive.wire.s2.errors import S2Error, hot_server, invalid, other, storage, unavailable

_log = structlog.get_logger("logdrive.store.s2")


def as_s2_error(error: LogdriveError) -> S2Error:
    """Return how a client is told of *error*, of the store or of its streams."""
    match error:
        case S2Error():
            return error
        case NoSuchSegmentError():
            return unavailable("the stream was deleted")
        case SegmentSealedError():
            return invalid("the stream is sealed")
        case OverloadedError():
            return hot_server("too much waits to be written")
        case StorageError() | TransientError():
            # whether the change became durable is not known
            return storage(str(error))
        case StreamsError():
            return other(str(error))
        case _:
            _log.warning("a request failed", reason=str(error))
            return other(str(error))
