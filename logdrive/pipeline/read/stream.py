"""A stream at a streaming service, as Spark's processes see it: plain calls that connect, ask, and
hang up.

No connection is held between calls, so a `StreamClient` travels to executors as it is, and a
service that restarts is simply asked again. What the address names may be a segment store, which
has all segments, or a controller, which tells where each one is.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from logdrive.address import host_port
from logdrive.errors import TransientError
from logdrive.model.units import MIB
from logdrive.net.retry import Exponential, Retrying, retry_blocking
from logdrive.net.stream import ClientTls
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.blocking import BlockingClient, Target
from logdrive.services.pravega.client.client import SegmentClient, SegmentState, connected
from logdrive.services.pravega.client.controller import Login, StreamSegment
from logdrive.services.pravega.client.discovery import is_controller
from logdrive.services.pravega.client.errors import TokenError
from logdrive.services.pravega.client.grpc_extra import over_grpc
from logdrive.services.pravega.reader.segment import BatchRef, HeaderDigest, SegmentReader
from logdrive.services.pravega.reader.segments import home_of, locate_segments
from logdrive.services.pravega.server.config import PRAVEGA_PORT
from logdrive.wire.pravega.names import SegmentName, segment_name

T = TypeVar("T")

_PIECE_BYTES = 4 * MIB
_ATTEMPTS = 8
_WAIT = Exponential(0.1, 5.0)  # seconds; all attempts together wait about 12


@dataclass(slots=True)
class StreamLocation:
    """What a `StreamClient` has learned: whether a controller is asked, the segments' names by
    number, where they are, and tokens.

    There is one token to read, and one to update (True).
    """

    controller: bool | None = None
    names: dict[int, str] = field(default_factory=dict)
    homes: dict[str, Target] = field(default_factory=dict)
    tokens: dict[bool, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamClient:
    """Where a stream is read."""

    target: Target
    scope: str
    stream: str
    found: StreamLocation = field(default_factory=StreamLocation, compare=False, repr=False)

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
        """Return the full name of a segment. Raises `TransientError`."""
        if number not in self.found.names:
            self.segments()
        return self.found.names.get(number) or segment_name(self.scope, self.stream, number)

    def segments(self) -> list[SegmentState]:
        """Return what the stream's segments are like, by number; of a stream that scales those that
        it still has.

        Raises `TransientError`, `ConfigError`.
        """
        return _persisted(self._states)

    def number(self, segment: str) -> int:
        """Return the number of one of its segments."""
        return SegmentName.parse(segment).number

    def hops(self, segment: str, start: int, end: int, most: int | None = None) -> list[BatchRef]:
        """Return the batches in [start, end), records left where they are; *most* bounds their
        bytes, but not the first's.

        *start* is where one begins. Raises `TransientError`, and `StorageError` where no batches
        are there.
        """

        async def ask(client: SegmentClient) -> list[BatchRef]:
            found: list[BatchRef] = []
            async for hop in SegmentReader(client, segment).hops(start, end):
                if found and most is not None and hop.next - start > most:
                    break
                found.append(hop)
            return found

        return self._asked(segment, ask)

    def last_match(self, segment: str, marks: Sequence[HeaderDigest]) -> int:
        """Return how many of *marks*, from the first on, still stand in *segment* (rule R5).

        Raises `TransientError`.
        """

        async def ask(client: SegmentClient) -> int:
            state = await client.segment_info(segment)
            return (
                0
                if state is None
                else await SegmentReader(client, segment).last_match(
                    marks, state.start, state.length
                )
            )

        return self._asked(segment, ask)

    def pieces(self, segment: str, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of [start, end) in order, some MiB at a time; a broken connection is made
        anew. Raises `TransientError`.
        """
        with _Reading(self, segment) as reading:
            while start < end:
                data = _retrying()(reading.fetch, start, min(start + _PIECE_BYTES, end))
                start += len(data)
                yield data

    def _asked(self, segment: str, ask: Callable[[SegmentClient], Awaitable[T]]) -> T:
        async def asked() -> T:
            renewable = bool(self.found.tokens)
            home = await self.home(segment)
            try:
                async with connected(
                    SystemTransport(), home.host, home.port, home.tls, token=home.token_of
                ) as client:
                    return await ask(client)
            except TokenError as error:
                raise self.token_refused(error, renewable) from error
            except TransientError:
                self.found.homes.pop(segment, None)
                raise

        return _persisted(asked)

    def token_refused(self, error: TokenError, renewable: bool) -> TransientError:
        """Forget the tokens, since one was refused, and return the error to try again after.

        Raises *error* unless it is *renewable*: a new token was refused, too.
        """
        self.found.tokens.clear()
        if not renewable:
            raise error
        return TransientError(str(error))

    # Where segments are --------------------------------------------------------------------------

    async def _asks_controller(self) -> bool:
        if self.found.controller is None:
            self.found.controller = await is_controller(SystemTransport(), self.target)
        return self.found.controller

    async def _states(self) -> list[SegmentState]:
        found = await locate_segments(SystemTransport(), self.target, self.scope, self.stream)
        self.found.names.update({one.number: one.state.segment for one in found})
        self.found.homes.update({one.state.segment: one.home for one in found})
        return [one.state for one in found]

    async def home(self, segment: str, *, update: bool = False) -> Target:
        """Return the segment store that has *segment*, to read or *update* it there.

        Raises `TransientError`.
        """
        if not await self._asks_controller():
            return self.target
        if segment not in self.found.homes or update not in self.found.tokens:
            id_ = SegmentName.parse(segment).id
            asked = StreamSegment(self.scope, self.stream, id_, 0.0, 1.0)
            async with over_grpc(
                self.target.host, self.target.port, self.target.tls, self.target.login
            ) as controller:
                if update not in self.found.tokens:
                    self.found.tokens[update] = await controller.token(
                        self.scope, self.stream, update=update
                    )
                self.found.homes[segment] = home_of(
                    self.target, await controller.endpoint(asked), ""
                )
        return replace(self.found.homes[segment], token=self.found.tokens[update])


class _Reading:
    """A connection to the segment store of one segment, made when it is needed and again after a
    failure.
    """

    def __init__(self, face: StreamClient, segment: str) -> None:
        self._face = face
        self._segment = segment
        self._client: BlockingClient | None = None
        self._connection = ExitStack()  # closes the client
        self._renewable = False  # True if the token in use may have ended, as it is not a new one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def fetch(self, start: int, end: int) -> bytes:
        """Return some bytes from *start* on, not beyond *end*. Raises `TransientError`."""
        try:
            if self._client is None:
                self._renewable = bool(self._face.found.tokens)
                home = asyncio.run(self._face.home(self._segment))
                self._client = self._connection.enter_context(BlockingClient(home))
            data = self._client.fetch(self._segment, start, end)
        except TokenError as error:
            self._disconnect()
            raise self._face.token_refused(error, self._renewable) from error
        except TransientError:
            self._face.found.homes.pop(self._segment, None)
            self._disconnect()
            raise
        self._renewable = True
        return data

    def _disconnect(self) -> None:
        self._client = None
        self._connection.close()


def stream_client(
    uri: str, tls: ClientTls | None = None, login: Login | None = None, token: str = ""
) -> StreamClient:
    """Read `pravega://host:port/scope/stream`. Raises ValueError saying what is wrong."""
    parts = urlsplit(uri)
    names = parts.path.strip("/").split("/")
    if parts.scheme != "pravega" or len(names) != 2 or not all(names):
        raise ValueError(f"{uri!r}: write pravega://host:port/scope/stream")
    host, port = host_port(parts.netloc, PRAVEGA_PORT)
    return StreamClient(Target(host, port, tls, token, login), names[0], names[1])


def _persisted(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what *ask* does, once the service does it.

    Raises `TransientError` after some attempts.
    """
    # not the task's result: where that is long, the runner spends seconds on its repr for signal
    # handlers
    found: list[T] = []

    async def main() -> None:
        found.append(await ask())

    _retrying()(lambda: asyncio.run(main()))
    return found[0]


def _retrying() -> Retrying:
    """Return what calls a function again after `TransientError`, and raises the last of them."""
    return retry_blocking(
        TransientError,
        sleep=time.sleep,
        wait=_WAIT,
        give_up=lambda attempts: attempts >= _ATTEMPTS,
    )
