"""Names of segments (docs/protocols/pravega-controller.md#names).

A stream's segment is called `scope/stream/NUMBER.#epoch.EPOCH`: no other segment of the stream ever
has that number, and the epoch is the one whose scaling created it. Controllers also identify it by
an id, the epoch followed by the number in 32 bits; in epoch 0 the id is the number.

Two kinds of segments belong to one of these and add a suffix to its name: a transaction's, and
transient ones.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

KV_TABLE_SUFFIX: Final = "_kvtable"
"""Suffix of a key-value table's name where its segments' names have the stream's."""

_NUMBER_BITS: Final = 32
_SEGMENT: Final = re.compile(r"([^/]+)/([^/]+)/(\d+)\.#epoch\.(\d+)")
_TRANSIENT: Final = "#transient."


@dataclass(frozen=True, slots=True)
class SegmentName:
    """The full name of a stream's segment, in its parts; `str` puts them together."""

    scope: str
    stream: str
    number: int  # which of the stream's segments it is, over all epochs
    epoch: int = 0  # the epoch that created it

    @classmethod
    def parse(cls, text: str) -> "SegmentName":
        """Return the parts of *text*.

        Raises ValueError if it does not name a stream's segment.
        """
        if (name := cls.match(text)) is None:
            raise ValueError(f"{text[:300]!r} is not the name of a stream's segment")
        return name

    @classmethod
    def match(cls, text: str) -> "SegmentName | None":
        """Return the parts of *text*, or None if it does not name a stream's segment, as with a
        transaction's.
        """
        match = _SEGMENT.fullmatch(text)
        if match is None:
            return None
        scope, stream, number, epoch = match.groups()
        return cls(scope, stream, int(number), int(epoch))

    @classmethod
    def from_id(cls, scope: str, stream: str, id_: int) -> "SegmentName":
        """Return the name of the segment with the id *id_*."""
        return cls(scope, stream, number_of_id(id_), epoch_of_id(id_))

    @property
    def id(self) -> int:
        """The segment's id in its stream."""
        return segment_id(self.number, self.epoch)

    def __str__(self) -> str:
        return f"{self.scope}/{self.stream}/{self.number}.#epoch.{self.epoch}"


def segment_id(number: int, epoch: int) -> int:
    """Return the id of the segment *number* that was created in *epoch*."""
    return epoch << _NUMBER_BITS | number


def epoch_of_id(id_: int) -> int:
    """Return the epoch in which the segment with the id *id_* was created."""
    return id_ >> _NUMBER_BITS


def number_of_id(id_: int) -> int:
    """Return the number of the segment with the id *id_*."""
    return id_ & ((1 << _NUMBER_BITS) - 1)


def segment_name(scope: str, stream: str, id_: int) -> str:
    """Return the full name of the segment with the id *id_*, which in epoch 0 is its number."""
    return str(SegmentName.from_id(scope, stream, id_))


def streams_among(segments: Iterable[str]) -> list[str]:
    """Return the streams, as scope/stream in order, that have some of *segments*.

    Names that are not those of a stream's segments are skipped, such as transactions'.
    """
    names = (SegmentName.match(segment) for segment in segments)
    return sorted({f"{name.scope}/{name.stream}" for name in names if name is not None})


def scope_and_stream(segment: str) -> tuple[str, str]:
    """Return scope and stream in any full name of a segment, also a transaction's or transient one.

    This is what tokens are issued for. Nothing is checked: the scope ends at the first slash, the
    stream at the last one.
    """
    scope, _, rest = segment.partition("/")
    return scope, rest.rpartition("/")[0]


def transaction_name(parent: str, transaction: UUID) -> str:
    """Return the segment that holds what *transaction* wrote for the segment *parent*, until it is
    merged into it or deleted.
    """
    return f"{parent}#transaction.{transaction.hex}"


def transient_name(parent: str, writer: UUID, unique: UUID) -> str:
    """Return the segment in which *writer* collects one large event for the segment *parent*.

    *unique* distinguishes the writer's events.
    """
    return f"{parent}{_TRANSIENT}{writer.hex}.{unique.hex}"


def is_transient(segment: str) -> bool:
    """Return whether *segment* has the name of a transient segment."""
    return _TRANSIENT in segment
