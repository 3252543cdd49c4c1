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
from types import TracebackType
from typing import Final
from uuid import UUID
from zlib import crc32

import structlog

from logdrive.address import IggyAddress
from logdrive.errors import ConfigError, Mistake, TransientError
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.model.framing import Part
from logdrive.model.numbers import NOT_KEPT
from logdrive.model.units import MIB
from logdrive.net.retry import retry_async, wait_fixed
from logdrive.services.iggy.appender import IggyAppender
from logdrive.services.iggy.batches import PendingSend
from logdrive.services.iggy.client.session import IggyClientSession
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.topics import ensure_topic, why_not_durable
from logdrive.services.outage import Outage
from logdrive.services.sink import NumberConflictError
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.replies import TopicDetails

PENDING_BYTES: Final = 256 * MIB  # limit on batches that wait or are in flight
_OPEN_SECONDS: Final = 20.0  # limit on `open_writer`
_CLOSE_SECONDS: Final = 5.0  # limit on `close`
_RETRY_SECONDS: Final = 1.0  # between two attempts to find the topic


class IggySink:
    """A topic of Iggy. Implements `Sink`."""

    keeps_numbers = False

    def __init__(
        self,
        appender: IggyAppender,
        address: IggyAddress,
        partitions: int,
        store_id: UUID,
        *,
        random: Random,
        outage: Outage,
        pending_bytes: int,
    ) -> None:
        self.store_id = store_id
        self.segments = [f"{address.scope}/{address.stream}/{index}" for index in range(partitions)]
        self._index = {segment: index for index, segment in enumerate(self.segments)}
        self._appender = appender
        self._random = random
        self._outage = outage
        self._pending_bytes = pending_bytes
        # The number of the last batch of each writer that is pending, and its future.
        self._last: dict[UUID, tuple[int, asyncio.Future[None]]] = {}
        self._running = asyncio.create_task(appender.run(), name=f"iggy-sink-{address.uri}")

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
        until_answered = retry_async(
            TransientError,
            sleep=clock.sleep,
            wait=wait_fixed(_RETRY_SECONDS),
            on_failure=lambda error, _: outage.report_failure(str(error)),
        )
        found: tuple[IggyClientSession, TopicDetails, str]
        try:
            found = await until_answered(
                _find_topic, transport, target, address, partitions, random
            )
        except IggyError as error:
            raise ConfigError(
                "sink", [Mistake("uri", address.uri, f"the service refuses: {error}")]
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
            len(details.partitions),
            store_id,
            random=random,
            outage=outage,
            pending_bytes=pending_bytes,
        )

    def segment_for(self, routing_key: str) -> str:
        """Return the partition that *routing_key* belongs to, as `stream/topic/index`."""
        return self.segments[crc32(routing_key.encode()) % len(self.segments)]

    async def open_writer(self, segment: str, writer: UUID) -> int:
        """Return `NOT_KEPT` once none of the writer's batches is pending.

        Raises `TransientError` if that takes more than 20 s.
        """
        last = self._last.get(writer)
        if last is not None:
            await asyncio.wait([last[1]], timeout=_OPEN_SECONDS)
            if writer in self._last:
                raise TransientError(
                    f"not stored within {_OPEN_SECONDS:g} s: "
                    f"{self._outage.reason or 'the service is slow'}"
                )
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
        last = self._last.get(writer)
        if last is not None and last[0] != previous:
            raise NumberConflictError(
                f"the writer's number in {segment} is {last[0]}, not {previous}"
            )
        if self._running.done():
            self._running.result()  # raises the bug that ended it
        queue = self._appender.queue
        if queue.size and queue.size + sum(map(len, batch)) > self._pending_bytes:
            raise TransientError(
                f"{queue.size} bytes wait for {segment}: "
                f"{self._outage.reason or 'the service is slow'}"
            )
        index = self._index[segment]
        pending = PendingSend(batch, events, writer, number, index, self._random)
        done = pending.done
        self._last[writer] = (number, done)
        done.add_done_callback(lambda done: self._on_settled(writer, done))
        self._appender.submit(pending)
        return done

    def _on_settled(self, writer: UUID, done: "asyncio.Future[None]") -> None:
        last = self._last.get(writer)
        if last is not None and last[1] is done:
            del self._last[writer]

    async def close(self) -> None:
        """Wait up to 5 s for submitted batches; the futures of the others stay pending."""
        if self._last:
            await asyncio.wait([done for _, done in self._last.values()], timeout=_CLOSE_SECONDS)
        await self._stop()

    async def _stop(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()  # raises the bug that ended it

    async def __aenter__(self) -> "IggySink":
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
