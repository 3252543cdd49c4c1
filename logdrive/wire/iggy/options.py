"""Options of topics, in a form common to all revisions. See docs/protocols/iggy.md#topic-options.

None stands for what a request does not give. That is the server's default when a topic is created;
when it is updated, R3 means no change by it, and the revisions before mean the default again.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum


class IggyCompression(IntEnum):
    """How a topic's messages are said to be compressed; servers store them as they come."""

    NONE = 1
    GZIP = 2


class Durability(Enum):
    """What an acknowledgement of R3 means: in memory of the replicas, or on disk."""

    REPLICATED = "replicated"
    PERSISTED = "persisted"


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """Options of a topic: those which are given.

    R0 has *expiry_us* only, in whole seconds; R1 to R2C have it, *compression*, *max_size* and
    *replication*; R3 has all but *replication*.
    """

    compression: IggyCompression | None = None
    expiry_us: int | None = None
    """For how long a message is kept, in µs; NEVER: it does not expire."""
    max_size: int | None = None
    """Bytes; UNLIMITED: as many as come."""
    replication: int | None = None
    """Count of copies, 1 to 255."""
    segment_size: int | None = None
    """Bytes of one of Iggy's own files."""
    messages_required_to_save: int | None = None
    """Messages that a server holds in memory before it writes them."""
    size_required_to_save: int | None = None
    """The same in bytes."""
    preallocate: bool | None = None
    enforce_fsync: bool | None = None
    durability: Durability | None = None
    consumer_offset_durability: Durability | None = None


class OptionScope(IntEnum):
    """What has options that R3 describes."""

    TOPIC = 1
    STREAM = 2
    USER = 3
