"""Stored events as the messages of a poll's reply."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from logdrive.model.framing import Part
from logdrive.wire.iggy.revision import Revision


class StoredEvents(NamedTuple):
    """Whole *events*, back to back: one append, or a part of it."""

    events: Part
    # of the first
    offset: int
    # when they were appended, µs since 1970
    time_us: int


class ForeignMessage(NamedTuple):
    """What a payload is that another protocol made: user *headers* (R2C's form) and *payload*."""

    headers: bytes
    payload: bytes


Foreign = Callable[[bytes], ForeignMessage | None]
"""Called with a payload that begins with 0xff and is no message of ours; None: show it as it is."""


class EncodedPoll(NamedTuple):
    """*count* messages with consecutive offsets: *batches* is what follows a reply's count."""

    count: int
    batches: bytes


def encode_polled(
    revision: Revision,
    parts: Iterable[StoredEvents],
    *,
    partition: int,
    id_seed: bytes,
    most: int,
    limit: int,
    foreign: Foreign,
) -> EncodedPoll:
    """Return the messages that *parts* are, one after the other: at most *most*.

    *limit* is in bytes of the reply; the first message is returned even if it is longer.
    *partition* is the 0-based index. *id_seed*, 8 bytes that are not all zero, is the first half of
    the ids of messages without a chosen one; the other half is the offset. *parts* is read only as
    far as needed.
    """
