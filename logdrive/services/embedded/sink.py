"""The sink onto a store in this process: the default, so that one process is a working system.

A sealed segment takes no more appends. If the stream can be scaled (a controller runs), the append
that met the seal fails only after the current segments were looked up: its sender tries again and
`segment_for` must name a successor by then.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import structlog

from logdrive.errors import StorageError, TransientError
from logdrive.model.framing import Part
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.embedded.segments import CurrentSegments
from logdrive.services.sink import NumberConflictError
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, NumberMismatchError, SegmentSealedError
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.names import segment_name
from logdrive.wire.pravega.routing import segment_number


class EmbeddedSink:
    """A stream of a `Store`. Implements `Sink`.

    The caller runs the store before the first `open_writer` and closes it after `close`.
    """

    keeps_numbers = True

    def __init__(
        self, store: Store, segments: Sequence[str], current: CurrentSegments | None = None
    ) -> None:
        self.store_id = store.store_id
        self._store = store
        # Names of all segments of a stream that is never scaled.
        self._segments = tuple(segments)
        # Segments of a stream that may be scaled, else None.
        self._current = current
        # Appends that are not durable yet.
        self._submitted: dict[asyncio.Future[int], None] = {}
        # Sealed segments that were logged.
        self._sealed: dict[str, None] = {}
        # Looks up the current segments after one was found sealed.
        self._refreshing: asyncio.Task[None] | None = None

    @classmethod
    async def open_stream(
        cls, store: Store, scope: str, stream: str, segments: int
    ) -> "EmbeddedSink":
        """Return the sink of *scope*/*stream*, which no controller scales.

        A new stream is created with *segments* segments. An existing one keeps the segments it has:
        with another number of them its sources would move to segments that do not have their
        numbers.
        """
        existing = stream_segments(store, scope, stream)
        if not existing:
            # The first segment last: a process that sees it, such as a controller, sees all.
            for number in reversed(range(segments)):
                await store.create(segment_name(scope, stream, number))
        else:
            _log_other_number(f"{scope}/{stream}", len(existing), segments)
        return cls(store, stream_segments(store, scope, stream))

    @classmethod
    async def open_scaling_stream(
        cls, store: Store, streams: Streams, scope: str, stream: str, segments: int
    ) -> "EmbeddedSink":
        """Return the sink of *scope*/*stream*, which a controller may scale at any time.

        A new stream is created with *segments* segments. Raises `TransientError` if the stream is
        sealed.
        """
        current = CurrentSegments(store, streams, scope, stream)
        current_count = await current.find_or_create(segments)
        if current_count == 0:
            raise TransientError(
                f"the stream {scope}/{stream} is sealed: let the sink's uri name another"
            )
        _log_other_number(f"{scope}/{stream}", current_count, segments)
        return cls(store, current.names, current)

    @property
    def segments(self) -> tuple[str, ...]:
        """The full names of the segments that take appends now."""
        return self._current.names if self._current is not None else self._segments

    def segment_for(self, routing_key: str) -> str:
        """Return the full name of the segment that *routing_key* belongs to, by Pravega's hash."""
        if self._current is not None:
            return self._current.segment_for(routing_key)
        return self._segments[segment_number(routing_key, len(self._segments))]

    async def open_writer(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number once none of its appends is pending.

        Raises `SegmentMovedError` if the stream was scaled.
        """
        if self._current is not None:
            return await self._current.open_writer(segment, writer)
        return await self._store.number(segment, writer)

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

        The future fails with `TransientError` if too much is pending or the segment is sealed.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            # A lost number means that this segment has none for the writer.
            expected = ABSENT if previous == LOST else previous
            stored = self._store.append(
                segment, batch, writer=writer, expected=expected, number=number, events=events
            )
        except NumberMismatchError as error:
            raise NumberConflictError(
                f"the writer's number in {segment} is {error.current}, not {previous}"
            ) from None
        except TransientError as error:
            done.set_exception(error)
            return done
        except (SegmentSealedError, NoSuchSegmentError) as error:
            self._refuse(segment, TransientError(str(error)), done)
            return done
        self._submitted[stored] = None
        stored.add_done_callback(lambda stored: self._resolve(stored, done))
        return done

    def _refuse(self, segment: str, refusal: TransientError, done: "asyncio.Future[None]") -> None:
        """Fail *done* with *refusal*, once the segment's successors are known, if it can have any.

        One look-up serves all appends that are refused while it runs.
        """
        if self._current is None:  # without a controller no segment follows
            self._log_sealed(segment)
            done.set_exception(refusal)
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(
                self._current.refresh(), name="embedded-sink-look"
            )
        self._refreshing.add_done_callback(partial(_fail_refused, refusal, done))

    def _log_sealed(self, segment: str) -> None:
        if segment not in self._sealed:
            self._sealed[segment] = None
            remedy = (
                "a client of the store's network face sealed it, which can't be undone: let the "
                "sink's uri name another stream"
            )
            structlog.get_logger().error(
                "a segment of the stream is sealed and takes no more appends",
                segment=segment,
                remedy=remedy,
            )

    async def close(self) -> None:
        """Wait until all submitted batches are durable or have failed; the store keeps running."""
        while self._submitted:
            await asyncio.wait(list(self._submitted))
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])

    def _resolve(self, stored: "asyncio.Future[int]", done: "asyncio.Future[None]") -> None:
        del self._submitted[stored]
        if done.done():
            return  # the caller cancelled it
        if (error := stored.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(None)


def _fail_refused(
    refusal: TransientError, done: "asyncio.Future[None]", looked: "asyncio.Task[None]"
) -> None:
    error = None if looked.cancelled() else looked.exception()
    if not done.done():
        done.set_exception(error if isinstance(error, StorageError) else refusal)


def _log_other_number(stream: str, existing: int, configured: int) -> None:
    if existing != configured:
        log = structlog.get_logger()
        log.warning(
            "the stream keeps its number of segments",
            stream=stream,
            segments=existing,
            configured=configured,
        )


def stream_segments(store: Store, scope: str, stream: str) -> list[str]:
    """Return the full names of the stream's segments 0, 1, 2 … up to the first missing one."""
    names: list[str] = []
    while store.info(name := segment_name(scope, stream, len(names))) is not None:
        names.append(name)
    return names
