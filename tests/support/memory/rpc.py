"""gRPC on a network in memory: the real handlers and the real client's calls, no sockets.

A listener greets as an HTTP/2 server does. Each call is a connection of its own: method and message
in one direction, status and message in the other, each with its length. So whatever happens to
connections happens to calls.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import grpc
import grpc.aio

from logdrive.errors import TransientError
from logdrive.host.disk import Disk
from logdrive.host.rpc import ServeRpc
from logdrive.host.transport import ByteStream, ClientTls, ServerTls, Transport
from logdrive.services.pravega.client.controller import ControllerClient, Controllers, Login
from logdrive.services.pravega.client.controller_grpc import GrpcController

_GREETING = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""An empty SETTINGS frame."""
_HEAD = struct.Struct("!HI")
"""Of a call: the lengths of its method and its message; of an answer: its status and the length of
its message.
"""
_METHOD_BYTES = 200
"""Longer ones are something else: a segment store's client says Hello here to see who answers."""
_GRACE_SECONDS = 5.0
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class _AbortError(Exception):
    """A handler ends its call."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


async def _abort(code: grpc.StatusCode, details: str = "") -> NoReturn:
    raise _AbortError(code, details)


class _Exchange:
    """Reads and writes whole pieces on a stream."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._read = stream, b""

    async def take(self, size: int) -> bytes:
        """Return the next *size* bytes.

        Raises `TransientError` where the other side goes before.
        """
        while len(self._read) < size:
            more = await self._stream.read()
            if not more:
                raise TransientError("closed in the midst of a call")
            self._read += more
        taken, self._read = self._read[:size], self._read[size:]
        return taken

    async def head(self) -> tuple[int, int]:
        """Return the next two figures."""
        first, second = _HEAD.unpack(await self.take(_HEAD.size))
        return first, second


def serving(transport: Transport) -> ServeRpc:
    """Return how a controller is served on *transport*."""

    @contextlib.asynccontextmanager
    async def served(
        handlers: grpc.GenericRpcHandler, where: tuple[str, int], tls: ServerTls | None, disk: Disk
    ) -> AsyncIterator[int]:
        calls: dict[asyncio.Task[Any], None] = {}

        async def accept(stream: ByteStream) -> None:
            task = asyncio.current_task()
            assert task is not None
            calls[task] = None
            try:
                await _serve(handlers, stream)
            finally:
                del calls[task]

        listener = await transport.listen(*where, tls, accept)
        try:
            yield listener.address[1]
        finally:
            await listener.close()
            if calls:
                await asyncio.wait(list(calls), timeout=_GRACE_SECONDS)

    return served


async def _serve(handlers: grpc.GenericRpcHandler, stream: ByteStream) -> None:
    await stream.write([_GREETING])
    exchange = _Exchange(stream)
    method_size, size = await exchange.head()
    if method_size > _METHOD_BYTES:
        return
    method, message = (await exchange.take(method_size)).decode(), await exchange.take(size)
    handler: Any = handlers.service(
        cast(grpc.HandlerCallDetails, SimpleNamespace(method=method, invocation_metadata=()))
    )
    if handler is None:
        await _answer(stream, grpc.StatusCode.UNIMPLEMENTED, b"no such method")
        return
    try:
        answer = await handler.unary_unary(
            handler.request_deserializer(message), SimpleNamespace(abort=_abort)
        )
    except _AbortError as error:
        await _answer(stream, error.code, str(error).encode())
    else:
        await _answer(stream, grpc.StatusCode.OK, handler.response_serializer(answer))


async def _answer(stream: ByteStream, code: grpc.StatusCode, message: bytes) -> None:
    await stream.write([_HEAD.pack(code.value[0], len(message)), message])


class _Channel:
    """What `GrpcController` asks of a channel."""

    def __init__(self, transport: Transport, host: str, port: int) -> None:
        self._transport, self._host, self._port = transport, host, port

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
    ) -> Callable[..., Awaitable[Any]]:
        async def call(request: Any, *, timeout: float, metadata: Any) -> Any:
            try:
                async with asyncio.timeout(timeout):
                    code, message = await self._exchanged(method, request_serializer(request))
            except TransientError as error:
                raise _failed(grpc.StatusCode.UNAVAILABLE, str(error)) from error
            except TimeoutError as error:
                raise _failed(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer") from error
            if code is not grpc.StatusCode.OK:
                raise _failed(code, message.decode())
            return response_deserializer(message)

        return call

    async def _exchanged(self, method: str, message: bytes) -> tuple[grpc.StatusCode, bytes]:
        stream = await self._transport.connect(self._host, self._port, None)
        try:
            name, exchange = method.encode(), _Exchange(stream)
            await stream.write([_HEAD.pack(len(name), len(message)), name, message])
            await exchange.take(len(_GREETING))
            code, size = await exchange.head()
            return _CODES[code], await exchange.take(size)
        finally:
            await stream.close()


def _failed(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def reaching(transport: Transport) -> Controllers:
    """Return how controllers are reached on *transport*."""

    @contextlib.asynccontextmanager
    async def reached(
        host: str, port: int, tls: ClientTls | None, login: Login | None
    ) -> AsyncIterator[ControllerClient]:
        yield GrpcController(cast(grpc.aio.Channel, _Channel(transport, host, port)), login)

    return reached
