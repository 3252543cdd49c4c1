"""Messages of Pravega's administration gateway, a port of its own there
(docs/protocols/pravega.md#messages).
"""

from dataclasses import dataclass
from typing import Annotated

from logdrive.wire.pravega.fields import I32, I64, Bool, Text, many
from logdrive.wire.pravega.layout import Message, message, record_kind


@message(-3)
class FlushToStorage(Message):
    """Requests that all data of a container be written to long-term storage."""

    container: I32
    token: Text
    request_id: I64


@message(-4)
class StorageFlushed(Message):
    """Answers FlushToStorage."""

    request_id: I64


@message(-5)
class ListStorageChunks(Message):
    """Requests the locations of a segment's bytes in long-term storage."""

    segment: Text
    token: Text
    request_id: I64


@dataclass(frozen=True, slots=True)
class StorageChunk:
    """One piece of a segment in long-term storage, from *start_offset* of the segment."""

    length_in_metadata: I64  # bytes that the segment's metadata says it has
    length_in_storage: I64  # bytes that it has
    start_offset: I64
    name: Text  # its place in long-term storage
    exists: Bool  # whether it is there


_Chunks = Annotated[tuple[StorageChunk, ...], many(record_kind(StorageChunk))]


@message(-6)
class StorageChunksListed(Message):
    """Answers ListStorageChunks."""

    request_id: I64
    chunks: _Chunks
