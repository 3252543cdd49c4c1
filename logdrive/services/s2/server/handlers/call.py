"""One request as a handler sees it, and its answer."""

import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from logdrive.errors import TransientError
from logdrive.net.http.exchange import HttpRequest, HttpResponse, content_length
from logdrive.services.s2.server.principals import Principal
from logdrive.wire.s2.compression import (
    Compression,
    DecompressionError,
    accepted_compression,
    compress_long,
    content_compression,
    decompress,
)
from logdrive.wire.s2.errors import (
    S2Error,
    bad_header,
    bad_json,
    bad_proto,
)
from logdrive.wire.s2.limits import UNARY_BODY_BYTES
from logdrive.wire.s2.names import check_basin, check_request_token, check_stream
from logdrive.wire.s2.records import Fence, Record, Trim, command_of

if TYPE_CHECKING:
    from logdrive.services.s2.server.service import S2Service

JSON: Final = "application/json"
PROTOBUF: Final = "application/protobuf"
SESSION: Final = "s2s/proto"
EVENTS: Final = "text/event-stream"
SESSION_HEADERS: Final = (
    ("content-type", SESSION),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)
_PROTOBUF_TYPES: Final = (PROTOBUF, "application/x-protobuf")
_BODY_SECONDS: Final = 30.0
"""Seconds in which the body of a unary request arrives."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: *body* is of *content_type*, and sent compressed if the client likes."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ArrivedBody:
    """The whole body of a unary request as it came; *refuse* makes the error of its type."""

    data: bytes
    compression: Compression
    refuse: Callable[[str], S2Error]

    def most_bytes(self) -> int:
        """Return how many bytes it may have when decompressed."""
        return UNARY_BODY_BYTES if self.compression else len(self.data)

    def decompressed(self) -> bytes:
        """Return the body, decompressed. Raises `S2Error`."""
        try:
            return decompress(self.data, self.compression, UNARY_BODY_BYTES)
        except DecompressionError as error:
            raise self.refuse("length limit exceeded" if error.limit else str(error)) from error


@dataclass(slots=True)
class Call:
    """One request, the *names* in its path, and who makes it."""

    service: "S2Service"
    request: HttpRequest
    response: HttpResponse
    principal: Principal
    names: tuple[str, ...] = field(default=())

    def header(self, name: str) -> str | None:
        """Return a header's value; None if it was not sent."""
        return self.request.headers.get(name)

    def content_type(self) -> str:
        """Return the type of the body without its parameters, in lower case; "" if not given."""
        return _first_type(self.header("content-type"))

    def is_session(self) -> bool:
        """Return whether the client speaks frames."""
        return self.content_type() == SESSION

    def sends_protobuf(self) -> bool:
        """Return whether the body is protobuf."""
        return self.content_type() in _PROTOBUF_TYPES

    def wants_protobuf(self) -> bool:
        """Return whether the answer should be protobuf."""
        return _first_type(self.header("accept")) in _PROTOBUF_TYPES

    def wants_events(self) -> bool:
        """Return whether the answer should be server-sent events."""
        return _first_type(self.header("accept")) == EVENTS

    def basin(self) -> str:
        """Return the basin that the request names. Raises `S2Error`, bad_header."""
        name = self.header("s2-basin")
        if name is None:
            raise bad_header("the header s2-basin is missing: it names the basin")
        return check_basin(name, bad_header)

    def stream(self) -> str:
        """Return the stream in the path, with the principal's prefix. Raises `S2Error`."""
        return check_stream(self.principal.prefix + self.names[0])

    def request_token(self) -> str | None:
        """Return the token that makes repeated requests known. Raises `S2Error`, bad_header."""
        return check_request_token(self.header("s2-request-token"))

    def encryption_key(self) -> bytes | None:
        """Return the client's key for encrypted records. Raises `S2Error`, bad_header."""
        text = self.header("s2-encryption-key")
        if text is None:
            return None
        try:
            return base64.b64decode(text.strip(), validate=True)
        except ValueError as error:
            raise bad_header("s2-encryption-key is not base64") from error

    def check_commands(self, records: Iterable[Record], basin: str) -> None:
        """Raise `S2Error`, 403, unless the command records among *records* are allowed."""
        for record in records:
            match command_of(record) if record.headers else None:
                case Fence():
                    self.principal.check("fence", basin=basin, stream=self.stream())
                case Trim():
                    self.principal.check("trim", basin=basin, stream=self.stream())

    async def arrived_body(self) -> "ArrivedBody":
        """Return the whole body as it came. Raises `S2Error`, `TransientError`."""
        refuse = bad_proto if self.sends_protobuf() else bad_json
        compression = content_compression(self.header("content-encoding"))
        if content_length(self.request.headers) > UNARY_BODY_BYTES:
            raise refuse("length limit exceeded")
        parts: list[bytes] = []
        size = 0
        async with self.service.arriving.passing(_BODY_SECONDS) as passage:
            async for part in self.request.chunks():
                parts.append(part)
                size += len(part)
                if size > UNARY_BODY_BYTES:
                    raise refuse("length limit exceeded")
                passage.hold(size)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return ArrivedBody(data, compression, refuse)

    async def json_body(self) -> bytes:
        """Return the body, JSON or nothing. Raises `S2Error`, `TransientError`."""
        return self.as_json(await self.arrived_body())

    def as_json(self, body: "ArrivedBody") -> bytes:
        """Return *body* decompressed, JSON or nothing. Raises `S2Error`."""
        data = body.decompressed()
        if data and not (kind := self.content_type()).endswith(("/json", "+json")):
            raise bad_json(f"the body is {kind or 'of no type'}: send application/json")
        return data

    async def send(self, answer: Answer) -> None:
        """Send a whole answer. Raises `TransientError`."""
        body, headers = answer.body, list(answer.headers)
        if body:
            headers.append(("content-type", answer.content_type))
            used = accepted_compression(self.header("accept-encoding"))
            body, used = compress_long(body, used)
            if used:
                headers += [("content-encoding", used.encoding), ("vary", "accept-encoding")]
        async with self._leaving(len(body)):
            await self.response.respond(answer.status, headers, body)

    async def send_part(self, data: bytes) -> None:
        """Send a part of a reading. Raises `TransientError`, also if the client reads too slowly
        and the memory is needed for others.
        """
        async with self._leaving(len(data)):
            await self.response.send(data)

    @contextlib.asynccontextmanager
    async def _leaving(self, size: int) -> AsyncIterator[None]:
        try:
            async with self.service.leaving.passing() as passage:
                passage.hold(size)
                yield
        except S2Error as error:
            raise TransientError(
                f"{self.request.peer.address}: given up, as it reads nothing and memory is short"
            ) from error


def error_answer(error: S2Error) -> Answer:
    """Return the answer that *error* is: always JSON."""
    return Answer(error.status, error.body())


def _first_type(header: str | None) -> str:
    return (header or "").split(",", 1)[0].split(";", 1)[0].strip().lower()
