"""The sink onto a store in this process: the default, so that one process is a working system."""

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import structlog

from logdrive.errors import StorageError, TransientError
from logdrive.model.framing import Part
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.embedded.segments import Places
from logdrive.services.sink import NumberConflictError
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, NumberMismatchError, SegmentSealedError
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.names import segment_name
from logdrive.wire.pravega.routing import segment_number


class EmbeddedSink:
    """A stream of a `Store`; the store stays its owner's, who runs it before the first `open` and
    ends it after `close`.
    """

    keeps_numbers = True

    def __init__(self, store: Store, segments: Sequence[str], places: Places | None = None) -> None:
        self.store_id = store.store_id
        self._segments = tuple(segments)
        self._store, self._places = store, places
        self._submitted: dict[asyncio.Future[int], None] = {}
        self._sealed: dict[str, None] = {}
        self._looking: asyncio.Task[None] | None = None

    @classmethod
    async def of_stream(
        cls, store: Store, scope: str, stream: str, segments: int
    ) -> "EmbeddedSink":
        """Return the sink of *scope*/*stream*, made with *segments* segments where it is new.

        One that is there keeps the number of segments it has: with another number its sources would
        go elsewhere, where their numbers are not. The first segment is made last, so that whoever
        finds it, a controller for one, finds all.
        """
        there = stream_segments(store, scope, stream)
        if not there:
            for number in reversed(range(segments)):
                await store.create(segment_name(scope, stream, number))
        else:
            _tell_number(f"{scope}/{stream}", len(there), segments)
        return cls(store, stream_segments(store, scope, stream))

    @classmethod
    async def of_streams(
        cls, store: Store, streams: Streams, scope: str, stream: str, segments: int
    ) -> "EmbeddedSink":
        """Return the sink of a stream that a controller may scale meanwhile, made where it is new.

        Raises `TransientError` where it is sealed.
        """
        places = Places(store, streams, scope, stream)
        there = await places.made(segments)
        if there == 0:
            raise TransientError(
                f"the stream {scope}/{stream} is sealed: let the sink's uri name another"
            )
        _tell_number(f"{scope}/{stream}", there, segments)
        return cls(store, places.names, places)

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the segments that take appends now."""
        return self._places.names if self._places is not None else self._segments

    def segment_for(self, routing_key: str) -> str:
        """Return the segment that *routing_key* belongs to now, by Pravega's hash."""
        if self._places is not None:
            return self._places.of_key(routing_key)
        return self._segments[segment_number(routing_key, len(self._segments))]

    async def open(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, once nothing of it is pending.

        Raises `SegmentMovedError` where the stream was scaled.
        """
        if self._places is not None:
            return await self._places.opened(segment, writer)
        return await self._store.number(segment, writer)

    def append(
        self,
        segment: str,
        writer: UUID,
        batch: Sequence[Part],
        events: int,
        previous: int,
        number: int,
    ) -> "asyncio.Future[None]":
        """Submit one batch.

        A store that has too much to do, or whose segment was sealed, fails the future with
        `TransientError`.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
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
        stored.add_done_callback(lambda stored: self._pass_on(stored, done))
        return done

    def _refuse(self, segment: str, refusal: TransientError, done: "asyncio.Future[None]") -> None:
        """Fail *done*; where the stream may have been scaled, once it is known who follows: what is
        tried again then goes there.
        """
        if self._places is None:
            self._tell_sealed(segment)
            done.set_exception(refusal)
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(
                self._places.look_again(), name="embedded-sink-look"
            )
        self._looking.add_done_callback(partial(_fail, refusal, done))

    def _tell_sealed(self, segment: str) -> None:
        if segment not in self._sealed:
            self._sealed[segment] = None
            remedy = (
                "a client of the store's face did that, and it can't be undone: let the "
                "sink's uri name another stream"
            )
            structlog.get_logger().error(
                "a segment of the stream is sealed and takes nothing",
                segment=segment,
                remedy=remedy,
            )

    async def close(self) -> None:
        """Wait for what was submitted here; the store goes on."""
        while self._submitted:
            await asyncio.wait(list(self._submitted))
        if self._looking is not None:
            await asyncio.wait([self._looking])

    def _pass_on(self, stored: "asyncio.Future[int]", done: "asyncio.Future[None]") -> None:
        del self._submitted[stored]
        if done.done():
            return  # its submitter no longer cares
        if (error := stored.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(None)


def _fail(
    refusal: TransientError, done: "asyncio.Future[None]", looked: "asyncio.Task[None]"
) -> None:
    error = None if looked.cancelled() else looked.exception()
    if not done.done():
        done.set_exception(error if isinstance(error, StorageError) else refusal)


def _tell_number(stream: str, there: int, configured: int) -> None:
    if there != configured:
        log = structlog.get_logger()
        log.warning(
            "the stream keeps its number of segments",
            stream=stream,
            segments=there,
            configured=configured,
        )


def stream_segments(store: Store, scope: str, stream: str) -> list[str]:
    """Return the segments of a stream that are there: numbers 0, 1, 2 … until there is none."""
    found: list[str] = []
    while store.info(name := segment_name(scope, stream, len(found))) is not None:
        found.append(name)
    return found
