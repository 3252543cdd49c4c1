"""The sink onto a streaming service over the network, so that several receivers share one store.

    async with open_cluster(transport, Target("127.0.0.1", 9090), clock=…, random=…) as service:
        sink = await PravegaSink.of_stream(service, "logs", "events", segments=4, store_id=…)

The service makes sure that a run is stored only behind its predecessor. It compares each append
with the number that it returned when the writer was set up on this connection, or that the append
before it on this connection set. So if another connection has appended meanwhile, the next append
is refused, and all behind it. This sink makes sure that *previous* is that very number.

When a connection ends, everything in flight on it has failed, and may have been stored or not:
`open_writer` returns what the service has.

If the service has a controller, its streams may be scaled. A segment is sealed then and others
follow it. The number of a writer is copied to the new segment when the writer is opened there
(rule S3).
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
from logdrive.services.pravega.reader.stream import list_first_segments
from logdrive.services.sink import NotOpenError, NumberConflictError, SegmentMovedError
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.wire.pravega.names import segment_name

_OPEN_SECONDS: Final = 20.0  # limit on `open_writer`
_CLOSE_SECONDS: Final = 5.0  # limit on `close`


class PravegaSink:
    """A stream at a `Cluster`, which must stay open until the sink is closed. Implements `Sink`."""

    keeps_numbers = True

    def __init__(self, service: Cluster, segments: Sequence[StreamSegment], store_id: UUID) -> None:
        self.store_id = store_id
        self._service = service
        self._map = StreamMap(segments, service, self._on_segments_changed)
        self._history = (
            None
            if service.controller is None
            else History(service.controller, self._connect_segment)
        )
        # Appends that are not acknowledged yet.
        self._submitted: dict[asyncio.Future[int], None] = {}
        # Segments that take no more appends and were logged.
        self._logged: dict[str, None] = {}
        if service.controller is not None:
            service.spawn(
                self._map.run(), f"pravega-stream-{segments[0].scope}/{segments[0].stream}"
            )

    @classmethod
    async def open_stream(
        cls, service: Cluster, scope: str, stream: str, *, segments: int, store_id: UUID
    ) -> "PravegaSink":
        """Return the sink of *scope*/*stream*; waits for the service as long as it takes.

        A new stream is created with *segments* segments. An existing one keeps the segments it has:
        with another number of them its sources would move to segments that do not have their
        numbers. Raises `ConfigError`.
        """
        controller = await service.find_controller()
        if controller is None:
            current = await service.ask_segment_store(
                segment_name(scope, stream, 0),
                lambda client: _find_or_create_segments(client, scope, stream, segments),
            )
        else:
            current = await service.persist(
                lambda: _find_or_create_stream(controller, scope, stream, segments)
            )

        # the sink's first appends must not fail for want of a connection
        for segment in current:
            connection = await service.persist(partial(service.locate_connection, segment))
            await connection.wait_connected()

        if len(current) != segments:
            log = structlog.get_logger("logdrive.sinks")
            log.warning(
                "the stream keeps its number of segments",
                stream=f"{scope}/{stream}",
                segments=len(current),
                configured=segments,
            )
        return cls(service, current, store_id)

    @property
    def segments(self) -> tuple[str, ...]:
        """The full names of the segments that take appends now."""
        return tuple(segment.name for segment in self._map.segments)

    def segment_for(self, routing_key: str) -> str:
        """Return the full name of the segment that *routing_key* belongs to, by Pravega's hash."""
        return self._map.segment_for_key(routing_key).name

    async def open_writer(self, segment: str, writer: UUID) -> int:
        """Set the writer up at the service, and return the durable number that it answers with.

        Waits up to 20 s for a service that is away. Raises `TransientError` if it does not answer
        in time, `SegmentMovedError` if the stream was scaled.
        """
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await self._map.wait_current()
                target = self._map.find_current(segment)
                if target is None:
                    raise SegmentMovedError(f"{segment} is sealed")
                return await self._set_up_writer(target, writer)
        except TimeoutError as error:
            raise TransientError(
                f"no answer within {_OPEN_SECONDS:g} s: "
                f"{self._service.outage.reason or 'the service is slow'}"
            ) from error
        except SegmentMovedError:
            raise
        except LogdriveError as error:
            raise self._as_transient(segment, error) from error

    async def _set_up_writer(self, target: StreamSegment, writer: UUID) -> int:
        connection = await self._service.locate_connection(target)
        while True:
            client = await connection.wait_connected()
            try:
                if self._history is None:
                    return (await client.set_up_writer(target.name, writer)).durable
                return await self._set_up_with_history(client, self._history, target, writer)
            except TransientError:
                # if the connection ended meanwhile, try once more on the next one
                if connection.client is client:
                    raise

    async def _set_up_with_history(
        self, client: SegmentClient, history: History, target: StreamSegment, writer: UUID
    ) -> int:
        """Set *writer* up in a segment that may have predecessors, and may be sealed (rule S3)."""
        try:
            complete = await history.carry_number(target, writer)
            number = (await client.set_up_writer(target.name, writer)).durable
            # a sealed segment answers a set-up like any other
            state = await client.segment_info(target.name)
        except NoSuchSegmentError:
            state = None
        if state is None or state.sealed:
            self._map.on_sealed(target.name)
            raise SegmentMovedError(f"{target.name} is sealed")
        return LOST if number == ABSENT and not complete else number

    def _on_segments_changed(self) -> None:
        if self._history is not None:
            self._history.forget_graph()

    async def _connect_segment(self, segment: StreamSegment) -> SegmentClient:
        return await (await self._service.locate_connection(segment)).wait_connected()

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

        A writer that the service has never seen (*previous* is ABSENT or LOST) need not be opened.
        The future fails with `TransientError` when the connection ends, or at once if there is no
        connection, too much is in flight, or the segment is sealed. Raises `NotOpenError` if the
        writer must be opened first, since the connection is a new one.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size = sum(map(len, batch))
        try:
            connection = self._service.connection_of(segment)
            append_writer = self._writer_for(
                connection, segment, writer, ABSENT if previous == LOST else previous, size
            )
            stored = append_writer.append_data(batch, events=events, number=number)
        except NumberConflictError:
            raise
        except LogdriveError as error:
            done.set_exception(self._as_transient(segment, error))
            return done
        self._service.in_flight += size
        self._submitted[stored] = None
        stored.add_done_callback(partial(self._on_append_done, connection, segment, size, done))
        return done

    def _writer_for(
        self, connection: PooledConnection, segment: str, writer: UUID, previous: int, size: int
    ) -> AppendWriter:
        """Return the connection's writer for an append of *size* bytes after *previous*."""
        service, client = self._service, connection.client
        if client is None:
            raise TransientError(
                f"the streaming service is away: {service.outage.reason or 'not connected yet'}"
            )
        append_writer = client.writers.find_writer(segment, writer)
        if append_writer is None and previous != ABSENT:
            raise NotOpenError(f"writer {writer} is not set up: open it again")
        if append_writer is not None and append_writer.submitted != previous:
            raise NumberConflictError(
                f"the writer's number in {segment} is {append_writer.submitted}, not {previous}"
            )
        # a single batch over the limit goes alone
        if service.in_flight and service.in_flight + size > service.in_flight_bytes:
            raise TransientError(f"{service.in_flight} bytes wait for the streaming service")
        return (
            client.writers.begin_new_writer(segment, writer)
            if append_writer is None
            else append_writer
        )

    def _on_append_done(
        self,
        connection: PooledConnection,
        segment: str,
        size: int,
        done: "asyncio.Future[None]",
        stored: "asyncio.Future[int]",
    ) -> None:
        del self._submitted[stored]
        self._service.in_flight -= size
        error = stored.exception()
        if error is None:
            connection.report_success()
        if done.done():
            return  # the caller cancelled it
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(
                self._as_transient(segment, error) if isinstance(error, LogdriveError) else error
            )

    def _as_transient(self, segment: str, error: LogdriveError) -> TransientError:
        """Return *error* as a `TransientError`, after acting on what it says of *segment*.

        Sessions get no other kind, so that no answer of a service can end a receiver.
        """
        if isinstance(error, WrongHostError):
            self._service.forget_location(segment)
        elif isinstance(error, TokenError):
            self._service.forget_token(segment)
        elif not isinstance(error, SegmentSealedError | NoSuchSegmentError):
            pass  # it says nothing of the segment
        elif self._service.controller is not None:
            self._map.on_sealed(segment)
        elif segment not in self._logged:
            self._logged[segment] = None
            remedy = (
                "let the sink's uri name another stream, or restore what was removed; a stream "
                "that is gone as a whole is created again when the receiver starts"
            )
            structlog.get_logger("logdrive.sinks").error(
                "a segment takes no more appends", segment=segment, reason=str(error), remedy=remedy
            )
        return error if isinstance(error, TransientError) else TransientError(str(error))

    async def close(self) -> None:
        """Wait up to 5 s for submitted batches; the futures of the others stay pending."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._submitted:
                    await asyncio.wait(list(self._submitted))


async def _find_or_create_segments(
    client: SegmentClient, scope: str, stream: str, segments: int
) -> list[StreamSegment]:
    """Return the stream's segments at a service without a controller; create a new stream.

    The first segment is created last: a receiver that sees it, sees all.
    """
    states = await list_first_segments(client, scope, stream)
    if not states:
        for number in reversed(range(segments)):
            await client.create_segment(segment_name(scope, stream, number))
        states = await list_first_segments(client, scope, stream)
    return [
        StreamSegment(scope, stream, number, number / len(states), (number + 1) / len(states))
        for number in range(len(states))
    ]


async def _find_or_create_stream(
    controller: ControllerClient, scope: str, stream: str, segments: int
) -> list[StreamSegment]:
    """Return the stream's current segments; create a stream that the controller does not know."""
    try:
        current = await controller.current_segments(scope, stream)
    except UnknownStreamError:
        await controller.create_stream(scope, stream, segments)
        current = await controller.current_segments(scope, stream)
    if not current:
        raise TransientError(
            f"the stream {scope}/{stream} is sealed: let the sink's uri name another"
        )
    return current
