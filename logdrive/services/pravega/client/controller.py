"""The protocol of a client of Pravega's controller: a stream's segments, their successors, and the
segment store that has each of them.

`controller_grpc.GrpcController` implements it over gRPC; `grpc_extra.connect_controller` opens one.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from logdrive.errors import LogdriveError
from logdrive.host.transport import ClientTls
from logdrive.wire.pravega.names import epoch_of_id, number_of_id, segment_name


class UnknownStreamError(LogdriveError):
    """The controller knows no stream of that name."""


@dataclass(frozen=True, slots=True)
class Login:
    """User and password for a controller that asks for them."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SegmentStoreAddress:
    """The address of a segment store."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamSegment:
    """One segment of a stream, and the range of keys that belongs to it."""

    scope: str
    stream: str
    id: int
    """The epoch in which it was created, followed by its number in 32 bits."""
    low: float
    """Keys in (*low*, *high*] belong to it, as fractions of 1."""
    high: float

    @property
    def number(self) -> int:
        """The segment's number: no other segment of the stream ever has it."""
        return number_of_id(self.id)

    @property
    def epoch(self) -> int:
        """How often the stream had been scaled when the segment was created."""
        return epoch_of_id(self.id)

    @property
    def name(self) -> str:
        """The segment's full name, as segment stores know it."""
        return segment_name(self.scope, self.stream, self.id)


@dataclass(frozen=True, slots=True)
class Successor:
    """A segment, and the ids of the segments that were sealed when it was created."""

    segment: StreamSegment
    predecessors: tuple[int, ...]


class ControllerClient(Protocol):
    """A client of one controller.

    All methods raise `TransientError` if it does not answer, `UnknownStreamError` if it knows no
    such stream, and `RequestRefusedError` if it refuses.
    """

    async def create_stream(self, scope: str, stream: str, segments: int) -> None:
        """Create the scope and the stream, unless they exist, with a fixed number of segments."""
        ...

    async def current_segments(self, scope: str, stream: str) -> list[StreamSegment]:
        """Return the segments that take appends: none for a sealed stream."""
        ...

    async def oldest_segments(self, scope: str, stream: str) -> list[int]:
        """Return the ids of the segments that hold the oldest bytes of the stream."""
        ...

    async def successors_of(self, scope: str, stream: str, segment: int) -> list[Successor]:
        """Return the segments that replaced the segment with the id *segment*.

        None did if it still takes appends, or if the stream is sealed.
        """
        ...

    async def locate_segment(self, segment: StreamSegment) -> SegmentStoreAddress:
        """Return the address of the segment store that has *segment* now."""
        ...

    async def delegation_token(self, scope: str, stream: str, *, update: bool = True) -> str:
        """Return a delegation token for the stream, to *update* it or only to read it.

        Segment stores check it. It is "" if the service asks for none.
        """
        ...


@dataclass(frozen=True, slots=True)
class SegmentGraph:
    """All segments that a stream still has.

    *oldest* has the ids of the segments with the oldest bytes, *later* all that followed them, by
    id. The controller tells the key ranges of the later ones only.
    """

    oldest: tuple[int, ...]
    later: dict[int, Successor]


async def read_segment_graph(controller: ControllerClient, scope: str, stream: str) -> SegmentGraph:
    """Return all segments of a stream, found from the oldest ones on.

    A controller returns the successors of a segment, but not its predecessors.
    """
    oldest = await controller.oldest_segments(scope, stream)
    waiting, later = list(oldest), dict[int, Successor]()
    while waiting:
        for successor in await controller.successors_of(scope, stream, waiting.pop()):
            if successor.segment.id not in later:
                later[successor.segment.id] = successor
                waiting.append(successor.segment.id)
    return SegmentGraph(tuple(oldest), later)


Controllers = Callable[
    [str, int, ClientTls | None, Login | None], AbstractAsyncContextManager[ControllerClient]
]
"""Opens a client of a controller, given its host, port, TLS settings and login."""
