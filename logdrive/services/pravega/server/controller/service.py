"""The controller's methods for scopes, streams and segments, and its gRPC handlers.

See docs/protocols/pravega-controller.md.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from logdrive.errors import LogdriveError, TransientError
from logdrive.services.pravega.server.controller import convert
from logdrive.services.pravega.server.controller.convert import NO_TOKEN
from logdrive.services.pravega.server.controller.statuses import (
    answer_for_error,
    grpc_code_for_error,
)
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.errors import (
    NoSuchScopeError,
    NoSuchStreamError,
    PreconditionError,
    StreamsError,
)
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.controller.methods import METHODS, SERVICE, Method
from logdrive.wire.pravega.names import epoch_of_id

MethodHandler = Callable[[Any], Awaitable[Message]]


class ControllerService:
    """Answers calls about the scopes, streams and segments of one store.

    *host* and *port* are the segment store's address, which clients are told for every segment.
    *parts* have the methods that this class lacks.
    """

    def __init__(
        self,
        streams: Streams,
        host: str,
        port: int,
        parts: Sequence[object] = (),
    ) -> None:
        self._streams = streams
        self._parts = parts
        # where every segment is
        self._segment_store = pb.NodeUri(endpoint=host, port=port)
        # where this controller is; the port is known once it listens
        self._controller = self._segment_store

    def grpc_handlers(self) -> grpc.GenericRpcHandler:
        """Return the handlers for `grpc.aio.Server`; calls not in `METHODS` are UNIMPLEMENTED."""
        handlers = {
            name: _method_handler(method, self._handler(_python_name(name)))
            for name, method in METHODS.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _handler(self, name: str) -> MethodHandler:
        handlers: list[MethodHandler] = [
            getattr(part, name) for part in (self, *self._parts) if hasattr(part, name)
        ]
        return handlers[0]

    def set_own_port(self, port: int) -> None:
        """Set the controller's port once it is bound; clients are told the segment store's host."""
        self._controller = pb.NodeUri(endpoint=self._segment_store.endpoint, port=port)

    async def get_controller_server_list(self, request: pb.ServerRequest) -> pb.ServerResponse:
        """List the controllers: only this one."""
        return pb.ServerResponse(nodeURI=[self._controller])

    # Scopes --------------------------------------------------------------------------------------

    async def create_scope(self, request: pb.ScopeInfo) -> pb.CreateScopeStatus:
        """Create a scope."""
        await self._streams.create_scope(request.scope)
        return pb.CreateScopeStatus(status="SUCCESS")

    async def delete_scope(self, request: pb.ScopeInfo) -> pb.DeleteScopeStatus:
        """Delete an empty scope."""
        await self._streams.delete_scope(request.scope)
        return pb.DeleteScopeStatus(status="SUCCESS")

    async def delete_scope_recursive(self, request: pb.ScopeInfo) -> pb.DeleteScopeStatus:
        """Delete a scope and everything in it."""
        await self._streams.delete_scope_with_all(request.scope)
        return pb.DeleteScopeStatus(status="SUCCESS")

    async def check_scope_exists(self, request: pb.ScopeInfo) -> pb.ExistsResponse:
        """Return whether a scope exists."""
        return pb.ExistsResponse(exists=await self._streams.scope_exists(request.scope))

    async def list_scopes(self, request: pb.ScopesRequest) -> pb.ScopesResponse:
        """List scopes, page by page."""
        names, token = convert.page_of_names(
            await self._streams.scopes(), request.continuationToken.token
        )
        return pb.ScopesResponse(scopes=names, continuationToken=token)

    async def list_streams_in_scope(
        self, request: pb.StreamsInScopeRequest
    ) -> pb.StreamsInScopeResponse:
        """List the streams of a scope, page by page."""
        scope = request.scope.scope
        return _streams_page(
            scope, await self._streams.streams(scope), request.continuationToken.token
        )

    async def list_streams_in_scope_for_tag(
        self, request: pb.StreamsInScopeWithTagRequest
    ) -> pb.StreamsInScopeResponse:
        """List the streams of a scope that have a tag, page by page."""
        scope = request.scope.scope
        return _streams_page(
            scope,
            await self._streams.streams(scope, tag=request.tag),
            request.continuationToken.token,
        )

    # Streams -------------------------------------------------------------------------------------

    async def create_stream(self, request: pb.StreamConfig) -> pb.CreateStreamStatus:
        """Create a stream."""
        await self._streams.create(
            request.streamInfo.scope,
            request.streamInfo.stream,
            convert.parse_stream_config(request, least=1),
        )
        return pb.CreateStreamStatus(status="SUCCESS")

    async def update_stream(self, request: pb.StreamConfig) -> pb.UpdateStreamStatus:
        """Change a stream's policies and tags."""
        await self._streams.configure(
            request.streamInfo.scope,
            request.streamInfo.stream,
            convert.parse_stream_config(request),
        )
        return pb.UpdateStreamStatus(status="SUCCESS")

    async def truncate_stream(self, request: pb.StreamCut) -> pb.UpdateStreamStatus:
        """Cut off a stream's data before a stream cut."""
        await self._streams.truncate(
            request.streamInfo.scope, request.streamInfo.stream, dict(request.cut)
        )
        return pb.UpdateStreamStatus(status="SUCCESS")

    async def seal_stream(self, request: pb.StreamInfo) -> pb.UpdateStreamStatus:
        """Seal a stream: it accepts no more appends."""
        await self._streams.seal(request.scope, request.stream)
        return pb.UpdateStreamStatus(status="SUCCESS")

    async def delete_stream(self, request: pb.StreamInfo) -> pb.DeleteStreamStatus:
        """Delete a sealed stream."""
        await self._streams.delete(request.scope, request.stream)
        return pb.DeleteStreamStatus(status="SUCCESS")

    async def check_stream_exists(self, request: pb.StreamInfo) -> pb.ExistsResponse:
        """Return whether a stream exists."""
        try:
            await self._streams.stream(request.scope, request.stream)
        except (NoSuchScopeError, NoSuchStreamError):
            return pb.ExistsResponse(exists=False)
        return pb.ExistsResponse(exists=True)

    async def get_stream_configuration(self, request: pb.StreamInfo) -> pb.StreamConfig:
        """Return a stream's configuration."""
        stream = await self._streams.stream(request.scope, request.stream)
        return convert.stream_config_message(request.scope, request.stream, stream.config)

    async def get_delegation_token(self, request: pb.StreamInfo) -> pb.DelegationToken:
        """Return a token for the segment store: empty, `ControllerAuthorization` fills it in."""
        return pb.DelegationToken(delegationToken=NO_TOKEN)

    # Segments ------------------------------------------------------------------------------------

    async def get_current_segments(self, request: pb.StreamInfo) -> pb.SegmentRanges:
        """List the segments that accept appends."""
        # clients expect a mark stream beside each stream; it is created when one asks for it
        await self._streams.create_mark(request.scope, request.stream)
        return convert.segment_ranges_message(
            request,
            layout.current_segments(await self._streams.stream(request.scope, request.stream)),
            NO_TOKEN,
        )

    async def get_epoch_segments(self, request: pb.GetEpochSegmentsRequest) -> pb.SegmentRanges:
        """List the segments that accepted appends in an epoch."""
        info = request.streamInfo
        return convert.segment_ranges_message(
            info,
            layout.segments_in_epoch(
                await self._streams.stream(info.scope, info.stream), request.epoch
            ),
            NO_TOKEN,
        )

    async def get_segments(self, request: pb.GetSegmentsRequest) -> pb.SegmentsAtTime:
        """Return the stream cut at a time, or at the stream's beginning for time 0."""
        info = request.streamInfo
        return convert.segments_at_time_message(
            info,
            await self._streams.cut_at(info.scope, info.stream, request.timestamp or None),
            NO_TOKEN,
        )

    async def get_segments_immediately_following(
        self, request: pb.SegmentId
    ) -> pb.SuccessorResponse:
        """List a segment's successors, each with its predecessors."""
        info = request.streamInfo
        stream = await self._streams.stream(info.scope, info.stream)
        entries = [
            pb.SuccessorResponse.SegmentEntry(
                segment=convert.segment_range_message(info, segment), value=before
            )
            for segment, before in layout.successors(stream, request.segmentId)
        ]
        return pb.SuccessorResponse(segments=entries, delegationToken=NO_TOKEN)

    get_segments_immediatly_following = get_segments_immediately_following

    async def get_segments_between(self, request: pb.StreamCutRange) -> pb.StreamCutRangeResponse:
        """List the segments between two stream cuts."""
        info = request.streamInfo
        stream = await self._streams.stream(info.scope, info.stream)
        segments = [
            convert.segment_id_message(info, segment.id)
            for segment in layout.segments_between(stream, getattr(request, "from"), request.to)
        ]
        return pb.StreamCutRangeResponse(segments=segments, delegationToken=NO_TOKEN)

    async def is_segment_valid(self, request: pb.SegmentId) -> pb.SegmentValidityResponse:
        """Return whether a segment accepts appends."""
        stream = await self._streams.stream(request.streamInfo.scope, request.streamInfo.stream)
        return pb.SegmentValidityResponse(
            response=convert.is_current_segment(stream, request.segmentId)
        )

    async def is_stream_cut_valid(self, request: pb.StreamCut) -> pb.StreamCutValidityResponse:
        """Return whether a stream can be read from a cut: it has one offset for each key."""
        stream = await self._streams.stream(request.streamInfo.scope, request.streamInfo.stream)
        try:
            layout.check_cut(stream, request.cut)
        except StreamsError:
            return pb.StreamCutValidityResponse(response=False)
        return pb.StreamCutValidityResponse(response=True)

    async def get_uri(self, request: pb.SegmentId) -> pb.NodeUri:
        """Return the address of the segment store that has a segment: always the same."""
        return self._segment_store

    async def scale(self, request: pb.ScaleRequest) -> pb.ScaleResponse:
        """Replace segments by others with new key ranges.

        The answer has the number of the epoch before, and the new segments; by then it is done.
        """
        info = request.streamInfo
        wanted = [(entry.start, entry.end) for entry in request.newKeyRanges]
        epoch, current = await self._streams.scale(
            info.scope, info.stream, request.sealedSegments, wanted
        )
        new = [
            convert.segment_range_message(info, segment)
            for segment in current
            if epoch_of_id(segment.id) == epoch
        ]
        return pb.ScaleResponse(status="STARTED", segments=new, epoch=epoch - 1)

    async def check_scale(self, request: pb.ScaleStatusRequest) -> pb.ScaleStatusResponse:
        """Return whether a scaling is complete: it always is, for an epoch that exists."""
        stream = await self._streams.stream(request.streamInfo.scope, request.streamInfo.stream)
        if not 0 <= request.epoch < len(stream.epochs):
            raise PreconditionError(f"there was no epoch {request.epoch}")
        return pb.ScaleStatusResponse(status="SUCCESS")


def _method_handler(method: Method, handler: MethodHandler) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the gRPC handler that calls *handler* and converts its errors."""

    async def answer(request: Message, context: "grpc.aio.ServicerContext[Any, Any]") -> Message:
        try:
            return await handler(request)
        except StreamsError as error:
            reply = answer_for_error(method.answer, error)
            if reply is None:
                await context.abort(grpc_code_for_error(error), str(error))
            return reply
        except TransientError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except LogdriveError as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))

    return grpc.unary_unary_rpc_method_handler(
        answer, method.request.FromString, lambda reply: reply.SerializeToString()
    )


def _python_name(name: str) -> str:
    """Return a method's name in snake case; "URI" is one word."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name.replace("URI", "Uri"))


def _streams_page(scope: str, streams: list[str], after: str) -> pb.StreamsInScopeResponse:
    names, token = convert.page_of_names(streams, after)
    listed = [pb.StreamInfo(scope=scope, stream=name) for name in names]
    return pb.StreamsInScopeResponse(streams=listed, continuationToken=token, status="SUCCESS")
