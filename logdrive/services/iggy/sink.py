"""The sink onto a topic of Iggy, of any revision, or of our own store.

    sink = await IggySink.open_topic(transport, target, address, partitions=4, store_id=…, …)

Iggy keeps no number for a writer (rule S5), so all that this sink compares is what is pending here.
What was submitted is stored exactly once, however connections, the service and other receivers
behave, as long as the service keeps what it acknowledged; `IggyAppender` says how. A batch never
fails because the service is away: it waits.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from uuid import UUID
from zlib import crc32

import structlog

from logdrive.address import IggyAddress
from logdrive.errors import ConfigError, Mistake, TransientError
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.model.framing import Part
from logdrive.model.numbers import NOT_KEPT
from logdrive.services.iggy.appender import IggyAppender, closed_error
from logdrive.services.iggy.batches import PendingSend
from logdrive.services.iggy.client.errors import explain_refusal
from logdrive.services.iggy.client.session import IggyClientSession
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.topics import ensure_topic, why_not_durable
from logdrive.services.outage import Outage
from logdrive.services.sink import SegmentMovedError
from logdrive.services.unnumbered_sink import (
    PENDING_BYTES,
    UnnumberedSink,
    retry_until_answered,
)
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.replies import TopicDetails


class IggySink(UnnumberedSink):
    """A topic of Iggy. Implements `Sink`."""

    def __init__(
        self,
        appender: IggyAppender,
        address: IggyAddress,
        store_id: UUID,
        *,
        random: Random,
        outage: Outage,
        pending_bytes: int,
    ) -> None:
        super().__init__(
            store_id,
            appender.run(),
            f"iggy-sink-{address.uri}",
            outage=outage,
            pending_bytes=pending_bytes,
        )
        self._name = f"{address.scope}/{address.stream}"
        self._appender = appender
        self._random = random

    @classmethod
    async def open_topic(
        cls,
        transport: Transport,
        target: IggyTarget,
        address: IggyAddress,
        *,
        partitions: int,
        store_id: UUID,
        clock: Clock,
        random: Random,
        pending_bytes: int = PENDING_BYTES,
    ) -> "IggySink":
        """Return the sink of the topic at *address*, which is created with so many *partitions* if
        it is missing.

        Waits for the service as long as it takes. Raises `ConfigError` if it refuses.
        """
        outage = Outage(target.where)
        until_answered = retry_until_answered(outage, clock)
        found: tuple[IggyClientSession, TopicDetails, str]
        try:
            found = await until_answered(
                _find_topic, transport, target, address, partitions, random
            )
        except IggyError as error:
            raise ConfigError(
                "sink", [Mistake("uri", address.uri, explain_refusal(target.where, error))]
            ) from error
        outage.report_success()
        session, details, warning = found
        if warning:
            structlog.get_logger("logdrive.sinks").warning(warning, stream=address.uri)
        appender = IggyAppender(
            transport,
            target,
            address,
            session,
            details,
            clock=clock,
            random=random,
            outage=outage,
        )
        return cls(
            appender,
            address,
            store_id,
            random=random,
            outage=outage,
            pending_bytes=pending_bytes,
        )

    @property
    def segments(self) -> list[str]:
        """The partitions that can be sent to, as `stream/topic/index`."""
        return [f"{self._name}/{index}" for index in self._appender.partitions]

    def segment_for(self, routing_key: str) -> str:
        """Return the partition that *routing_key* belongs to, as `stream/topic/index`."""
        partitions = self._appender.partitions
        return f"{self._name}/{partitions[crc32(routing_key.encode()) % len(partitions)]}"

    async def open_writer(self, segment: str, writer: UUID) -> int:
        """Return `NOT_KEPT` once none of the writer's batches is pending.

        Raises `TransientError` if that takes more than 20 s, and `SegmentMovedError` for a
        partition that was sealed, while there are others.
        """
        await self._writers.wait_for_writer(writer)
        if segment not in self.segments:
            raise SegmentMovedError(f"{segment} was sealed")
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

        Raises `TransientError` at once, and stores nothing, if too much waits. A writer of which
        nothing is pending may begin anywhere.
        """
        self._check_append(segment, writer, batch, previous, self._appender.queue.size)
        index = int(segment.rpartition("/")[2])
        if index in self._appender.closed:
            raise closed_error(segment, index)
        pending = PendingSend(batch, events, writer, number, index, self._random)
        self._writers.add(writer, number, pending.done)
        self._appender.submit(pending)
        return pending.done


async def _find_topic(
    transport: Transport,
    target: IggyTarget,
    address: IggyAddress,
    partitions: int,
    random: Random,
) -> tuple[IggyClientSession, TopicDetails, str]:
    """Return a session, the topic, and a warning if acknowledgements are not durable there."""
    session = await open_session(transport, target, random=random)
    try:
        details = await ensure_topic(session, address.scope, address.stream, partitions)
        if not details.partitions:
            raise TransientError(f"{target.where}: {address.uri} has no partitions: add some")
        return session, details, await why_not_durable(session, details)
    except BaseException:
        session.abort()
        raise
