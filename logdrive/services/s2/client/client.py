"""A client of S2 for the streams of one basin. See docs/protocols/s2.md.

    async with S2Client(transport, target) as client:
        tail = await client.check_tail("events")
        batch = await client.read("events", ReadQuery(seq_num=0, count=100))

Nothing is tried twice here, but a lost connection is made again at the next call. All methods raise
`TransientError` for what may pass, a lost connection or an answer (`S2UnavailableError`), `S2Error`
for an answer that will be the same next time, and `ConfigError` for certificates that can't be
used.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import orjson
import structlog

from logdrive.errors import TransientError
from logdrive.host.transport import Transport
from logdrive.net.http.client import ClientResponse, HttpClient
from logdrive.net.http.errors import BodyTooLargeError
from logdrive.services.s2.client.connections import Connections
from logdrive.services.s2.client.errors import error_of
from logdrive.services.s2.client.sessions import AppendSession, ReadSession
from logdrive.services.s2.client.target import Endpoint, S2Target
from logdrive.wire.s2.compression import (
    Compression,
    DecompressionError,
    compress_long,
    content_compression,
    decompress,
)
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.json import decode_stream_names, decode_tail
from logdrive.wire.s2.limits import MESSAGE_BYTES
from logdrive.wire.s2.names import encode_segment
from logdrive.wire.s2.protobuf import decode_append_ack, decode_read_batch, encode_append_input
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendAck, AppendInput, ReadBatch, StreamPosition

T = TypeVar("T")

_REQUEST_SECONDS: Final = 20.0  # for a connection and a whole answer; a read may wait in addition
_ENSURE_TRIES: Final = 4  # basin, stream, tail, and once more for what others do meanwhile
_PROTOBUF: Final = "application/protobuf"
_JSON: Final = "application/json"
_SESSION: Final = "s2s/proto"
_ACCEPT_ENCODING: Final = ("accept-encoding", "zstd, gzip")

_POLICY_REFUSED: Final = (403, 422)  # answers to a retention that an account may not have
_log = structlog.get_logger("logdrive.sinks")

MISSING: Final = ("basin_not_found", "stream_not_found")
"""Codes of the errors that say that a stream, or its basin, is not there."""

HeaderPairs = list[tuple[str, str]]


class S2Client:
    """Requests and sessions for the streams of *target*'s basin.

    What is sent is compressed with *compression* if it is 1 KiB or more.
    """

    def __init__(
        self,
        transport: Transport,
        target: S2Target,
        *,
        compression: Compression = Compression.ZSTD,
        request_seconds: float = _REQUEST_SECONDS,
    ) -> None:
        self._target = target
        self._connections = Connections(transport)
        self._compression = compression
        self._seconds = request_seconds

    async def __aenter__(self) -> "S2Client":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def where(self) -> str:
        """Host and port of the service, for messages."""
        return f"{self._target.basins.host}:{self._target.basins.port}"

    async def close(self) -> None:
        """Close the connections; open sessions are broken off."""
        await self._connections.close()

    # Streams -------------------------------------------------------------------------------------

    async def check_tail(self, stream: str) -> StreamPosition:
        """Return the durable tail of *stream*."""
        answer = await self._request("GET", f"{_path(stream)}/records/tail")
        return _read(answer, decode_tail)

    async def append(self, stream: str, append: AppendInput) -> AppendAck:
        """Append *append* and return its acknowledgement. Retrying is the caller's to judge."""
        answer = await self._request(
            "POST",
            f"{_path(stream)}/records",
            [("content-type", _PROTOBUF), ("accept", _PROTOBUF)],
            encode_append_input(append),
        )
        return _read(answer, decode_append_ack)

    async def read(self, stream: str, query: ReadQuery) -> ReadBatch:
        """Return at most 1000 records and 1 MiB of them, from where *query* says.

        Raises `RangeNotSatisfiableError` for a start at the tail, unless *query* waits.
        """
        answer = await self._request(
            "GET",
            f"{_path(stream)}/records?{query.encode()}",
            [("accept", _PROTOBUF)],
            wait=query.wait or 0,
        )
        return _read(answer, decode_read_batch)

    async def open_append_session(self, stream: str) -> AppendSession:
        """Return an append session. Whether the service opens it `next_ack` tells, so that appends
        may be sent at once.
        """
        headers = [("content-type", _SESSION), ("accept", _SESSION)]
        async with self._deadline(self._seconds):
            connection = await self._connections.connect(self._target.basins)
            opened = await connection.open_stream(
                "POST", f"{_path(stream)}/records", self._headers(self._target.basins, headers)
            )
        return AppendSession(opened, partial(self._on_advised, connection), self._compression)

    async def open_read_session(self, stream: str, query: ReadQuery) -> ReadSession:
        """Return a read session, once the service has opened it."""
        headers = [("content-type", _SESSION), ("accept", _SESSION)]
        async with self._deadline(self._seconds):
            connection = await self._connections.connect(self._target.basins)
            opened = await connection.open_stream(
                "GET",
                f"{_path(stream)}/records?{query.encode()}",
                self._headers(self._target.basins, headers),
                end=True,
            )
            session = ReadSession(opened, partial(self._on_advised, connection))
            try:
                await session.accepted()
            except BaseException:
                session.abort()
                raise
        return session

    def _on_advised(self, connection: HttpClient) -> None:
        """Open no more streams on *connection*: its server is about to stop."""
        self._connections.retire(connection)

    async def list_streams(self, prefix: str) -> list[str]:
        """Return the names of at most 1000 streams of the basin that begin with *prefix*."""
        query = urlencode({"prefix": prefix})
        answer = await self._request("GET", f"/v1/streams?{query}", [("accept", _JSON)])
        return _read(answer, decode_stream_names)

    # Creating ------------------------------------------------------------------------------------

    async def create_basin(self) -> None:
        """Create the basin. Raises `S2Error`, resource_already_exists, if it is there."""
        await self._post("/v1/basins", {"basin": self._target.basin}, account=True)

    async def create_stream(self, stream: str) -> None:
        """Create *stream*, to keep its records until they are trimmed: S2's own default is a week.

        A service that refuses that, as an account with a limit on retention does, creates it as the
        basin's defaults say. Raises `S2Error`, resource_already_exists, if it is there.
        """
        wanted = {"stream": stream, "config": {"retention_policy": {"infinite": {}}}}
        try:
            await self._post("/v1/streams", wanted)
        except S2Error as error:
            if error.status not in _POLICY_REFUSED:
                raise
            await self._post("/v1/streams", {"stream": stream})
            _log.warning(
                "the service does not keep a stream's records for ever: what is not read within "
                "the basin's retention is lost",
                stream=f"{self._target.basin}/{stream}",
                reason=str(error),
            )

    async def _post(self, path: str, body: object, *, account: bool = False) -> None:
        headers = [("content-type", _JSON)]
        await self._request("POST", path, headers, orjson.dumps(body), account=account)

    async def ensure_stream(self, stream: str) -> StreamPosition:
        """Return the tail of *stream*, after creating basin and stream if they are missing.

        S2's own request to ensure a stream would give an existing one the default configuration.
        """
        for _ in range(_ENSURE_TRIES):
            try:
                return await self.check_tail(stream)
            except S2Error as error:
                if error.code not in MISSING:
                    raise
                basin_missing = error.code == "basin_not_found"
            if not basin_missing:
                basin_missing = await self._create_missing(self.create_stream(stream))
                if not basin_missing:
                    _log.info("stream created", stream=f"{self._target.basin}/{stream}")
            if basin_missing:
                await self._create_missing(self.create_basin())
        raise TransientError(f"{self._target.basin}/{stream} was created and is not there")

    async def _create_missing(self, creating: Coroutine[Any, Any, None]) -> bool:
        """Create what another process may create as well; return whether its basin is missing."""
        try:
            await creating
        except S2Error as error:
            if error.code not in (*MISSING, "resource_already_exists"):
                raise
            return error.code == "basin_not_found"
        return False

    # Requests ------------------------------------------------------------------------------------

    async def _request(
        self,
        method: str,
        path: str,
        headers: HeaderPairs | None = None,
        body: bytes | None = None,
        *,
        account: bool = False,
        wait: float = 0,
    ) -> ClientResponse:
        """Return the answer to a unary request, if it is one of success."""
        endpoint = self._target.account if account else self._target.basins
        pairs = self._headers(endpoint, headers or [], account=account)
        if body is not None:
            body, used = compress_long(body, self._compression)
            if used is not Compression.NONE:
                pairs.append(("content-encoding", used.encoding))
        try:
            async with self._deadline(self._seconds + wait):
                connection = await self._connections.connect(endpoint)
                answer = await connection.request(method, path, pairs, body)
        except BodyTooLargeError as error:
            raise TransientError(f"the service's answer can't be read: {error}") from error
        if not 200 <= answer.status < 300:
            raise error_of(answer.status, answer.head.headers, answer.body)
        return answer

    def _headers(
        self, endpoint: Endpoint, headers: HeaderPairs, *, account: bool = False
    ) -> HeaderPairs:
        target = self._target
        pairs = [("host", endpoint.authority), ("user-agent", "logdrive"), _ACCEPT_ENCODING]
        if target.token:
            pairs.append(("authorization", f"Bearer {target.token}"))
        if target.basin_in_header and not account:
            pairs.append(("s2-basin", target.basin))
        return pairs + headers

    def _deadline(self, seconds: float) -> "_Deadline":
        return _Deadline(seconds, self.where)


class _Deadline:
    """Raises `TransientError` in its body after some seconds."""

    def __init__(self, seconds: float, where: str) -> None:
        self._seconds = seconds
        self._where = where
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise TransientError(
                f"{self._where} does not answer within {self._seconds:g} s"
            ) from None


def _path(stream: str) -> str:
    return f"/v1/streams/{encode_segment(stream)}"


def _read(answer: ClientResponse, decode: Callable[[bytes], T]) -> T:
    """Return what *decode* makes of the body. Raises `TransientError` for one that is none."""
    try:
        encoding = content_compression(answer.head.headers.get("content-encoding"))
        return decode(decompress(answer.body, encoding, MESSAGE_BYTES))
    except (S2Error, DecompressionError) as error:
        raise TransientError(f"the service's answer can't be read: {error}") from error
