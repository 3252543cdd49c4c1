"""A controller for a store that has none: it keeps the streams' segments in memory, and makes and seals them at the store's face.

It listens like a controller, so that it is found like one; what it is asked comes by plain calls.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence

from logdrive.net.stream import ClientTls, Listener, Stream, Transport
from logdrive.sinks.controller import Endpoint, Login, NoSuchStreamError, StreamSegment, Successor
from logdrive.sinks.pravega_client import SegmentClient, connected

SETTINGS = bytes.fromhex("000000040000000000")  # how an HTTP/2 server greets

Keys = tuple[float, float]


class Stretch:
    """One stream: its current segments, what followed what, and the oldest that it still has."""

    def __init__(self, segments: Sequence[StreamSegment]) -> None:
        self.current = list(segments)
        self.head = [segment.id for segment in segments]
        self.made = len(segments)
        self.epoch = 0
        self.after: dict[int, list[Successor]] = {}


class HandController:
    """Implements `Controller`. Scales when it is told to."""

    def __init__(self, transport: Transport, store: Endpoint) -> None:
        self._transport, self._store = transport, store
        self._streams: dict[tuple[str, str], Stretch] = {}

    async def create(self, scope: str, stream: str, segments: int) -> None:
        if (scope, stream) not in self._streams:
            made = [StreamSegment(scope, stream, number, number / segments, (number + 1) / segments) for number in range(segments)]
            await self._make(made)
            self._streams.setdefault((scope, stream), Stretch(made))

    async def current(self, scope: str, stream: str) -> list[StreamSegment]:
        return self._stretch(scope, stream).current

    async def head(self, scope: str, stream: str) -> list[int]:
        return list(self._stretch(scope, stream).head)

    async def successors(self, scope: str, stream: str, segment: int) -> list[Successor]:
        return self._stretch(scope, stream).after.get(segment, [])

    async def endpoint(self, segment: StreamSegment) -> Endpoint:
        return self._store

    async def token(self, scope: str, stream: str) -> str:
        return ""

    async def scale(self, scope: str, stream: str, sealed: Sequence[StreamSegment], keys: Sequence[Keys]) -> None:
        """Make segments for *keys*, then seal *sealed*, in the order in which Pravega does it."""
        stretch = self._stretch(scope, stream)
        stretch.epoch += 1
        made = [
            StreamSegment(scope, stream, stretch.epoch << 32 | stretch.made + number, low, high) for number, (low, high) in enumerate(keys)
        ]
        stretch.made += len(made)
        await self._make(made)
        for before in sealed:
            later = [found for found in made if found.low < before.high and before.low < found.high]
            stretch.after[before.id] = [
                Successor(found, tuple(old.id for old in sealed if found.low < old.high and old.low < found.high)) for found in later
            ]
        stretch.current = [segment for segment in stretch.current if segment not in sealed] + made
        async with self._client() as client:
            for before in sealed:
                await client.seal(before.name)

    async def give_up(self, scope: str, stream: str) -> None:
        """Forget all segments but those that take appends, as retention does."""
        stretch = self._stretch(scope, stream)
        stretch.head = [segment.id for segment in stretch.current]

    async def _make(self, segments: Sequence[StreamSegment]) -> None:
        async with self._client() as client:
            for segment in segments:
                await client.create_segment(segment.name)

    def _client(self) -> contextlib.AbstractAsyncContextManager[SegmentClient]:
        return connected(self._transport, self._store.host, self._store.port)

    def _stretch(self, scope: str, stream: str) -> Stretch:
        if (scope, stream) not in self._streams:
            raise NoSuchStreamError(f"no stream {scope}/{stream}")
        return self._streams[scope, stream]

    # Being found -------------------------------------------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> Listener:
        """Greet as a controller does, at *host* and *port*."""
        return await self._transport.listen(host, port, None, _greet)

    @contextlib.asynccontextmanager
    async def reached(self, host: str, port: int, tls: ClientTls | None, login: Login | None) -> AsyncIterator["HandController"]:
        """Stand where a connection to a controller is asked for."""
        yield self


async def _greet(stream: Stream) -> None:
    await stream.write([SETTINGS])
    await stream.read()
