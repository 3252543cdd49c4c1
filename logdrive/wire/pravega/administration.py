"""Messages of Pravega's administration gateway, a port of its own there
(docs/protocols/pravega.md#messages).
"""

from dataclasses import dataclass
from typing import Annotated

from logdrive.wire.pravega.fields import I32, I64, Bool, Text, many
from logdrive.wire.pravega.layout import Message, message, record_kind


@message(-3)
class FlushToStorage(Message):
    """Asks for everything that a container holds to be put in long-term storage."""

    container: I32
    token: Text
    request_id: I64


@message(-4)
class StorageFlushed(Message):
    """Answers FlushToStorage."""

    request_id: I64


@message(-5)
class ListStorageChunks(Message):
    """Asks where in long-term storage a segment's bytes lie."""

    segment: Text
    token: Text
    request_id: I64


@dataclass(frozen=True, slots=True)
class StorageChunk:
    """One piece of a segment in long-term storage, from *start_offset* of the segment."""

    length_in_metadata: I64
    length_in_storage: I64
    start_offset: I64
    name: Text
    exists: Bool


_Chunks = Annotated[tuple[StorageChunk, ...], many(record_kind(StorageChunk))]


@message(-6)
class StorageChunksListed(Message):
    """Answers ListStorageChunks."""

    request_id: I64
    chunks: _Chunks
