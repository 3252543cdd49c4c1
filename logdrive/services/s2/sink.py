"""The sink onto a stream of S2: s2.dev, s2-lite, or our own store.

    async with S2Client(transport, target) as client:
        sink = await S2Sink.open_stream(client, address, store_id=…, clock=…, random=…)

S2 keeps no number for a writer (rule S5), so all that this sink compares is what is pending here.
What was submitted is stored exactly once, however connections, the service and other receivers
behave; `ExactlyOnceAppender` says how. A batch never fails because the service is away: it waits.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from uuid import UUID

import structlog

from logdrive.address import S2Address
from logdrive.errors import ConfigError, Mistake, TransientError
from logdrive.host.clock import Clock
from logdrive.model.framing import Part
from logdrive.model.numbers import NOT_KEPT
from logdrive.services.outage import Outage
from logdrive.services.s2.appender import ExactlyOnceAppender
from logdrive.services.s2.batches import BatchTooLargeError, PendingBatch
from logdrive.services.s2.client.client import S2Client
from logdrive.services.unnumbered_sink import (
    PENDING_BYTES,
    UnnumberedSink,
    retry_until_answered,
)
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.records import StreamPosition


class S2Sink(UnnumberedSink):
    """A stream of S2. Implements `Sink`; *client* must stay open until the sink is closed."""

    def __init__(
        self,
        appender: ExactlyOnceAppender,
        address: S2Address,
        store_id: UUID,
        *,
        random: Random,
        outage: Outage,
        pending_bytes: int,
    ) -> None:
        self.segment = f"{address.basin}/{address.stream}"
        super().__init__(
            store_id,
            appender.run(),
            f"s2-sink-{self.segment}",
            outage=outage,
            pending_bytes=pending_bytes,
        )
        self._appender = appender
        self._random = random

    @classmethod
    async def open_stream(
        cls,
        client: S2Client,
        address: S2Address,
        *,
        store_id: UUID,
        clock: Clock,
        random: Random,
        pending_bytes: int = PENDING_BYTES,
    ) -> "S2Sink":
        """Return the sink of the stream at *address*, which is created if it is missing.

        Waits for the service as long as it takes. Raises `ConfigError` if it refuses.
        """
        outage = Outage(client.where)
        until_answered = retry_until_answered(outage, clock)
        try:
            tail: StreamPosition = await until_answered(client.ensure_stream, address.stream)
        except S2Error as error:
            raise ConfigError(
                "sink", [Mistake("uri", address.uri, f"the service refuses: {error}")]
            ) from error
        outage.report_success()
        appender = ExactlyOnceAppender(
            client, address.stream, tail.seq_num, clock=clock, random=random, outage=outage
        )
        return cls(
            appender,
            address,
            store_id,
            random=random,
            outage=outage,
            pending_bytes=pending_bytes,
        )

    def segment_for(self, routing_key: str) -> str:
        """Return the stream's name as `basin/stream`: it has no parts."""
        return self.segment

    async def open_writer(self, segment: str, writer: UUID) -> int:
        """Return `NOT_KEPT` once none of the writer's batches is pending.

        Raises `TransientError` if that takes more than 20 s.
        """
        await self._writers.wait_for_writer(writer)
        return NOT_KEPT

    def append_batch(
        self,
        segment: str,
        writer: UUID,
        batch: Sequence[Part],
        events: int,
        previous: int,
        number: int,
    ) -> "asyncio.Future[None]":
        """Submit one batch; `Sink.append_batch` says with what.

        Raises `TransientError` at once, and stores nothing, if too much waits, or for a batch that
        no append of S2 can have, which the limits of batches rule out (R3). A writer of which
        nothing is pending may begin anywhere.
        """
        self._check_append(segment, writer, batch, previous, self._appender.queue.size)
        try:
            pending = PendingBatch(batch, writer, number, self._random)
        except BatchTooLargeError as error:
            structlog.get_logger("logdrive.sinks").error(
                "a batch can't be appended", stream=self.segment, reason=str(error)
            )
            raise TransientError(str(error)) from error
        self._writers.add(writer, number, pending.done)
        self._appender.submit(pending)
        return pending.done
