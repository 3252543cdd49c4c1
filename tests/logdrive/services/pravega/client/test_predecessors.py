"""The predecessors of a segment are requested again once the stream has changed (rule S3)."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from uuid import UUID

from logdrive.host.clock import SystemClock
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.cluster import Cluster
from logdrive.services.pravega.client.controller import (
    ControllerClient,
    SegmentStoreAddress,
    StreamSegment,
    Successor,
)
from logdrive.services.pravega.client.predecessors import History
from logdrive.services.pravega.client.stream import StreamMap
from logdrive.services.reader import SegmentState
from logdrive.wire.pravega.routing import key_fraction

EPOCH = 1 << 32
LOW, HIGH = (
    StreamSegment("logs", "events", 0, 0.0, 0.5),
    StreamSegment("logs", "events", 1, 0.5, 1.0),
)
WRITERS = {number: UUID(int=number) for number in range(20)}


class Split:
    """A controller of a stream of two segments, and the client of its segment store.

    *split* was sealed, and made room for two others, of which the first has the id of segment 2.
    """

    def __init__(self, split: StreamSegment) -> None:
        self.split = split
        self.numbers: dict[tuple[str, UUID], int] = {}

    @property
    def made(self) -> StreamSegment:
        return StreamSegment("logs", "events", EPOCH + 2, self.split.low, self.split.low + 0.25)

    def writer(self) -> UUID:
        """Return a writer whose key the new segment has."""
        made = self.made
        return next(w for w in WRITERS.values() if made.low < key_fraction(w.hex) <= made.high)

    async def create_stream(self, scope: str, stream: str, segments: int) -> None:
        raise NotImplementedError

    async def current_segments(self, scope: str, stream: str) -> list[StreamSegment]:
        made = self.made
        rest = replace(made, id=made.id + 1, low=made.high, high=self.split.high)
        return [HIGH if self.split == LOW else LOW, made, rest]

    async def oldest_segments(self, scope: str, stream: str) -> list[int]:
        return [LOW.id, HIGH.id]

    async def successors_of(self, scope: str, stream: str, segment: int) -> list[Successor]:
        return [Successor(self.made, (self.split.id,))] if segment == self.split.id else []

    async def locate_segment(self, segment: StreamSegment) -> SegmentStoreAddress:
        raise NotImplementedError

    async def locate_connection(self, segment: StreamSegment) -> None:
        """Every segment is at the one segment store."""

    async def delegation_token(self, scope: str, stream: str, *, update: bool = True) -> str:
        raise NotImplementedError

    async def segment_info(self, segment: str) -> SegmentState | None:
        return SegmentState(segment, 0, 0, sealed=segment == self.split.name, modified_ms=0)

    async def get_attribute(self, segment: str, attribute: UUID) -> int:
        return self.numbers.get((segment, attribute), ABSENT)

    async def update_attribute(
        self, segment: str, attribute: UUID, expected: int, value: int
    ) -> bool:
        self.numbers[segment, attribute] = value
        return True


class CopiedElsewhere(Split):
    """As `Split`; another receiver is setting the attribute, which takes *looks* looks to show."""

    looks = 3

    async def get_attribute(self, segment: str, attribute: UUID) -> int:
        if segment == self.made.name:
            self.looks -= 1
            return ABSENT if self.looks >= 0 else 7
        return await super().get_attribute(segment, attribute)

    async def update_attribute(
        self, segment: str, attribute: UUID, expected: int, value: int
    ) -> bool:
        return False


def test_service_was_restored_and_scaled_otherwise_is_asked_anew_what_was_before__S3() -> None:
    async def main() -> None:
        service: ControllerClient = Split(LOW)
        assert isinstance(service, Split)

        async def reach(segment: StreamSegment) -> SegmentClient:
            return cast("SegmentClient", service)

        history = History(service, reach)
        service.numbers[LOW.name, service.writer()] = 7
        assert await history.carry_number(service.made, service.writer())
        assert service.numbers[service.made.name, service.writer()] == 7

        service.split, service.numbers = HIGH, {}
        service.numbers[HIGH.name, service.writer()] = 9
        history.forget_graph()
        assert await history.carry_number(service.made, service.writer())
        assert service.numbers[service.made.name, service.writer()] == 9

    asyncio.run(main())


def test_a_number_that_another_receiver_is_copying_is_waited_for__S3() -> None:
    async def main() -> None:
        service = CopiedElsewhere(LOW)

        async def reach(segment: StreamSegment) -> SegmentClient:
            return cast("SegmentClient", service)

        writer = service.writer()
        service.numbers[LOW.name, writer] = 7
        assert await History(service, reach).carry_number(service.made, writer)
        assert await service.get_attribute(service.made.name, writer) == 7

    asyncio.run(main())


def test_what_was_before_is_forgotten_before_others_take_the_place_of_segments() -> None:
    async def main() -> None:
        controller = Split(LOW)
        service = SimpleNamespace(
            controller=controller,
            locate_connection=controller.locate_connection,
            clock=SystemClock(),
        )
        seen: list[list[int]] = []
        found = StreamMap(
            [LOW, HIGH], cast("Cluster", service), lambda: seen.append(numbers(found))
        )
        following = asyncio.create_task(found.run())
        await asyncio.sleep(0)
        found.on_sealed(LOW.name)
        async with asyncio.timeout(10):
            await found.wait_current()
        assert seen == [[0, 1]]
        assert numbers(found) == [1, 2, 3]
        following.cancel()

    asyncio.run(main())


def numbers(found: StreamMap) -> list[int]:
    """Return the numbers of the segments that take appends."""
    return sorted(segment.number for segment in found.segments)
