"""The segments before a segment, and the number that a writer had in them (rule S3).

A writer's number is an attribute of its segment, and a segment that scaling made has none. So
before a writer is set up there, the final number of the sealed segment before it is carried over;
that of the one before that, where it has none there, and so on. Of several segments merged into one
only that counts which had the writer's key, since in the others it never appended.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.controller import (
    ControllerClient,
    StreamSegment,
    predecessors_of,
)
from logdrive.store.errors import NoSuchSegmentError
from logdrive.wire.pravega.routing import fraction

Reach = Callable[[StreamSegment], Awaitable[SegmentClient]]
"""Gives the connection to the segment store of a segment."""


class History:
    """What came before the segments of one stream. *reach* gives connections."""

    def __init__(self, controller: ControllerClient, reach: Reach) -> None:
        self._controller, self._reach = controller, reach
        self._segments: dict[int, StreamSegment] = {}
        self._before: dict[int, tuple[int, ...]] = {}
        self._sealed: dict[int, None] = {}

    def forget(self) -> None:
        """Ask anew: in a service restored from a backup, scaling gives the same ids to other
        segments.
        """
        self._segments, self._before, self._sealed = {}, {}, {}

    async def carry(self, segment: StreamSegment, writer: UUID) -> bool:
        """Give *segment* the number that *writer* had before it, and tell whether a number absent
        there was never given.

        False where it may have been: a segment before it was deleted. Raises `TransientError`, also
        while a scaling is under way.
        """
        if segment.epoch == 0:
            return True  # nothing was before it
        client = await self._reach(segment)
        if await client.attribute(segment.name, writer) != ABSENT:
            return True
        number = await self._last_number(segment, writer)
        if number in (ABSENT, LOST):
            return number == ABSENT
        # another may have been first, with the same number
        await client.update_attribute(segment.name, writer, ABSENT, number)
        return True

    async def _last_number(self, segment: StreamSegment, writer: UUID) -> int:
        """Return the writer's final number before *segment*; `LOST` where the segment that would
        tell is gone.
        """
        place, key = segment, fraction(writer.hex)
        while place.epoch > 0:
            before = await self._predecessors(place, key)
            numbers = [await self._final(found, writer) for found in before]
            if told := [number for number in numbers if number not in (ABSENT, LOST)]:
                return max(told)
            if not numbers or LOST in numbers:
                return LOST
            place = max(before, key=lambda found: found.epoch)
        return ABSENT

    async def _final(self, segment: StreamSegment, writer: UUID) -> int:
        """Return the writer's number in *segment*, which it keeps for ever; `LOST` where the
        segment was deleted.
        """
        client = await self._reach(segment)
        if segment.id not in self._sealed:
            state = await client.segment_info(segment.name)
            if state is None:
                return LOST
            if not state.sealed:
                raise TransientError(f"{segment.name} is being sealed")
            self._sealed[segment.id] = None
        try:
            return await client.attribute(segment.name, writer)
        except NoSuchSegmentError:
            return LOST

    async def _predecessors(self, segment: StreamSegment, key: float) -> list[StreamSegment]:
        """Return the segment before *segment* that had *key*, or the few that may have had it; none
        where the stream gave it up.
        """
        if segment.id not in self._before:
            await self._look(segment)
        before = self._before[segment.id]
        known = [self._segments[id_] for id_ in before if id_ in self._segments]
        if having := [
            found for found in known if found.low < key <= found.high or key == found.low == 0
        ]:
            return having
        return [
            replace(segment, id=id_, low=0.0, high=1.0)
            for id_ in before
            if id_ not in self._segments
        ]

    async def _look(self, segment: StreamSegment) -> None:
        past = await predecessors_of(self._controller, segment.scope, segment.stream)
        for oldest in past.oldest:
            self._before.setdefault(oldest, ())
        for found in past.later.values():
            self._segments[found.segment.id] = found.segment
            self._before[found.segment.id] = found.predecessors
        if segment.id not in self._before:
            raise TransientError(f"the controller does not tell what was before {segment.name}")
