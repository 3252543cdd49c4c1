"""What a Pravega controller tells of a stream, whoever asks it: which segments there are, which
follow which, and where they are.

The one over gRPC is `logdrive.services.pravega.client.controller_grpc`, reached through
`grpc_extra.over_grpc`.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from logdrive.errors import LogdriveError
from logdrive.net.stream import ClientTls
from logdrive.wire.pravega.names import epoch_of_id, number_of_id, segment_name


class UnknownStreamError(LogdriveError):
    """The controller knows no such stream."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who asks, where the controller wants to know."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SegmentStoreAddress:
    """Where a segment store listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamSegment:
    """One segment of a stream: keys in (low, high] go to it.

    *id* is the epoch that made it, then its number in 32 bits.
    """

    scope: str
    stream: str
    id: int
    low: float
    high: float

    @property
    def number(self) -> int:
        """Its number in the stream, which no other segment ever has."""
        return number_of_id(self.id)

    @property
    def epoch(self) -> int:
        """How often the stream had been scaled when it was made."""
        return epoch_of_id(self.id)

    @property
    def name(self) -> str:
        """Its full name at the segment store."""
        return segment_name(self.scope, self.stream, self.id)


@dataclass(frozen=True, slots=True)
class Successor:
    """A segment, and the ids of those that were sealed for it."""

    segment: StreamSegment
    predecessors: tuple[int, ...]


class ControllerClient(Protocol):
    """One controller.

    All raise `TransientError` where it does not answer, `UnknownStreamError`, and `RefusedError`
    where it won't.
    """

    async def create(self, scope: str, stream: str, segments: int) -> None:
        """Make the scope and the stream where they are not there yet, with a fixed number of
        segments.
        """
        ...

    async def current(self, scope: str, stream: str) -> list[StreamSegment]:
        """Return the segments that take appends, none for a sealed stream."""
        ...

    async def head(self, scope: str, stream: str) -> list[int]:
        """Return the ids of the oldest segments that the stream still has."""
        ...

    async def successors(self, scope: str, stream: str, segment: int) -> list[Successor]:
        """Return the segments that follow *segment*; none where it takes appends or the stream is
        sealed.
        """
        ...

    async def endpoint(self, segment: StreamSegment) -> SegmentStoreAddress:
        """Return the segment store that has *segment* now."""
        ...

    async def token(self, scope: str, stream: str, *, update: bool = True) -> str:
        """Return what the segment store wants to see for the stream, to *update* it or only to
        read; "" where it wants nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Predecessors:
    """All segments that a stream still has: the ids of the *oldest*, and what came *later*, by id.

    Only of the later ones, and of those that take appends, is it told which keys they have.
    """

    oldest: tuple[int, ...]
    later: dict[int, Successor]


async def predecessors_of(controller: ControllerClient, scope: str, stream: str) -> Predecessors:
    """Walk a stream from its oldest segments on; only what follows a segment can be asked for, not
    what was before it.
    """
    oldest = await controller.head(scope, stream)
    waiting, later = list(oldest), dict[int, Successor]()
    while waiting:
        for found in await controller.successors(scope, stream, waiting.pop()):
            if found.segment.id not in later:
                later[found.segment.id] = found
                waiting.append(found.segment.id)
    return Predecessors(tuple(oldest), later)


Controllers = Callable[
    [str, int, ClientTls | None, Login | None], AbstractAsyncContextManager[ControllerClient]
]
"""How a controller is reached: host, port, TLS and login in, the connection to it out."""
