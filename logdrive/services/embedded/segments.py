"""The current segments of a stream in this process's store, and the numbers that writers bring
along when the stream is scaled (rule S3).
"""

from uuid import UUID

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.sink import SegmentMovedError
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.store.streams import key_ranges
from logdrive.store.streams.errors import NoSuchScopeError, NoSuchStreamError, StreamsError
from logdrive.store.streams.state import Segment, Stream, StreamConfig
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.names import epoch_of_id, segment_name
from logdrive.wire.pravega.routing import key_fraction


class CurrentSegments:
    """The segments of one stream that take appends, refreshed when one of them was sealed.

    Call `find_or_create` before anything else.
    """

    def __init__(self, store: Store, streams: Streams, scope: str, stream: str) -> None:
        self._store = store
        self._streams = streams
        self._scope = scope
        self._stream = stream
        # Segments that take appends, ordered by their key ranges.
        self._current: list[Segment] = []

    async def find_or_create(self, segments: int) -> int:
        """Look the stream up and create it with *segments* segments if there is none.

        Returns how many segments take appends: 0 for a sealed stream.
        """
        try:
            stream = await self._streams.stream(self._scope, self._stream)
        except (NoSuchScopeError, NoSuchStreamError) as error:
            if isinstance(error, NoSuchScopeError):
                await self._streams.create_scope(self._scope)
            await self._streams.create(
                self._scope, self._stream, StreamConfig(min_segments=segments)
            )
            stream = await self._streams.stream(self._scope, self._stream)

        self._replace(stream)
        return len(key_ranges.current_segments(stream))

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of the segments that take appends, ordered by their key ranges."""
        return tuple(self._name_of(segment) for segment in self._current)

    def segment_for(self, routing_key: str) -> str:
        """Return the full name of the segment that *routing_key* belongs to now."""
        key = key_fraction(routing_key)
        return self._name_of(next(segment for segment in self._current if key <= segment.high))

    async def open_writer(self, segment: str, writer: UUID) -> int:
        """Return the writer's number in *segment*, carried over from earlier segments if needed.

        Returns `LOST` if the segment that had the number was removed. Raises `SegmentMovedError` if
        *segment* has successors, `TransientError` if it is sealed and has none.
        """
        info = self._store.info(segment)
        if info is None or info.sealed or segment not in self.names:
            await self.refresh()
            if segment not in self.names:
                raise SegmentMovedError(f"{segment} is sealed")

        try:
            return await self._carry_number(segment, writer)
        except (SegmentSealedError, NoSuchSegmentError) as error:
            raise TransientError(f"the stream was changed meanwhile: {error}") from error

    async def _carry_number(self, segment: str, writer: UUID) -> int:
        """Return the writer's number in *segment*, after copying it from an earlier segment."""
        number = await self._store.number(segment, writer)
        if number != ABSENT:
            return number

        before = await self._number_before(segment, writer)
        if before not in (ABSENT, LOST):
            await self._store.update(segment, writer, ABSENT, before)
        return before

    async def refresh(self) -> None:
        """Look up which segments take appends now. Raises `TransientError` if that fails."""
        try:
            self._replace(await self._streams.stream(self._scope, self._stream))
        except StreamsError as error:
            raise TransientError(str(error)) from error

    def _replace(self, stream: Stream) -> None:
        current = sorted(key_ranges.current_segments(stream), key=lambda segment: segment.low)
        # A sealed stream has no current segments: keep the last ones, so that appends to them fail.
        self._current = current or self._current

    async def _number_before(self, segment: str, writer: UUID) -> int:
        """Return the writer's last number in the segments that had its key before *segment*.

        Goes back epoch by epoch. Returns `ABSENT` if the writer never appended, `LOST` if a segment
        that may have had its number was removed.
        """
        stream = await self._streams.stream(self._scope, self._stream)
        successor = next(one for one in stream.segments if self._name_of(one) == segment)
        key = key_fraction(writer.hex)

        while epoch_of_id(successor.id) > 0:
            earlier = [
                one
                for one in stream.segments
                if one.until == epoch_of_id(successor.id) and one.low <= key <= one.high
            ]
            names = [self._name_of(one) for one in earlier]
            # retention removed one of them, and the number with it
            if not earlier or any(self._store.info(name) is None for name in names):
                return LOST
            number = max(self._store.attribute(name, writer) for name in names)
            if number != ABSENT:
                return number
            successor = earlier[0]
        return ABSENT

    def _name_of(self, segment: Segment) -> str:
        return segment_name(self._scope, self._stream, segment.id)
