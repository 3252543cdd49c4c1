"""Where batches go: one small interface (rules S1–S6)."""

import asyncio
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from logdrive.errors import LogdriveError
from logdrive.model.framing import Part


class NumberConflictError(LogdriveError):
    """The append's *previous* is not the number submitted last for this writer; nothing was
    stored.
    """


class NotOpenError(NumberConflictError):
    """The writer has to be opened before it appends, as it was on the connection before."""


class SegmentMovedError(LogdriveError):
    """The segment takes nothing more, since its stream was scaled; `Sink.segment_for` names another
    by now.
    """


class Sink(Protocol):
    """A stream of a streaming service. Segments are named in full; a writer is a source id."""

    store_id: UUID
    keeps_numbers: bool
    """False for services without writer numbers (rule S5)."""

    def segment_for(self, routing_key: str) -> str:
        """Return the segment that *routing_key* belongs to now."""
        ...

    async def open(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, read anew from the service; `record.ABSENT` when
        never seen, `record.LOST` (rule S3).

        It waits until what was submitted before for this writer is durable or has failed (rules D2,
        S2). Raises `SegmentMovedError`.
        """
        ...

    def append(
        self,
        segment: str,
        writer: UUID,
        batch: Sequence[Part],
        events: int,
        previous: int,
        number: int,
    ) -> "asyncio.Future[None]":
        """Submit one batch, given in parts, atomic, if *previous* is the number submitted last
        (`record.ABSENT`, or `LOST`: none).

        The future ends once the batch is durable. It fails with `TransientError` where the sink
        could not take it (a full disk), with `StorageError` where it never will again. Raises
        `NumberConflictError` at once, storing nothing. *events* is Pravega's numEvents. Appends of
        one process become durable in the order submitted.
        """
        ...

    async def close(self) -> None:
        """Finish what was submitted and let go."""
        ...
