"""The sink onto a streaming service over the network, so that several receivers share one store.

    async with served(transport, Target("127.0.0.1", 6000), clock=…, random=…) as service:
        sink = await PravegaSink.of_stream(service, "logs", "events", segments=4, store_id=…)

That a run is stored only if it follows rests on the service: it compares each append of a connection with the number that it told at
the set-up, or that the append before it on that connection left. So the first append that another connection has overtaken is
refused, with all behind it; here it is made sure that *previous* is that very number. Whatever was in flight on a connection that
ended has failed, which says nothing of whether it was stored: `open` tells.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Final, TypeVar
from uuid import UUID
from zlib import crc32

import structlog

from logdrive.clock import Clock
from logdrive.errors import LogdriveError, TransientError
from logdrive.limits import MIB
from logdrive.net.stream import Transport
from logdrive.record import ABSENT
from logdrive.sinks.base import NumberConflictError
from logdrive.sinks.blocking import Target
from logdrive.sinks.pravega_answers import RefusedError
from logdrive.sinks.pravega_client import SegmentClient
from logdrive.sinks.pravega_lane import Lane, Outage
from logdrive.sinks.pravega_writer import AppendWriter
from logdrive.sinks.stream_reader import segments_of
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.wire.pravega.routing import segment_name, segment_number

T = TypeVar("T")

IN_FLIGHT_BYTES: Final = 256 * MIB
_LANES: Final = 4
_OPEN_SECONDS: Final = 20.0
_RETRY_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0


class Service:
    """The connections to one service, shared by the sinks onto its streams. *in_flight* counts bytes not acknowledged."""

    def __init__(self, lanes: Sequence[Lane], outage: Outage, clock: Clock, in_flight_bytes: int) -> None:
        self._lanes, self._clock = lanes, clock
        self.outage, self.in_flight_bytes = outage, in_flight_bytes
        self.in_flight = 0

    def lane(self, segment: str) -> Lane:
        """Return the connection of *segment*: always the same one, so that what one process appends to it keeps its order."""
        return self._lanes[crc32(segment.encode()) % len(self._lanes)]

    async def asked(self, ask: Callable[[SegmentClient], Awaitable[T]]) -> T:
        """Return what *ask* does, once the service is there and does it. Raises `ConfigError` for certificates that can't be loaded."""
        lane = self._lanes[0]
        while True:
            client = await lane.up()
            try:
                found = await ask(client)
            except (TransientError, RefusedError) as error:
                self.outage.began(str(error))
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                lane.proved()
                return found


@contextlib.asynccontextmanager
async def served(
    transport: Transport, target: Target, *, clock: Clock, random: Random, in_flight_bytes: int = IN_FLIGHT_BYTES
) -> AsyncIterator[Service]:
    """Keep connections to the service at *target* while the context lasts, whether it is there or not."""
    outage = Outage(f"{target.host}:{target.port}")
    lanes = [Lane(transport, target, outage, clock=clock, random=random) for _ in range(_LANES)]
    running = [asyncio.create_task(lane.run(), name=f"pravega-lane-{number}") for number, lane in enumerate(lanes)]
    try:
        yield Service(lanes, outage, clock, in_flight_bytes)
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
        for error in ended:
            if not isinstance(error, asyncio.CancelledError):
                raise error or RuntimeError("a connection's task ended by itself")


class PravegaSink:
    """A stream at a `Service`; the service's context outlasts it. Implements `Sink`."""

    keeps_numbers = True

    def __init__(self, service: Service, segments: Sequence[str], store_id: UUID) -> None:
        self.store_id = store_id
        self.segments = tuple(segments)
        self._service = service
        self._submitted: dict[asyncio.Future[int], None] = {}
        self._told: dict[str, None] = {}

    @classmethod
    async def of_stream(cls, service: Service, scope: str, stream: str, *, segments: int, store_id: UUID) -> "PravegaSink":
        """Return the sink of *scope*/*stream*, made with *segments* segments where it is new; waits for the service as long as it takes.

        A stream that has data keeps the number of segments it has: with another number its sources would go elsewhere, where
        their numbers are not.
        """
        names = await service.asked(lambda client: _made(client, scope, stream, segments))
        for name in names:
            await service.lane(name).up()
        if len(names) != segments:
            log = structlog.get_logger("logdrive.sinks")
            log.warning("the stream keeps its number of segments", stream=f"{scope}/{stream}", segments=len(names), configured=segments)
        return cls(service, names, store_id)

    def segment_for(self, routing_key: str) -> str:
        """Return the segment that *routing_key* belongs to, by Pravega's hash."""
        return self.segments[segment_number(routing_key, len(self.segments))]

    async def open(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, told by the service in answer to a set-up; waits a while for one that is away.

        Raises `TransientError` where the service does not answer.
        """
        lane = self._service.lane(segment)
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                while True:
                    client = await lane.up()
                    try:
                        return (await client.set_up(segment, writer)).durable
                    except TransientError:
                        if lane.client is client:
                            raise
        except TimeoutError as error:
            raise TransientError(f"no answer within {_OPEN_SECONDS:g} s: {self._service.outage.reason or 'the service is slow'}") from error
        except LogdriveError as error:
            raise self._transient(segment, error) from error

    def append(self, segment: str, writer: UUID, batch: Sequence[bytes], events: int, previous: int, number: int) -> "asyncio.Future[None]":
        """Submit one batch; a writer never seen need not be opened before.

        The future fails with `TransientError` as soon as the connection ends, or at once where there is none, too much is in flight,
        or the segment is sealed. Raises `NumberConflictError` also where the writer has to be opened on a new connection first.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size = sum(map(len, batch))
        try:
            place = self._place(segment, writer, previous, size)
            stored = place.append(batch, events=events, number=number)
        except NumberConflictError:
            raise
        except LogdriveError as error:
            done.set_exception(self._transient(segment, error))
            return done
        self._service.in_flight += size
        self._submitted[stored] = None
        stored.add_done_callback(partial(self._settled, segment, size, done))
        return done

    def _place(self, segment: str, writer: UUID, previous: int, size: int) -> AppendWriter:
        """Return the writer that is to append *size* bytes after *previous*."""
        service = self._service
        client = service.lane(segment).client
        if client is None:
            raise TransientError(f"the streaming service is away: {service.outage.reason or 'not connected yet'}")
        place = client.writers.of(segment, writer)
        if place is None and previous != ABSENT:
            raise NumberConflictError(f"writer {writer} is not set up: open it again")
        if place is not None and place.submitted != previous:
            raise NumberConflictError(f"the writer's number in {segment} is {place.submitted}, not {previous}")
        if service.in_flight and service.in_flight + size > service.in_flight_bytes:
            raise TransientError(f"{service.in_flight} bytes wait for the streaming service")
        return client.writers.begin(segment, writer) if place is None else place

    def _settled(self, segment: str, size: int, done: "asyncio.Future[None]", stored: "asyncio.Future[int]") -> None:
        del self._submitted[stored]
        self._service.in_flight -= size
        error = stored.exception()
        if error is None:
            self._service.lane(segment).proved()
        if done.done():
            return  # its submitter no longer cares
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(self._transient(segment, error) if isinstance(error, LogdriveError) else error)

    def _transient(self, segment: str, error: LogdriveError) -> TransientError:
        """Return *error* as sessions understand it: nothing that a service says or does ends a receiver."""
        if isinstance(error, SegmentSealedError | NoSuchSegmentError) and segment not in self._told:
            self._told[segment] = None
            remedy = "let the sink's uri name another stream, or put back what was removed"
            structlog.get_logger("logdrive.sinks").error("a segment takes nothing", segment=segment, reason=str(error), remedy=remedy)
        return error if isinstance(error, TransientError) else TransientError(str(error))

    async def close(self) -> None:
        """Wait a little for what was submitted here; nobody is told of what is not acknowledged by then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._submitted:
                    await asyncio.wait(list(self._submitted))


async def _made(client: SegmentClient, scope: str, stream: str, segments: int) -> list[str]:
    """Return the stream's segments, completed where it has no data."""
    there = await segments_of(client, scope, stream)
    if not any(state.length for state in there):
        for number in range(len(there), segments):
            await client.create_segment(segment_name(scope, stream, number))
        there = await segments_of(client, scope, stream)
    return [state.segment for state in there]
