"""A stream at a store's network face, as Spark's processes see it: plain calls that connect, ask, and hang up.

Nothing is held between calls, so a `Face` travels to executors as it is, and a service that restarts is simply asked again.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from logdrive.address import host_port
from logdrive.errors import TransientError
from logdrive.limits import MIB
from logdrive.net.stream import ClientTls
from logdrive.sinks.blocking import BlockingClient, Target
from logdrive.sinks.pravega_client import SegmentClient, SegmentState
from logdrive.sinks.segment_reader import Hop, Mark, SegmentReader
from logdrive.sinks.stream_reader import segments_of
from logdrive.store.config import PRAVEGA_PORT
from logdrive.wire.pravega.routing import segment_name

T = TypeVar("T")

_PIECE_BYTES = 4 * MIB
_ATTEMPTS = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds; all attempts together wait about 12


@dataclass(frozen=True, slots=True)
class Face:
    """Where a stream is read."""

    target: Target
    scope: str
    stream: str

    @property
    def name(self) -> str:
        """The stream, as tables name it."""
        return f"{self.scope}/{self.stream}"

    @property
    def uri(self) -> str:
        """The address as the data source takes it."""
        host = f"[{self.target.host}]" if ":" in self.target.host else self.target.host
        return f"pravega://{host}:{self.target.port}/{self.name}"

    def segment(self, number: int) -> str:
        """Return the full name of a segment."""
        return segment_name(self.scope, self.stream, number)

    def segments(self) -> list[SegmentState]:
        """Return what the stream's segments are like, by number. Raises `TransientError`."""

        return self._asked(lambda client: segments_of(client, self.scope, self.stream))

    def hops(self, segment: str, start: int, end: int, most: int | None = None) -> list[Hop]:
        """Return the batches in [start, end), records left where they are; *most* bounds their bytes, but not the first's.

        *start* is where one begins. Raises `TransientError`, and `StorageError` where no batches are there.
        """

        async def ask(client: SegmentClient) -> list[Hop]:
            found: list[Hop] = []
            async for hop in SegmentReader(client, segment).hops(start, end):
                if found and most is not None and hop.next - start > most:
                    break
                found.append(hop)
            return found

        return self._asked(ask)

    def last_match(self, segment: str, marks: Sequence[Mark]) -> int:
        """Return how many of *marks*, from the first on, still stand in *segment* (rule R5). Raises `TransientError`."""

        async def ask(client: SegmentClient) -> int:
            state = await client.segment_info(segment)
            return 0 if state is None else await SegmentReader(client, segment).last_match(marks, state.start, state.length)

        return self._asked(ask)

    def pieces(self, segment: str, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of [start, end) in order, some MiB at a time; a broken connection is made anew. Raises `TransientError`."""
        attempt = 0
        while start < end:
            try:
                with BlockingClient(self.target) as client:
                    while start < end:
                        data = client.fetch(segment, start, min(start + _PIECE_BYTES, end))
                        start, attempt = start + len(data), 0
                        yield data
            except TransientError as error:
                attempt = _pause(attempt, error)

    def _asked(self, ask: Callable[[SegmentClient], Awaitable[T]]) -> T:
        attempt = 0
        while True:
            try:
                with BlockingClient(self.target) as client:
                    return client.call(ask)
            except TransientError as error:
                attempt = _pause(attempt, error)


def face_at(uri: str, tls: ClientTls | None = None) -> Face:
    """Read `pravega://host:port/scope/stream`. Raises ValueError saying what is wrong."""
    parts = urlsplit(uri)
    names = parts.path.strip("/").split("/")
    if parts.scheme != "pravega" or len(names) != 2 or not all(names):
        raise ValueError(f"{uri!r}: write pravega://host:port/scope/stream")
    host, port = host_port(parts.netloc, PRAVEGA_PORT)
    return Face(Target(host, port, tls), names[0], names[1])


def _pause(attempt: int, error: TransientError) -> int:
    """Wait before another attempt and count it; raise *error* after the last."""
    if attempt + 1 >= _ATTEMPTS:
        raise error
    time.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))
    return attempt + 1
