"""Who may append for a source, and from which number: one writer a source, shared by all sessions
(rule S2).
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Protocol
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.model.framing import Part
from logdrive.model.numbers import ABSENT
from logdrive.services.sink import NumberConflictError, SegmentMovedError, Sink


class Holder(Protocol):
    """Whoever appends for a source: a registration on one connection."""

    def on_fenced(self) -> None:
        """Learn that another registration took the source over: nothing more is appended for this
        one (E 8).
        """
        ...


class Writer:
    """One source's place in its stream.

    *submitted* is the number handed to the sink last, durable or not.
    """

    __slots__ = ("_sink", "holder", "segment", "source", "submitted")

    def __init__(self, sink: Sink, source: UUID) -> None:
        self._sink = sink
        self.source = source
        self.segment = ""
        self.holder: Holder | None = None
        self.submitted: int | None = None

    async def read_durable_number(self, holder: Holder) -> int:
        """Return the durable number, read anew once what was submitted has settled; *holder*'s runs
        go on from it.

        It is read where the source's runs go now: in another segment than before where the stream
        was scaled (rule S3).
        """
        while True:
            segment = self._sink.segment_for(self.source.hex)
            try:
                number = await self._sink.open(segment, self.source)
                break
            except SegmentMovedError:
                continue
        if self.holder is holder:
            self.segment, self.submitted = segment, number
        return number

    def follows(self, previous: int) -> bool:
        """Tell whether a run from *previous* is the next one (rules P2, D3: what was never seen
        starts at 0).
        """
        submitted = self.submitted
        return submitted is not None and previous == max(submitted, 0)

    def append_run(
        self, holder: Holder, batch: Sequence[Part], events: int, number: int
    ) -> "asyncio.Future[None]":
        """Submit a batch that follows.

        Raises `NumberConflictError` where another process was there first.
        """
        if self.holder is not holder or self.submitted is None:
            raise NumberConflictError(f"source {self.source} was taken over")
        future = self._sink.append(self.segment, self.source, batch, events, self.submitted, number)
        self.submitted = number
        return future


class WriterTable:
    """The writers of all sources that are registered in this process.

    A source's segment may change, so it is no part of the key.
    """

    def __init__(self) -> None:
        self._writers: dict[UUID, Writer] = {}

    def __len__(self) -> int:
        return len(self._writers)

    def claim_writer(self, sink: Sink, source: UUID, holder: Holder) -> Writer:
        """Make *holder* the only one that appends for *source*; whoever did before is told."""
        writer = self._writers.setdefault(source, Writer(sink, source))
        earlier, writer.holder = writer.holder, holder
        writer.submitted = None
        if earlier is not None and earlier is not holder:
            earlier.on_fenced()
        return writer

    def release_writer(self, writer: Writer, holder: Holder) -> None:
        """Forget *writer* unless somebody else holds it by now; what it submitted goes on its
        way.
        """
        if writer.holder is holder:
            writer.holder = None
            del self._writers[writer.source]


class CountingWriter:
    """The writer of foreign batches in one segment: a random id, and the number of batches so far
    (rule S4).

    After a failure it goes on under a fresh id, so that it needn't wait for what else fails with
    it.
    """

    __slots__ = ("_random", "_segment", "_sink", "_submitted", "_writer")

    def __init__(self, sink: Sink, segment: str, random: Random) -> None:
        self._sink, self._segment, self._random = sink, segment, random
        self._writer, self._submitted = random_id(random), 0

    def append_batch(self, batch: Sequence[Part], events: int) -> "asyncio.Future[None]":
        """Submit one batch.

        Raises `TransientError` where the sink is failing; nothing was stored then.
        """
        writer, previous = self._writer, self._submitted or ABSENT
        try:
            future = self._sink.append(
                self._segment, writer, batch, events, previous, self._submitted + 1
            )
        except NumberConflictError as error:
            self._renew(writer)
            raise TransientError("an earlier batch failed in the sink") from error
        self._submitted += 1
        future.add_done_callback(partial(self._on_settled, writer))
        return future

    def _on_settled(self, writer: UUID, future: "asyncio.Future[None]") -> None:
        if future.cancelled() or future.exception() is not None:
            self._renew(writer)

    def _renew(self, writer: UUID) -> None:
        if writer == self._writer:
            self._writer, self._submitted = random_id(self._random), 0


class CountingWriters:
    """The counting writers of one stream, one a segment, made at the first batch."""

    def __init__(self, sink: Sink, random: Random) -> None:
        self._sink, self._random = sink, random
        self._writers: dict[str, CountingWriter] = {}

    def writer_for(self, routing_key: str) -> CountingWriter:
        """Return the writer of the segment that *routing_key* belongs to."""
        segment = self._sink.segment_for(routing_key)
        if segment not in self._writers:
            self._writers[segment] = CountingWriter(self._sink, segment, self._random)
        return self._writers[segment]


def random_id(random: Random) -> UUID:
    """Return a random UUID."""
    return UUID(int=random.getrandbits(128), version=4)
