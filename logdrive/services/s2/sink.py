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
from types import TracebackType
from typing import Final
from uuid import UUID

import structlog

from logdrive.address import S2Address
from logdrive.errors import ConfigError, Mistake, TransientError
from logdrive.host.clock import Clock
from logdrive.model.framing import Part
from logdrive.model.numbers import NOT_KEPT
from logdrive.model.units import MIB
from logdrive.net.retry import retry_async, wait_fixed
from logdrive.services.outage import Outage
from logdrive.services.pending_writers import PendingWriters
from logdrive.services.s2.appender import ExactlyOnceAppender
from logdrive.services.s2.batches import BatchTooLargeError, PendingBatch
from logdrive.services.s2.client.client import S2Client
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.records import StreamPosition

PENDING_BYTES: Final = 256 * MIB  # limit on batches that wait or are in flight
_RETRY_SECONDS: Final = 1.0  # between two attempts to find the stream


class S2Sink:
    """A stream of S2. Implements `Sink`; *client* must stay open until the sink is closed."""

    keeps_numbers = False

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
        self.store_id = store_id
        self.segment = f"{address.basin}/{address.stream}"
        self._appender = appender
        self._random = random
        self._pending_bytes = pending_bytes
        self._writers = PendingWriters(outage)
        self._running = asyncio.create_task(appender.run(), name=f"s2-sink-{self.segment}")

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
        until_answered = retry_async(
            TransientError,
            sleep=clock.sleep,
            wait=wait_fixed(_RETRY_SECONDS),
            on_failure=lambda error, _: outage.report_failure(str(error)),
        )
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
        self._writers.check_previous(segment, writer, previous)
        if self._running.done():
            self._running.result()  # raises the bug that ended it
        more = sum(map(len, batch))
        self._writers.check_room(self._appender.queue.size, more, self._pending_bytes, segment)
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

    async def close(self) -> None:
        """Wait up to 5 s for submitted batches; the futures of the others stay pending."""
        await self._writers.wait_for_all()
        await self._stop()

    async def _stop(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()  # raises the bug that ended it

    async def __aenter__(self) -> "S2Sink":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the sink, after an exception without waiting."""
        if kind is None:
            await self.close()
        else:
            await self._stop()
