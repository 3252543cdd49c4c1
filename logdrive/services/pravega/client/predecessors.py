"""Carries a writer's number from the predecessors of a segment to that segment (rule S3).

A writer's number is an attribute of its segment, and a segment that scaling created has none. So
before a writer is set up there, its final number in the sealed predecessor is copied; if it has
none there, the one in the predecessor's predecessor, and so on. If several segments were merged
into one, only the one with the writer's key counts: the writer never appended to the others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.controller import (
    ControllerClient,
    StreamSegment,
    read_segment_graph,
)
from logdrive.store.errors import NoSuchSegmentError
from logdrive.wire.pravega.routing import key_fraction

_RETRY_SECONDS: Final = 0.01  # until a number is looked for again that another receiver is copying

Reach = Callable[[StreamSegment], Awaitable[SegmentClient]]
"""Returns a client of the segment store that has a segment."""


class History:
    """The predecessors of the segments of one stream, as far as they were asked for."""

    def __init__(self, controller: ControllerClient, reach: Reach) -> None:
        self._controller = controller
        self._reach = reach
        # Segments whose key ranges are known, by id.
        self._segments: dict[int, StreamSegment] = {}
        # Ids of the predecessors of each segment, by its id.
        self._before: dict[int, tuple[int, ...]] = {}
        # Ids of the segments that are known to be sealed.
        self._sealed: dict[int, None] = {}

    def forget_graph(self) -> None:
        """Forget all segments: the controller is asked again.

        In a service that was restored from a backup, scaling gives the same ids to other segments.
        """
        self._segments = {}
        self._before = {}
        self._sealed = {}

    async def carry_number(self, segment: StreamSegment, writer: UUID) -> bool:
        """Copy the number that *writer* had in the predecessors of *segment* to *segment*.

        Returns False if a predecessor was deleted that may have had a number: if *segment* has none
        afterwards, it is lost. Raises `TransientError`, also while the stream is being scaled.
        """
        if segment.epoch == 0:
            return True  # it has no predecessors
        client = await self._reach(segment)
        if await client.get_attribute(segment.name, writer) != ABSENT:
            return True  # copied already, or the writer has appended

        number = await self._last_number(segment, writer)
        if number in (ABSENT, LOST):
            return number == ABSENT
        # It fails if another receiver is setting it to the same number. Pravega refuses the second
        # update before it shows the first, and a set-up between the two would find no number.
        while not await client.update_attribute(segment.name, writer, ABSENT, number):
            if await client.get_attribute(segment.name, writer) != ABSENT:
                break
            await asyncio.sleep(_RETRY_SECONDS)
        return True

    async def _last_number(self, segment: StreamSegment, writer: UUID) -> int:
        """Return the writer's final number before *segment*.

        `ABSENT` if it never appended, `LOST` if a segment that may have had its number is gone.
        """
        successor, key = segment, key_fraction(writer.hex)
        while successor.epoch > 0:
            before = await self._predecessors(successor, key)
            numbers = [await self._final_number(one, writer) for one in before]
            if known := [number for number in numbers if number not in (ABSENT, LOST)]:
                return max(known)
            if not numbers or LOST in numbers:
                return LOST
            successor = max(before, key=lambda one: one.epoch)
        return ABSENT

    async def _final_number(self, segment: StreamSegment, writer: UUID) -> int:
        """Return the writer's final number in *segment*, `LOST` if the segment was deleted."""
        client = await self._reach(segment)
        if segment.id not in self._sealed:
            state = await client.segment_info(segment.name)
            if state is None:
                return LOST
            if not state.sealed:  # appends may still raise the number
                raise TransientError(f"{segment.name} is being sealed")
            self._sealed[segment.id] = None
        try:
            return await client.get_attribute(segment.name, writer)
        except NoSuchSegmentError:
            return LOST

    async def _predecessors(self, segment: StreamSegment, key: float) -> list[StreamSegment]:
        """Return the predecessors of *segment* that had *key*.

        If the key range of none is known to have it, returns all whose ranges are unknown. None are
        left if retention removed them from the stream.
        """
        if segment.id not in self._before:
            await self._read_graph(segment)
        before = self._before[segment.id]
        known = [self._segments[id_] for id_ in before if id_ in self._segments]
        if having := [one for one in known if one.low < key <= one.high or key == one.low == 0]:
            return having
        return [
            replace(segment, id=id_, low=0.0, high=1.0)
            for id_ in before
            if id_ not in self._segments
        ]

    async def _read_graph(self, segment: StreamSegment) -> None:
        graph = await read_segment_graph(self._controller, segment.scope, segment.stream)
        for oldest in graph.oldest:
            self._before.setdefault(oldest, ())
        for successor in graph.later.values():
            self._segments[successor.segment.id] = successor.segment
            self._before[successor.segment.id] = successor.predecessors
        if segment.id not in self._before:
            raise TransientError(f"the controller does not know the predecessors of {segment.name}")
