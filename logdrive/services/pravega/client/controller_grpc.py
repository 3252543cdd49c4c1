"""A Pravega controller over gRPC.

It needs the extra `pravega`: open one with `grpc_extra.connect_controller`, which explains how to
install it.

async with open_grpc_controller("127.0.0.1", 9090, None, None) as controller:
    await controller.create_stream("logs", "app", segments=4)
    segments = await controller.current_segments("logs", "app")
"""

import base64
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from logdrive.errors import ConfigError, Mistake, TransientError, os_error_text
from logdrive.host.transport import ClientTls
from logdrive.model.units import MIB
from logdrive.services.pravega.client.controller import (
    Login,
    SegmentStoreAddress,
    StreamSegment,
    Successor,
    UnknownStreamError,
)
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.controller.methods import METHODS, SERVICE

A = TypeVar("A", bound=Message)

_ANSWER_SECONDS: Final = 20.0  # limit on one call
_ANSWER_BYTES: Final = 16 * MIB  # room for the segments of any stream
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _ANSWER_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
    ("grpc.enable_http_proxy", 0),  # connect to the configured address and to no proxy
)
_MISSING: Final = (grpc.StatusCode.NOT_FOUND,)
_FORBIDDEN: Final = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
)


class GrpcController:
    """Calls over one gRPC channel, which connects and reconnects by itself.

    Implements `ControllerClient`, which documents its methods.
    """

    def __init__(self, channel: grpc.aio.Channel, login: Login | None) -> None:
        self._login = () if login is None else (("authorization", _basic(login)),)
        self._calls = {
            name: channel.unary_unary(
                f"/{SERVICE}/{name}",
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.answer.FromString,
            )
            for name, method in METHODS.items()
        }

    async def create_stream(self, scope: str, stream: str, segments: int) -> None:
        """Create the scope and the stream, unless they exist, with a fixed number of segments."""
        made = await self.call_method(
            "createScope", pb.ScopeInfo(scope=scope), pb.CreateScopeStatus
        )
        _check(
            made.status,
            (pb.CreateScopeStatus.SUCCESS, pb.CreateScopeStatus.SCOPE_EXISTS),
            f"to make the scope {scope}",
        )
        policy = pb.ScalingPolicy(
            scaleType=pb.ScalingPolicy.FIXED_NUM_SEGMENTS, minNumSegments=segments
        )
        config = pb.StreamConfig(streamInfo=_stream(scope, stream), scalingPolicy=policy)
        status = (await self.call_method("createStream", config, pb.CreateStreamStatus)).status
        _check(
            status,
            (pb.CreateStreamStatus.SUCCESS, pb.CreateStreamStatus.STREAM_EXISTS),
            f"to make the stream {scope}/{stream}",
        )

    async def current_segments(self, scope: str, stream: str) -> list[StreamSegment]:
        """Return the segments that take appends: none for a sealed stream."""
        answer = await self.call_method(
            "getCurrentSegments", _stream(scope, stream), pb.SegmentRanges
        )
        return [_segment(key_range) for key_range in answer.segmentRanges]

    async def oldest_segments(self, scope: str, stream: str) -> list[int]:
        """Return the ids of the segments that hold the oldest bytes of the stream."""
        request = pb.GetSegmentsRequest(streamInfo=_stream(scope, stream), timestamp=0)
        answer = await self.call_method("getSegments", request, pb.SegmentsAtTime)
        return [location.segmentId.segmentId for location in answer.segments]

    async def successors_of(self, scope: str, stream: str, segment: int) -> list[Successor]:
        """Return the segments that replaced the segment with the id *segment*."""
        request = pb.SegmentId(streamInfo=_stream(scope, stream), segmentId=segment)
        answer = await self.call_method(
            "getSegmentsImmediatelyFollowing", request, pb.SuccessorResponse
        )
        return [Successor(_segment(entry.segment), tuple(entry.value)) for entry in answer.segments]

    async def locate_segment(self, segment: StreamSegment) -> SegmentStoreAddress:
        """Return the address of the segment store that has *segment* now."""
        request = pb.SegmentId(
            streamInfo=_stream(segment.scope, segment.stream), segmentId=segment.id
        )
        answer = await self.call_method("getURI", request, pb.NodeUri)
        if not (answer.endpoint and 0 < answer.port < 1 << 16):
            raise TransientError(f"the controller names no segment store for {segment.name}")
        return SegmentStoreAddress(answer.endpoint, answer.port)

    async def delegation_token(self, scope: str, stream: str, *, update: bool = True) -> str:
        """Return a delegation token for the stream, "" if the service asks for none."""
        access = pb.StreamInfo.READ_WRITE if update else pb.StreamInfo.READ
        wanted = pb.StreamInfo(scope=scope, stream=stream, accessOperation=access)
        return (
            await self.call_method("getDelegationToken", wanted, pb.DelegationToken)
        ).delegationToken

    async def call_method(self, method: str, request: Message, answer: type[A]) -> A:
        """Call *method* with *request* and return its answer, of type *answer*."""
        try:
            reply = await self._calls[method](
                request, timeout=_ANSWER_SECONDS, metadata=self._login
            )
        except grpc.aio.AioRpcError as error:
            words = f"the controller answers {method} with {error.code().name}: {error.details()}"
            if error.code() in _MISSING:
                raise UnknownStreamError(words) from error
            if error.code() in _FORBIDDEN:
                raise RequestRefusedError(words) from error
            raise TransientError(words) from error
        return cast(A, reply)


@contextlib.asynccontextmanager
async def open_grpc_controller(
    host: str, port: int, tls: ClientTls | None, login: Login | None
) -> AsyncIterator[GrpcController]:
    """Yield a client of the controller at *host*:*port* that works inside the context.

    Raises `ConfigError` if certificates can't be loaded. Does not connect before the first call.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if tls is None:
        channel = grpc.aio.insecure_channel(where, options=_OPTIONS)
    else:
        name = (
            () if tls.server_name is None else (("grpc.ssl_target_name_override", tls.server_name),)
        )
        channel = grpc.aio.secure_channel(where, _credentials(tls), options=(*_OPTIONS, *name))
    async with channel:
        yield GrpcController(channel, login)


def _credentials(tls: ClientTls) -> grpc.ChannelCredentials:
    paths = [path for path in (tls.ca, tls.key, tls.cert) if path is not None]
    try:
        texts = [Path(path).read_bytes() for path in paths]
    except OSError as error:
        raise ConfigError(
            str(error.filename),
            [Mistake("tls", str(error.filename), f"can't be read: {os_error_text(error)}")],
        ) from error
    return grpc.ssl_channel_credentials(*texts)


def _basic(login: Login) -> str:
    return f"Basic {base64.b64encode(f'{login.user}:{login.password}'.encode()).decode()}"


def _stream(scope: str, stream: str) -> pb.StreamInfo:
    return pb.StreamInfo(scope=scope, stream=stream)


def _segment(key_range: pb.SegmentRange) -> StreamSegment:
    stream = key_range.segmentId.streamInfo
    return StreamSegment(
        stream.scope,
        stream.stream,
        key_range.segmentId.segmentId,
        key_range.minKey,
        key_range.maxKey,
    )


def _check(status: int, good: Iterable[int], what: str) -> None:
    if status not in good:
        raise RequestRefusedError(f"the controller refuses {what} (status {status})")
