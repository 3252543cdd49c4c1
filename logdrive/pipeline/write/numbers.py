"""The numbers of a writer that repeats itself exactly: which append of which micro-batch.

A number is `micro-batch << 18 | append`, and 16 check bits below, as positions have them (rule P1):
the CRC-32 of all records of the micro-batch up to the append's end. So a writer that comes back
knows what is there, and that it is about to repeat the same records.
"""

from typing import Final, NamedTuple

from logdrive.errors import StorageError
from logdrive.model.limits import MAX_POSITION
from logdrive.model.numbers import number_with_crc, position_of

_APPEND_BITS: Final = 18
_MOST_APPENDS: Final = 1 << _APPEND_BITS
MOST_EPOCHS: Final = MAX_POSITION >> _APPEND_BITS
"""Limit on the numbers of micro-batches."""


class AppendPlace(NamedTuple):
    """Which append a number is of: that with the ordinal *append*, from 1 on, of micro-batch
    *epoch*.
    """

    epoch: int
    append: int


NOTHING: Final = AppendPlace(-1, 0)
"""The place of a writer that has appended nothing."""


def number_of_append(epoch: int, append: int, crc: int) -> int:
    """Return the number of an append; *crc* is of the micro-batch's records up to its end.

    Raises `StorageError` if there are too many.
    """
    if not 0 <= epoch < MOST_EPOCHS or append >= _MOST_APPENDS:
        raise StorageError(
            f"append {append} of micro-batch {epoch}: a writer counts to {MOST_EPOCHS - 1} "
            f"micro-batches of {_MOST_APPENDS - 1} appends: give another `writer`, or more "
            "partitions"
        )
    return number_with_crc(epoch << _APPEND_BITS | append, crc)


def place_of(number: int) -> AppendPlace:
    """Return which append *number* is of; `NOTHING` for a writer without a number."""
    if number < 0:
        return NOTHING
    return AppendPlace(*divmod(position_of(number), _MOST_APPENDS))
