"""Appends rows to a stream, in blocking calls for Spark's tasks and for commands."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
import pyarrow as pa

from logdrive.host.clock import SystemClock
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.write.append import AppendCounts, append_batches
from logdrive.pipeline.write.batches import BatchOrigin, cut_batches
from logdrive.pipeline.write.records import encode_rows

_NAMESPACE: Final = UUID("1c8a1a53-6a0e-5d0c-8a57-3f0b4f5f9a44")
"""Namespace of the writers' ids; changing it makes repetitions append again."""


def writer_id(name: str, part: str) -> UUID:
    """Return the id of the writer that appends one *part* of what *name* appends."""
    return uuid5(_NAMESPACE, f"{name}\n{part}")


@dataclass(frozen=True, slots=True)
class RowAppender:
    """Appends rows to *stream* under the name *writer*. It pickles."""

    stream: StreamClient = field(repr=False)  # it may hold a password
    writer: str
    segments: int | None = None
    """Segments of a new stream; None: the stream must be there."""

    def append_rows(self, part: str, epoch: int, batches: Iterable[pa.RecordBatch]) -> AppendCounts:
        """Append the rows of one *part* of micro-batch *epoch*, unless an earlier call did.

        Each part has a number of its own at the service. The rows of one part and micro-batch must
        be the same, in the same order, in each call. Raises what `append_batches` and `encode_rows`
        raise.
        """
        clock = SystemClock()
        writer = writer_id(self.writer, part)
        peer = msgspec.json.encode({"identity": self.writer, "dialect": "rows", "part": part})
        origin = BatchOrigin(
            # as a receiver without a configured id names a service
            writer,
            str(uuid5(NAMESPACE_URL, self.stream.uri)),
            msgspec.Raw(peer),
        )
        received = clock.now_ms()
        made = cut_batches(encode_rows(batches), origin, epoch, received)
        return asyncio.run(
            append_batches(
                self.stream,
                writer,
                epoch,
                made,
                transport=SystemTransport(),
                clock=clock,
                segments=self.segments,
            )
        )
