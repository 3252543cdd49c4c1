"""Which segments of a stream in this process's store take appends, and what a writer's number was
before them (rule S3).
"""

from uuid import UUID

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.sink import SegmentMovedError
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.errors import NoSuchScopeError, NoSuchStreamError, StreamsError
from logdrive.store.streams.state import Segment, Stream, StreamConfig
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.names import epoch_of_id, segment_name
from logdrive.wire.pravega.routing import fraction


class Places:
    """The current segments of one stream, asked for anew where one of them takes nothing any more.

    `look` comes first.
    """

    def __init__(self, store: Store, streams: Streams, scope: str, stream: str) -> None:
        self._store, self._streams = store, streams
        self._scope, self._name = scope, stream
        self._now: list[Segment] = []

    async def made(self, segments: int) -> int:
        """Make the stream where it is new, and look at it; return how many segments it has, none
        where it is sealed.
        """
        try:
            stream = await self._streams.stream(self._scope, self._name)
        except (NoSuchScopeError, NoSuchStreamError) as error:
            if isinstance(error, NoSuchScopeError):
                await self._streams.create_scope(self._scope)
            await self._streams.create(self._scope, self._name, StreamConfig(min_segments=segments))
            stream = await self._streams.stream(self._scope, self._name)
        self._take(stream)
        return len(layout.current_segments(stream))

    @property
    def names(self) -> tuple[str, ...]:
        """The segments that take appends, in the order of their keys."""
        return tuple(self._segment(found) for found in self._now)

    def of_key(self, routing_key: str) -> str:
        """Return the segment that *routing_key* belongs to now."""
        place = fraction(routing_key)
        return self._segment(next(found for found in self._now if place <= found.high))

    async def opened(self, segment: str, writer: UUID) -> int:
        """Return the writer's number in *segment*, carried over from those before it where it has
        none; `LOST` where these are gone.

        Raises `SegmentMovedError` where others have taken its place, `TransientError` where none
        have.
        """
        info = self._store.info(segment)
        if info is None or info.sealed or segment not in self.names:
            await self.look_again()
            if segment not in self.names:
                raise SegmentMovedError(f"{segment} is sealed")
        try:
            return await self._carried(segment, writer)
        except (SegmentSealedError, NoSuchSegmentError) as error:
            raise TransientError(f"the stream was changed meanwhile: {error}") from error

    async def _carried(self, segment: str, writer: UUID) -> int:
        number = await self._store.number(segment, writer)
        if number != ABSENT:
            return number
        before = await self._before(segment, writer)
        if before not in (ABSENT, LOST):
            await self._store.update(segment, writer, ABSENT, before)
        return before

    async def look_again(self) -> None:
        """Find out which segments take appends by now.

        Raises `TransientError` where that can't be known.
        """
        try:
            self._take(await self._streams.stream(self._scope, self._name))
        except StreamsError as error:
            raise TransientError(str(error)) from error

    def _take(self, stream: Stream) -> None:
        """Note the current segments; those of a sealed stream stay what they were: nothing takes
        their place.
        """
        self._now = (
            sorted(layout.current_segments(stream), key=lambda found: found.low) or self._now
        )

    async def _before(self, segment: str, writer: UUID) -> int:
        """Return the number that *writer* had last before *segment*, which held its key from some
        epoch on.
        """
        stream = await self._streams.stream(self._scope, self._name)
        place = next(found for found in stream.segments if self._segment(found) == segment)
        key = fraction(writer.hex)
        while epoch_of_id(place.id) > 0:
            earlier = [
                found
                for found in stream.segments
                if found.until == epoch_of_id(place.id) and found.low <= key <= found.high
            ]
            if not earlier or any(
                self._store.info(self._segment(found)) is None for found in earlier
            ):
                return LOST
            if (
                number := max(
                    self._store.attribute(self._segment(found), writer) for found in earlier
                )
            ) != ABSENT:
                return number
            place = earlier[0]
        return ABSENT

    def _segment(self, segment: Segment) -> str:
        return segment_name(self._scope, self._name, segment.id)
