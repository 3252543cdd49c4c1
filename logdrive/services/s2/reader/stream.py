"""Reads an S2 stream for the pipeline's threads and Spark's processes: each call connects anew.

Calls block, and no connection is held between them, so that an `S2StreamReader` can be pickled for
executors, and a service that was restarted is simply asked again.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from logdrive.address import S2Address, s2_address
from logdrive.errors import ConfigError, Mistake, StorageError, TransientError
from logdrive.host.transport import ClientTls
from logdrive.model.batch_walker import BatchRef
from logdrive.model.record_walker import frame_batch
from logdrive.model.units import MIB, OffsetUnit
from logdrive.services.batch_budget import BatchBudget
from logdrive.services.pravega.client.controller import Login
from logdrive.services.reader import HeaderDigest, SegmentState
from logdrive.services.reader_calls import retry_call, tls_options
from logdrive.services.s2.client.blocking import BlockingS2Client
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.sessions import ReadSession
from logdrive.services.s2.client.target import ACCESS_TOKEN, S2Target, target_of
from logdrive.services.s2.reader import headers
from logdrive.services.s2.reader.batches import BatchCutter
from logdrive.services.s2.reader.missing import missing_remedy, streams_instead
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.queries import ReadQuery

T = TypeVar("T")

_CHUNK_BYTES: Final = 4 * MIB  # a chunk ends with the batch that reaches it


@dataclass(frozen=True, slots=True)
class S2StreamReader:
    """A stream of S2, at any service that speaks its protocol. Implements `ServiceReader`.

    It has one segment, number 0, with the name `basin/stream`.
    """

    target: S2Target
    address: S2Address

    @property
    def name(self) -> str:
        """The stream's name `basin/stream`, as in the tables."""
        return f"{self.address.basin}/{self.address.stream}"

    @property
    def uri(self) -> str:
        """The address, as the option `uri` of the data source."""
        return self.address.uri

    @property
    def offset_unit(self) -> OffsetUnit:
        """Records: offsets are sequence numbers."""
        return "records"

    def connection_options(self) -> dict[str, str]:
        """Return the options of the data source with which Spark's workers connect.

        Spark blanks tokens in what it shows, by the option's name.
        """
        named = {"token": self.target.token or None} | tls_options(self.target.basins.tls)
        return {name: value for name, value in named.items() if value is not None}

    def name_of_segment(self, number: int) -> str:
        """Return the full name of the only segment."""
        return self.name

    def segment_number(self, segment: str) -> int:
        """Return 0: there is one segment."""
        return 0

    def list_segments(self) -> list[SegmentState]:
        """Return the state of the stream as that of a segment; [] if there is no such stream.

        Raises `TransientError`, and `ConfigError` if the service refuses the token, or has the
        stream as several.
        """

        async def ask(client: S2Client) -> tuple[SegmentState | None, list[str]]:
            state = await self._state(client)
            stream = self.address.stream
            return state, [] if state is not None else await streams_instead(client, stream)

        state, instead = self._ask(ask)
        if instead:
            remedy = missing_remedy(self.name, instead)
            raise ConfigError("pipeline", [Mistake("from", self.uri, remedy)])
        return [] if state is None else [state]

    def read_batch_refs(
        self,
        segment: str,
        start: int,
        end: int,
        most: int | None = None,
        most_raw: int | None = None,
    ) -> list[BatchRef]:
        """Return the batches that lie whole in [start, end), without most of their records.

        Command records are among them, each as a batch of its own. Raises `TransientError`, and
        `StorageError` if records were removed.
        """

        async def ask(client: S2Client) -> list[BatchRef]:
            budget, found = BatchBudget(most, most_raw), list[BatchRef]()
            async for batch in headers.read_batch_refs(client, self.address.stream, start, end):
                if not budget.admits(batch):
                    break
                found.append(batch)
            return found

        return self._ask(ask)

    def count_known_headers(self, segment: str, marks: Sequence[HeaderDigest]) -> int:
        """Return how many of the headers *marks*, from the first on, the stream still has (R5).

        Raises `TransientError`.
        """

        async def ask(client: S2Client) -> int:
            state = await self._state(client)
            if state is None:
                return 0
            stream = self.address.stream
            return await headers.count_known_headers(client, stream, marks, state)

        return self._ask(ask)

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the batches of [start, end) in order, framed, in chunks of about 4 MiB.

        Both are where batches begin. Connects again after a failure. Raises `TransientError` once
        too many attempts have failed, and `StorageError` if records were removed.
        """
        with _OpenSession(self, end) as reading:
            while start < end:
                following, data = retry_call()(reading.next_chunk, start)
                yield start, data
                start = following

    async def _state(self, client: S2Client) -> SegmentState | None:
        return await headers.segment_state(client, self.address.stream, self.name)

    def _ask(self, ask: Callable[[S2Client], Awaitable[T]]) -> T:
        def connect_and_ask() -> T:
            with BlockingS2Client(self.target) as client:
                return client.call(ask)

        try:
            return retry_call()(connect_and_ask)
        except S2Error as error:
            raise self.refused(error) from error

    def refused(self, error: S2Error) -> Exception:
        """Return *error*, an answer of the service, as the error to raise."""
        if error.status in (401, 403):
            remedy = f"{error}: give the access token in {ACCESS_TOKEN}, or user and password"
            return ConfigError("pipeline", [Mistake("from", self.uri, remedy)])
        return error


class _OpenSession:
    """A read session, opened when it is needed, and again after a failure."""

    def __init__(self, stream: S2StreamReader, end: int) -> None:
        self._stream = stream
        self._end = end
        self._client: BlockingS2Client | None = None
        self._session: ReadSession | None = None
        # what was received and not yielded
        self._cutter = BatchCutter(stream.name, 0)
        self._connection = ExitStack()  # closes the client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def next_chunk(self, start: int) -> tuple[int, bytes]:
        """Return the batches from *start* on, framed, and where the next begins.

        Raises `TransientError`, `StorageError`, `S2Error`.
        """
        try:
            if self._client is None:
                self._client = self._connection.enter_context(BlockingS2Client(self._stream.target))
            return self._client.call(lambda client: self._next_chunk(client, start))
        except BaseException as error:
            self._client = self._session = None
            self._cutter = BatchCutter(self._stream.name, start)
            self._connection.close()
            if isinstance(error, S2Error):
                raise self._stream.refused(error) from error
            raise

    async def _next_chunk(self, client: S2Client, start: int) -> tuple[int, bytes]:
        size, parts = 0, list[bytes]()
        if self._cutter.position != start:  # at the beginning, and after a failure
            self._cutter = BatchCutter(self._stream.name, start)
        while size < _CHUNK_BYTES and self._cutter.position < self._end:
            if (found := self._cutter.next_batch()) is not None:
                parts.append(frame_batch(*found))
                size += len(parts[-1])
            else:
                await self._receive(client)
        return self._cutter.position, b"".join(parts)

    async def _receive(self, client: S2Client) -> None:
        """Receive more records, through a new session if there is none."""
        name, wanted = self._stream.name, self._cutter.wanted
        if wanted >= self._end:
            raise StorageError(
                f"{name}: no batch ends at {self._end}: the one at {self._cutter.position} goes on"
            )
        if self._session is None:
            query = ReadQuery(seq_num=wanted, count=self._end - wanted)
            self._session = await client.open_read_session(self._stream.address.stream, query)
        batch = await self._session.next_batch()
        if batch is None:
            raise TransientError(f"{name}: the records from {wanted} to {self._end} are not there")
        self._cutter.receive_records(batch.records)
        if self._session.advised:  # the service is about to stop: go on over another connection
            self._session.abort()
            self._session = None


def s2_stream(
    uri: str,
    tls: ClientTls | None = None,
    login: Login | None = None,
    token: str = "",
    *,
    environ: Mapping[str, str],
) -> S2StreamReader:
    """Return the reader for `s2://host:port/basin/stream`.

    *login* is for a store of logdrive that has users: it takes them in place of an access token.
    Without both, and without a host, the variables of S2's own tools in *environ* are read (see
    `target.py`). Raises ValueError with a remedy, and `ConfigError` for such a variable.
    """
    address = s2_address(uri)
    bearer = token or (_login_as_token(login) if login else None)
    target = target_of(address, tls=tls, plain=False, token=bearer, environ=environ)
    return S2StreamReader(target, address)


def _login_as_token(login: Login) -> str:
    # in base64: a header takes no characters beyond ASCII
    return b64encode(f"{login.user}:{login.password}".encode()).decode()
