"""Reads a stream for the pipeline's threads and Spark's processes: each call connects anew.

Calls block, and no connection is held between them, so that a `StreamClient` can be pickled for
executors, and a service that was restarted is simply asked again. The address names a segment
store, which has all segments, or a controller, which says where each one is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from logdrive.address import peer_address
from logdrive.errors import LogdriveError, TransientError
from logdrive.host.boot import boot_id
from logdrive.host.disk import SystemDisk
from logdrive.host.transport import ClientTls
from logdrive.model.batch_walker import BatchRef
from logdrive.model.units import KIB, MIB, OffsetUnit
from logdrive.net.tcp import SystemTransport
from logdrive.services.batch_budget import BatchBudget
from logdrive.services.pravega.client.blocking import BlockingClient, Target
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.client.controller import Login, StreamSegment
from logdrive.services.pravega.client.discovery import is_controller
from logdrive.services.pravega.client.errors import TokenError
from logdrive.services.pravega.client.grpc_extra import connect_controller
from logdrive.services.pravega.client.located import LocatedAppends
from logdrive.services.pravega.reader.batch_places import find_batch
from logdrive.services.pravega.reader.local import read_local_pieces
from logdrive.services.pravega.reader.segment import SegmentReader
from logdrive.services.pravega.reader.segments import locate_segments, segment_store_target
from logdrive.services.pravega.server.config import PRAVEGA_PORT
from logdrive.services.reader import HeaderDigest, SegmentState
from logdrive.services.reader_calls import retry_call, tls_options
from logdrive.wire.pravega.names import SegmentName, segment_name

T = TypeVar("T")

_PIECE_BYTES = 4 * MIB  # limit on the bytes of one read

# Bytes of a range from which on reading it from log files saves more than asking for places costs.
# What was just appended is in the store's memory, too, and on the disk past the page cache.
LOCAL_BYTES = 256 * KIB


@dataclass(slots=True)
class StreamLocation:
    """What a `StreamClient` has learned about its stream; a cache."""

    controller: bool | None = None
    """True if the address is a controller's; None if not known."""
    names: dict[int, str] = field(default_factory=dict)
    """Full names of segments, by number."""
    homes: dict[str, Target] = field(default_factory=dict)
    """The segment store of each segment, by name."""
    tokens: dict[bool, str] = field(default_factory=dict)
    """Delegation tokens: one for reading (False), one for updates (True)."""


@dataclass(frozen=True, slots=True)
class StreamClient:
    """A stream at a Pravega, or at a store that speaks its protocol. Implements `ServiceReader`."""

    target: Target
    scope: str
    stream: str
    local_reads: bool = True
    """Whether a store's log files are read directly where they are on this host."""
    location: StreamLocation = field(default_factory=StreamLocation, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The stream's name `scope/stream`, as in the tables."""
        return f"{self.scope}/{self.stream}"

    @property
    def offset_unit(self) -> OffsetUnit:
        """Bytes: offsets in a Pravega segment count them."""
        return "bytes"

    @property
    def uri(self) -> str:
        """The address, as the option `uri` of the data source."""
        host = f"[{self.target.host}]" if ":" in self.target.host else self.target.host
        return f"pravega://{host}:{self.target.port}/{self.name}"

    def connection_options(self) -> dict[str, str]:
        """Return the options of the data source with which Spark's workers connect.

        Spark blanks passwords and tokens in what it shows, by the options' names.
        """
        target, login = self.target, self.target.login
        named = {"token": target.token or None} | tls_options(target.tls)
        named |= {"localReads": None if self.local_reads else "false"}
        if login is not None:
            named |= {"user": login.user, "password": login.password}
        return {name: value for name, value in named.items() if value is not None}

    def name_of_segment(self, number: int) -> str:
        """Return the full name of segment *number*. Raises `TransientError`."""
        if number not in self.location.names:
            self.list_segments()
        # not listed, as after retention removed it: then the name that it has in the first epoch
        return self.location.names.get(number) or segment_name(self.scope, self.stream, number)

    def list_segments(self) -> list[SegmentState]:
        """Return the states of the stream's segments, by number; [] if there is no such stream.

        Segments that retention has removed are not among them. Raises `TransientError`,
        `ConfigError`.
        """
        return _persisted(self._ask_segments)

    def segment_number(self, segment: str) -> int:
        """Return the number of the segment with the full name *segment*."""
        return SegmentName.parse(segment).number

    def read_batch_refs(
        self,
        segment: str,
        start: int,
        end: int,
        most: int | None = None,
        most_raw: int | None = None,
    ) -> list[BatchRef]:
        """Return the batches that lie whole in [start, end), without reading their records.

        *start* is where a batch begins. Raises `TransientError`, and `StorageError` where no event
        is.
        """

        async def ask(client: SegmentClient) -> list[BatchRef]:
            budget, batches = BatchBudget(most, most_raw), list[BatchRef]()
            async for batch in SegmentReader(client, segment).read_batch_refs(start, end):
                if not budget.admits(batch):
                    break
                batches.append(batch)
            return batches

        return self._ask_segment_store(segment, ask)

    def count_known_headers(self, segment: str, marks: Sequence[HeaderDigest]) -> int:
        """Return how many of the headers *marks*, from the first on, *segment* still has (rule R5).

        Raises `TransientError`.
        """

        async def ask(client: SegmentClient) -> int:
            state = await client.segment_info(segment)
            return (
                0
                if state is None
                else await SegmentReader(client, segment).count_known_headers(
                    marks, state.start, state.length
                )
            )

        return self._ask_segment_store(segment, ask)

    def find_batch(self, segment: str, offset: int, end: int) -> BatchRef | None:
        """Return a batch that begins at *offset* or soon after it, and ends before *end*.

        *offset* may be anywhere. None if the service does not tell: a store of ours does. Raises
        `TransientError`.
        """
        return self._ask_segment_store(
            segment, lambda client: find_batch(client, segment, offset, end)
        )

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield what `read_bytes` yields, with the offsets."""
        for data in self.read_bytes(segment, start, end):
            yield start, data
            start += len(data)

    def read_bytes(self, segment: str, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of [start, end) in order, at most 4 MiB or one append at a time.

        Reads from the store's log files as far as it can, else over the network. Connects again
        after a failure. Raises `TransientError` once too many attempts have failed.
        """
        with _Reading(self, segment) as reading:
            if self.local_reads and end - start >= LOCAL_BYTES and (host := boot_id()):

                def locate(start: int, end: int) -> LocatedAppends | None:
                    return retry_call()(reading.locate, start, end, host)

                for data in read_local_pieces(SystemDisk(), locate, start, end):
                    start += len(data)
                    yield data
            while start < end:
                data = retry_call()(reading.fetch, start, min(start + _PIECE_BYTES, end))
                start += len(data)
                yield data

    def _ask_segment_store(self, segment: str, ask: Callable[[SegmentClient], Awaitable[T]]) -> T:
        async def connect_and_ask() -> T:
            # True: the token is not a new one, so it may just have expired
            renewable = bool(self.location.tokens)
            home = await self.locate_store(segment)
            try:
                async with connect_segment_store(
                    SystemTransport(), home.host, home.port, home.tls, token=home.token_of
                ) as client:
                    return await ask(client)
            except TokenError as error:
                raise self.forget_tokens(error, renewable) from error
            except TransientError:
                # the segment may have moved to another segment store
                self.location.homes.pop(segment, None)
                raise

        return _persisted(connect_and_ask)

    def forget_tokens(self, error: TokenError, renewable: bool) -> TransientError:
        """Forget the tokens, since one was refused, and return the error to try again after.

        Raises *error* unless it is *renewable*: a new token was refused, too.
        """
        self.location.tokens.clear()
        if not renewable:
            raise error
        return TransientError(str(error))

    # Where segments are --------------------------------------------------------------------------

    async def _asks_controller(self) -> bool:
        if self.location.controller is None:
            self.location.controller = await is_controller(SystemTransport(), self.target)
        return self.location.controller

    async def _ask_segments(self) -> list[SegmentState]:
        located = await locate_segments(SystemTransport(), self.target, self.scope, self.stream)
        self.location.names.update({one.number: one.state.segment for one in located})
        self.location.homes.update({one.state.segment: one.target for one in located})
        return [one.state for one in located]

    async def locate_store(self, segment: str, *, update: bool = False) -> Target:
        """Return the segment store that has *segment*, with a token to read or to *update* it.

        Raises `TransientError`.
        """
        if not await self._asks_controller():  # one segment store has all segments
            return self.target

        if segment not in self.location.homes or update not in self.location.tokens:
            id_ = SegmentName.parse(segment).id
            # a segment is located by its id alone: the range of keys plays no part
            asked = StreamSegment(self.scope, self.stream, id_, 0.0, 1.0)
            async with connect_controller(
                self.target.host, self.target.port, self.target.tls, self.target.login
            ) as controller:
                if update not in self.location.tokens:
                    self.location.tokens[update] = await controller.delegation_token(
                        self.scope, self.stream, update=update
                    )
                self.location.homes[segment] = segment_store_target(
                    self.target, await controller.locate_segment(asked), ""
                )
        return replace(self.location.homes[segment], token=self.location.tokens[update])


class _Reading:
    """A connection to the segment store of one segment.

    It is made when it is needed, and again after a failure.
    """

    def __init__(self, stream: StreamClient, segment: str) -> None:
        self._stream = stream
        self._segment = segment
        self._client: BlockingClient | None = None
        self._connection = ExitStack()  # closes the client
        self._renewable = False  # True if the token in use may have ended, as it is not a new one
        self._locates: bool | None = None  # whether it tells where appends are; None: not asked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def fetch(self, start: int, end: int) -> bytes:
        """Return some bytes from *start* on, not beyond *end*. Raises `TransientError`."""
        return self._ask(lambda client: client.fetch(self._segment, start, end))

    def locate(self, start: int, end: int, host: str) -> LocatedAppends | None:
        """Return where the appends of [*start*, *end*) are, for a client on *host*.

        None if the service does not tell. Raises `TransientError`.
        """

        async def ask(client: SegmentClient) -> LocatedAppends | None:
            if self._locates is None:
                self._locates = await client.locates_appends(self._segment)
            if not self._locates:
                return None
            return await client.locate_appends(self._segment, start, end, 0, host)

        try:
            return self._ask(lambda client: client.call(ask))
        except (TransientError, TokenError):
            raise
        except LogdriveError:  # why, a read says
            return None

    def _ask(self, ask: Callable[[BlockingClient], T]) -> T:
        """Return what *ask* does with the connection. Raises `TransientError`."""
        try:
            if self._client is None:
                self._renewable = bool(self._stream.location.tokens)
                home = asyncio.run(self._stream.locate_store(self._segment))
                self._client = self._connection.enter_context(BlockingClient(home))
            answer = ask(self._client)
        except TokenError as error:
            self._disconnect()
            raise self._stream.forget_tokens(error, self._renewable) from error
        except TransientError:
            # the segment may have moved to another segment store
            self._stream.location.homes.pop(self._segment, None)
            self._disconnect()
            raise
        # the token was accepted: if it is refused later, it has expired
        self._renewable = True
        return answer

    def _disconnect(self) -> None:
        self._client = None
        self._locates = None
        self._connection.close()


def stream_client(
    uri: str,
    tls: ClientTls | None = None,
    login: Login | None = None,
    token: str = "",
    *,
    local_reads: bool = True,
) -> StreamClient:
    """Return the client for `pravega://host:port/scope/stream`. Raises ValueError with a remedy."""
    parts = urlsplit(uri)
    names = parts.path.strip("/").split("/")
    if parts.scheme != "pravega" or len(names) != 2 or not all(names):
        raise ValueError(f"{uri!r}: write pravega://host:port/scope/stream")
    host, port = peer_address(parts.netloc, PRAVEGA_PORT)
    target = Target(host, port, tls, token, login)
    return StreamClient(target, names[0], names[1], local_reads)


def _persisted(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what *ask* does, once the service does it.

    Raises `TransientError` after some attempts.
    """
    # not the task's result: where that is long, the runner spends seconds on its repr for signal
    # handlers
    results: list[T] = []

    async def main() -> None:
        results.append(await ask())

    retry_call()(lambda: asyncio.run(main()))
    return results[0]
