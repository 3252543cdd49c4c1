"""Places in a stream."""

import msgspec


class StreamPosition(msgspec.Struct, frozen=True, gc=False):
    """A place in a stream: a sequence number, and a time in milliseconds since 1970.

    As a tail: the number of the next record, and the time of the last one.
    """

    seq_num: int
    timestamp: int
