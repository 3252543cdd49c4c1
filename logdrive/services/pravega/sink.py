"""The sink onto a streaming service over the network, so that several receivers share one store.

    async with served(transport, Target("127.0.0.1", 9090), clock=…, random=…) as service:
        sink = await PravegaSink.of_stream(service, "logs", "events", segments=4, store_id=…)

That a run is stored only if it follows rests on the service: it compares each append of a
connection with the number that it told at the set-up, or that the append before it on that
connection left. So the first append that another connection has overtaken is refused, with all
behind it; here it is made sure that *previous* is that very number. Whatever was in flight on a
connection that ended has failed, which says nothing of whether it was stored: `open` tells.

Where the service has a controller its streams scale: a segment is sealed and others follow it, to
which the numbers of its writers are carried as they are opened there (rule S3).
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from logdrive.errors import LogdriveError, TransientError
from logdrive.model.framing import Part
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.cluster import Cluster
from logdrive.services.pravega.client.controller import (
    ControllerClient,
    StreamSegment,
    UnknownStreamError,
)
from logdrive.services.pravega.client.errors import TokenError, WrongHostError
from logdrive.services.pravega.client.pooled_connection import PooledConnection
from logdrive.services.pravega.client.predecessors import History
from logdrive.services.pravega.client.stream import StreamMap
from logdrive.services.pravega.client.writer import AppendWriter
from logdrive.services.pravega.reader.stream import segments_of
from logdrive.services.sink import NotOpenError, NumberConflictError, SegmentMovedError
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.wire.pravega.names import segment_name

_OPEN_SECONDS: Final = 20.0
_CLOSE_SECONDS: Final = 5.0


class PravegaSink:
    """A stream at a `Cluster`; the service's context outlasts it. Implements `Sink`."""

    keeps_numbers = True

    def __init__(self, service: Cluster, segments: Sequence[StreamSegment], store_id: UUID) -> None:
        self.store_id = store_id
        self._service = service
        self._map = StreamMap(segments, service, self._forget)
        self._history = (
            None if service.controller is None else History(service.controller, self._reach)
        )
        self._submitted: dict[asyncio.Future[int], None] = {}
        self._told: dict[str, None] = {}
        if service.controller is not None:
            service.spawn(
                self._map.run(), f"pravega-stream-{segments[0].scope}/{segments[0].stream}"
            )

    @classmethod
    async def of_stream(
        cls, service: Cluster, scope: str, stream: str, *, segments: int, store_id: UUID
    ) -> "PravegaSink":
        """Return the sink of *scope*/*stream*, made with *segments* segments where it is new; waits
        for the service as long as it takes.

        A stream that is there keeps the number of segments it has: with another number its sources
        would go elsewhere, where their numbers are not. Raises `ConfigError`.
        """
        controller = await service.found()
        if controller is None:
            made = await service.asked(
                segment_name(scope, stream, 0),
                lambda client: _made(client, scope, stream, segments),
            )
        else:
            made = await service.persist(lambda: _current(controller, scope, stream, segments))
        for segment in made:
            await (await service.persist(partial(service.locate, segment))).up()
        if len(made) != segments:
            log = structlog.get_logger("logdrive.sinks")
            log.warning(
                "the stream keeps its number of segments",
                stream=f"{scope}/{stream}",
                segments=len(made),
                configured=segments,
            )
        return cls(service, made, store_id)

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the segments that take appends now."""
        return tuple(segment.name for segment in self._map.segments)

    def segment_for(self, routing_key: str) -> str:
        """Return the segment that *routing_key* belongs to now, by Pravega's hash."""
        return self._map.of_key(routing_key).name

    async def open(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, told by the service in answer to a set-up; waits a
        while for one that is away.

        Raises `TransientError` where the service does not answer, `SegmentMovedError`.
        """
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await self._map.settled()
                place = self._map.named(segment)
                if place is None:
                    raise SegmentMovedError(f"{segment} is sealed")
                return await self._opened(place, writer)
        except TimeoutError as error:
            raise TransientError(
                f"no answer within {_OPEN_SECONDS:g} s: "
                f"{self._service.outage.reason or 'the service is slow'}"
            ) from error
        except SegmentMovedError:
            raise
        except LogdriveError as error:
            raise self._transient(segment, error) from error

    async def _opened(self, place: StreamSegment, writer: UUID) -> int:
        lane = await self._service.locate(place)
        while True:
            client = await lane.up()
            try:
                if self._history is None:
                    return (await client.set_up(place.name, writer)).durable
                return await self._carried(client, self._history, place, writer)
            except TransientError:
                if lane.client is client:
                    raise

    async def _carried(
        self, client: SegmentClient, history: History, place: StreamSegment, writer: UUID
    ) -> int:
        """Set *writer* up in a segment that may follow others, and that may have been sealed
        unnoticed (rule S3).
        """
        try:
            whole = await history.carry(place, writer)
            number = (await client.set_up(place.name, writer)).durable
            # a sealed one answers the set-up like any other
            state = await client.segment_info(place.name)
        except NoSuchSegmentError:
            state = None
        if state is None or state.sealed:
            self._map.sealed(place.name)
            raise SegmentMovedError(f"{place.name} is sealed")
        return LOST if number == ABSENT and not whole else number

    def _forget(self) -> None:
        if self._history is not None:
            self._history.forget()

    async def _reach(self, segment: StreamSegment) -> SegmentClient:
        return await (await self._service.locate(segment)).up()

    def append(
        self,
        segment: str,
        writer: UUID,
        batch: Sequence[Part],
        events: int,
        previous: int,
        number: int,
    ) -> "asyncio.Future[None]":
        """Submit one batch; a writer never seen need not be opened before.

        The future fails with `TransientError` as soon as the connection ends, or at once where
        there is none, too much is in flight, or the segment is sealed. Raises `NotOpenError` where
        the writer has to be opened on a new connection first.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size = sum(map(len, batch))
        try:
            lane = self._service.lane(segment)
            place = self._place(
                lane, segment, writer, ABSENT if previous == LOST else previous, size
            )
            stored = place.append(batch, events=events, number=number)
        except NumberConflictError:
            raise
        except LogdriveError as error:
            done.set_exception(self._transient(segment, error))
            return done
        self._service.in_flight += size
        self._submitted[stored] = None
        stored.add_done_callback(partial(self._settled, lane, segment, size, done))
        return done

    def _place(
        self, lane: PooledConnection, segment: str, writer: UUID, previous: int, size: int
    ) -> AppendWriter:
        """Return the writer that is to append *size* bytes after *previous*."""
        service, client = self._service, lane.client
        if client is None:
            raise TransientError(
                f"the streaming service is away: {service.outage.reason or 'not connected yet'}"
            )
        place = client.writers.of(segment, writer)
        if place is None and previous != ABSENT:
            raise NotOpenError(f"writer {writer} is not set up: open it again")
        if place is not None and place.submitted != previous:
            raise NumberConflictError(
                f"the writer's number in {segment} is {place.submitted}, not {previous}"
            )
        if service.in_flight and service.in_flight + size > service.in_flight_bytes:
            raise TransientError(f"{service.in_flight} bytes wait for the streaming service")
        return client.writers.begin(segment, writer) if place is None else place

    def _settled(
        self,
        lane: PooledConnection,
        segment: str,
        size: int,
        done: "asyncio.Future[None]",
        stored: "asyncio.Future[int]",
    ) -> None:
        del self._submitted[stored]
        self._service.in_flight -= size
        error = stored.exception()
        if error is None:
            lane.proved()
        if done.done():
            return  # its submitter no longer cares
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(
                self._transient(segment, error) if isinstance(error, LogdriveError) else error
            )

    def _transient(self, segment: str, error: LogdriveError) -> TransientError:
        """Return *error* as sessions understand it: nothing that a service says or does ends a
        receiver.
        """
        if isinstance(error, WrongHostError):
            self._service.moved(segment)
        elif isinstance(error, TokenError):
            self._service.refused(segment)
        elif not isinstance(error, SegmentSealedError | NoSuchSegmentError):
            pass
        elif self._service.controller is not None:
            self._map.sealed(segment)
        elif segment not in self._told:
            self._told[segment] = None
            remedy = (
                "let the sink's uri name another stream, or put back what was removed; a "
                "start makes one anew that is gone whole"
            )
            structlog.get_logger("logdrive.sinks").error(
                "a segment takes nothing", segment=segment, reason=str(error), remedy=remedy
            )
        return error if isinstance(error, TransientError) else TransientError(str(error))

    async def close(self) -> None:
        """Wait a little for what was submitted here; nobody is told of what is not acknowledged by
        then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._submitted:
                    await asyncio.wait(list(self._submitted))


async def _made(
    client: SegmentClient, scope: str, stream: str, segments: int
) -> list[StreamSegment]:
    """Return the stream's segments, made where it is new; there is no controller that would do it.

    The first is made last: who finds it finds all.
    """
    there = await segments_of(client, scope, stream)
    if not there:
        for number in reversed(range(segments)):
            await client.create_segment(segment_name(scope, stream, number))
        there = await segments_of(client, scope, stream)
    return [
        StreamSegment(scope, stream, number, number / len(there), (number + 1) / len(there))
        for number in range(len(there))
    ]


async def _current(
    controller: ControllerClient, scope: str, stream: str, segments: int
) -> list[StreamSegment]:
    """Return the stream's segments, made where the controller knows no such stream."""
    try:
        found = await controller.current(scope, stream)
    except UnknownStreamError:
        await controller.create(scope, stream, segments)
        found = await controller.current(scope, stream)
    if not found:
        raise TransientError(
            f"the stream {scope}/{stream} is sealed: let the sink's uri name another"
        )
    return found
