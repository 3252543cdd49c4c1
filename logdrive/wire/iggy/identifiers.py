"""Names of things in requests: identifiers, consumers, partitionings, polling strategies.

See docs/protocols/iggy.md#shared-types. Partitions are counted from 0 here in every revision.
"""

from dataclasses import dataclass
from enum import IntEnum

Identifier = int | str
"""A stream, topic, group or user: its number (u32) or its name (1 to 255 bytes of UTF-8)."""


class ConsumerKind(IntEnum):
    """Whose offsets are meant."""

    CONSUMER = 1
    GROUP = 2


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer that chose its own *id*, or a group. In R0 an id is a number."""

    kind: ConsumerKind
    id: Identifier


@dataclass(frozen=True, slots=True)
class Balanced:
    """The server chooses the partition, the next one at each send."""


@dataclass(frozen=True, slots=True)
class ToPartition:
    """The partition with this *index*, from 0.

    -1: the number 0 of a revision that counts from 1; there is no such partition.
    """

    index: int


@dataclass(frozen=True, slots=True)
class ByKey:
    """The partition that the hash of *key*, 1 to 255 bytes, gives."""

    key: bytes


Partitioning = Balanced | ToPartition | ByKey


class PollingKind(IntEnum):
    """Where a poll begins."""

    OFFSET = 1
    """At the offset *value*."""
    TIMESTAMP = 2
    """At the first message of the time *value* in µs since 1970, or later."""
    FIRST = 3
    """At the oldest message there is."""
    LAST = 4
    """So that the newest messages are polled."""
    NEXT = 5
    """Behind the offset that is stored for the consumer."""


@dataclass(frozen=True, slots=True)
class PollingStrategy:
    """Where a poll begins; *value* is sent always, and means something with OFFSET, TIMESTAMP."""

    kind: PollingKind
    value: int = 0
