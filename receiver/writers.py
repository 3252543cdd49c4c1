"""Writers: which registration may append for a source, and from which number.

There is one writer for each source, shared by all sessions, so that a later registration fences an
earlier one (rule S2).
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Protocol
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.model.framing import Part
from logdrive.model.numbers import ABSENT, NOT_KEPT
from logdrive.services.sink import NumberConflictError, SegmentMovedError, Sink


class Holder(Protocol):
    """The one that appends for a source: a registration on one connection."""

    def on_fenced(self) -> None:
        """Called when another registration takes the source over: appends of this one are refused
        from now on (E 8).
        """
        ...


class Writer:
    """Appends for one source, each on condition of the number that the one before left."""

    __slots__ = ("_sink", "holder", "reached", "segment", "source", "submitted")

    def __init__(self, sink: Sink, source: UUID) -> None:
        self._sink = sink
        self.source = source
        self.segment = ""  # where the source's runs go, once the number was read
        self.holder: Holder | None = None
        self.submitted: int | None = None  # number submitted last, durable or not; None: not read
        # number up to which the holder's runs are durable, without a gap, at a service that keeps
        # no numbers (rule S5); None before its first run
        self.reached: int | None = None

    async def read_durable_number(self, holder: Holder) -> int:
        """Return the durable number, once what was submitted has settled; the runs of *holder* go
        on from it.

        It is read from the segment that the source belongs to now, another one than before if the
        stream was scaled (rule S3). A service that keeps no numbers (rule S5) answers `NOT_KEPT`
        until *holder* has appended, from then on the number is what *holder* has durable.

        Raises `TransientError` and `StorageError`.
        """
        segment, number = await self._ask_sink()
        # taken over while the sink answered: the new holder reads the number for itself
        if self.holder is holder:
            if number == NOT_KEPT and self.reached is not None:
                number = self.reached
            self.segment, self.submitted = segment, number
        return number

    async def _ask_sink(self) -> tuple[str, int]:
        """Return the segment that the source belongs to, and its number there."""
        while True:
            segment = self._sink.segment_for(self.source.hex)
            with contextlib.suppress(SegmentMovedError):  # then it names the successor
                return segment, await self._sink.open_writer(segment, self.source)

    def follows(self, previous: int) -> bool:
        """Return whether a run from *previous* is the next one (rules P2, D3: a source that was
        never stored starts at 0). Where no numbers are kept any first run is (rule S5).
        """
        submitted = self.submitted
        if submitted == NOT_KEPT:
            return True
        return submitted is not None and previous == max(submitted, 0)

    def append_run(
        self, holder: Holder, batch: Sequence[Part], events: int, previous: int, number: int
    ) -> "asyncio.Future[None]":
        """Submit a batch of *events* Pravega events that takes the source from *previous*, which
        `follows`, to *number*.

        Return the future of its append. Raises `NumberConflictError` if the source was taken over,
        here or by another process, and what `Sink.append` raises.
        """
        if self.holder is not holder or self.submitted is None:
            raise NumberConflictError(f"source {self.source} was taken over")
        if self.submitted == NOT_KEPT:
            # Also if the append fails: the runs behind it, already on their way, don't follow then.
            self.submitted = self.reached = previous or ABSENT
        before = self.submitted
        future = self._sink.append_batch(self.segment, self.source, batch, events, before, number)
        self.submitted = number
        if self.reached is not None:
            future.add_done_callback(partial(self._on_stored, holder, before, number))
        return future

    def _on_stored(
        self, holder: Holder, before: int, number: int, future: "asyncio.Future[None]"
    ) -> None:
        failed = future.cancelled() or future.exception() is not None
        if not failed and self.holder is holder and self.reached == before:
            self.reached = number


class WriterTable:
    """The writers of all sources that are registered in this process.

    The segment of a source may change, so it is no part of the key.
    """

    def __init__(self) -> None:
        self._writers: dict[UUID, Writer] = {}

    def __len__(self) -> int:
        return len(self._writers)

    def claim_writer(self, sink: Sink, source: UUID, holder: Holder) -> Writer:
        """Make *holder* the only one that appends for *source*; an earlier one is fenced."""
        writer = self._writers.setdefault(source, Writer(sink, source))
        earlier, writer.holder = writer.holder, holder
        # nothing may be appended before the number is read again
        writer.submitted = writer.reached = None
        if earlier is not None and earlier is not holder:
            earlier.on_fenced()
        return writer

    def release_writer(self, writer: Writer, holder: Holder) -> None:
        """Forget *writer*, unless another registration holds it by now. Appends that were submitted
        go on.
        """
        if writer.holder is holder:
            writer.holder = None
            del self._writers[writer.source]


class CountingWriter:
    """Appends batches of foreign peers to one segment, under a random id and numbered one by one
    (rule S4).

    After a failure it goes on under a new id, so that it need not wait for the other appends that
    fail with it.
    """

    __slots__ = ("_random", "_segment", "_sink", "_submitted", "_writer")

    def __init__(self, sink: Sink, segment: str, random: Random) -> None:
        self._sink = sink
        self._segment = segment  # full name
        self._random = random
        self._writer = random_id(random)  # the id that it appends under now
        self._submitted = 0  # number submitted last under that id

    def append_batch(self, batch: Sequence[Part], events: int) -> "asyncio.Future[None]":
        """Submit a batch of *events* Pravega events; return the future of its append.

        Raises `TransientError` if the sink fails; nothing was stored then.
        """
        writer, previous = self._writer, self._submitted or ABSENT
        try:
            future = self._sink.append_batch(
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
        # every append in flight fails with the first one: only that one renews the id
        if writer == self._writer:
            self._writer, self._submitted = random_id(self._random), 0


class CountingWriters:
    """The counting writers of one stream: one for each segment, made at its first batch."""

    def __init__(self, sink: Sink, random: Random) -> None:
        self._sink = sink
        self._random = random
        self._writers: dict[str, CountingWriter] = {}  # by segment

    def writer_for(self, routing_key: str) -> CountingWriter:
        """Return the writer of the segment that *routing_key* belongs to."""
        segment = self._sink.segment_for(routing_key)
        if segment not in self._writers:
            self._writers[segment] = CountingWriter(self._sink, segment, self._random)
        return self._writers[segment]


def random_id(random: Random) -> UUID:
    """Return a random UUID."""
    return UUID(int=random.getrandbits(128), version=4)
