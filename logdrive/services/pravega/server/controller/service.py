"""The controller's methods over gRPC: each asks or changes streams, and says what came of it
(specification, section 6).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import Message

from logdrive.errors import LogdriveError, TransientError
from logdrive.services.pravega.server.controller import convert as answers
from logdrive.services.pravega.server.controller.statuses import code_of, status_of
from logdrive.services.pravega.server.streams.transactions import Transactions
from logdrive.services.pravega.server.streams.writer_times import WriterTimes
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

Handler = Callable[[Any], Awaitable[Message]]

TOKEN: Final = ""
"""What is handed out where nobody has to say who they are."""
_NO_TIME: Final = -(1 << 63)


class ControllerService:
    """Answers for one store, whose segments are all found at *host*:*port*; *others* have the
    methods that are not here.
    """

    def __init__(
        self,
        streams: Streams,
        transactions: Transactions,
        writers: WriterTimes,
        host: str,
        port: int,
        others: Sequence[object] = (),
    ) -> None:
        self._streams, self._transactions, self._writers, self._others = (
            streams,
            transactions,
            writers,
            others,
        )
        self._node = pb.NodeUri(endpoint=host, port=port)
        self._here = self._node

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return what `grpc.aio.Server` takes. Methods that are not here are UNIMPLEMENTED."""
        found = {
            name: _method(method, self._handler(_python_name(name)))
            for name, method in METHODS.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, found)

    def _handler(self, name: str) -> Handler:
        handlers: list[Handler] = [
            getattr(part, name) for part in (self, *self._others) if hasattr(part, name)
        ]
        return handlers[0]

    def listens(self, port: int) -> None:
        """Take note of the port at which clients find this controller; they are told the host of
        the segments.
        """
        self._here = pb.NodeUri(endpoint=self._node.endpoint, port=port)

    async def get_controller_server_list(self, request: pb.ServerRequest) -> pb.ServerResponse:
        """Tell where controllers are: there is this one."""
        return pb.ServerResponse(nodeURI=[self._here])

    # Scopes --------------------------------------------------------------------------------------

    async def create_scope(self, request: pb.ScopeInfo) -> pb.CreateScopeStatus:
        """Make a scope."""
        await self._streams.create_scope(request.scope)
        return pb.CreateScopeStatus(status="SUCCESS")

    async def delete_scope(self, request: pb.ScopeInfo) -> pb.DeleteScopeStatus:
        """Remove an empty scope."""
        await self._streams.delete_scope(request.scope)
        return pb.DeleteScopeStatus(status="SUCCESS")

    async def delete_scope_recursive(self, request: pb.ScopeInfo) -> pb.DeleteScopeStatus:
        """Remove a scope with all that is in it."""
        await self._streams.delete_scope_with_all(request.scope)
        return pb.DeleteScopeStatus(status="SUCCESS")

    async def check_scope_exists(self, request: pb.ScopeInfo) -> pb.ExistsResponse:
        """Tell whether a scope is there."""
        return pb.ExistsResponse(exists=await self._streams.scope_exists(request.scope))

    async def list_scopes(self, request: pb.ScopesRequest) -> pb.ScopesResponse:
        """List scopes, page by page."""
        names, token = answers.page(await self._streams.scopes(), request.continuationToken.token)
        return pb.ScopesResponse(scopes=names, continuationToken=token)

    async def list_streams_in_scope(
        self, request: pb.StreamsInScopeRequest
    ) -> pb.StreamsInScopeResponse:
        """List the streams of a scope, page by page."""
        scope = request.scope.scope
        return _listed(scope, await self._streams.streams(scope), request.continuationToken.token)

    async def list_streams_in_scope_for_tag(
        self, request: pb.StreamsInScopeWithTagRequest
    ) -> pb.StreamsInScopeResponse:
        """List the streams of a scope that have a tag, page by page."""
        scope = request.scope.scope
        return _listed(
            scope,
            await self._streams.streams(scope, tag=request.tag),
            request.continuationToken.token,
        )

    # Streams -------------------------------------------------------------------------------------

    async def create_stream(self, request: pb.StreamConfig) -> pb.CreateStreamStatus:
        """Make a stream."""
        await self._streams.create(
            request.streamInfo.scope, request.streamInfo.stream, answers.config_of(request, least=1)
        )
        return pb.CreateStreamStatus(status="SUCCESS")

    async def update_stream(self, request: pb.StreamConfig) -> pb.UpdateStreamStatus:
        """Change policies and tags."""
        await self._streams.configure(
            request.streamInfo.scope, request.streamInfo.stream, answers.config_of(request)
        )
        return pb.UpdateStreamStatus(status="SUCCESS")

    async def truncate_stream(self, request: pb.StreamCut) -> pb.UpdateStreamStatus:
        """Let a stream begin later."""
        await self._streams.truncate(
            request.streamInfo.scope, request.streamInfo.stream, dict(request.cut)
        )
        return pb.UpdateStreamStatus(status="SUCCESS")

    async def seal_stream(self, request: pb.StreamInfo) -> pb.UpdateStreamStatus:
        """Let a stream take nothing more."""
        await self._streams.seal(request.scope, request.stream)
        return pb.UpdateStreamStatus(status="SUCCESS")

    async def delete_stream(self, request: pb.StreamInfo) -> pb.DeleteStreamStatus:
        """Remove a sealed stream."""
        await self._streams.delete(request.scope, request.stream)
        return pb.DeleteStreamStatus(status="SUCCESS")

    async def check_stream_exists(self, request: pb.StreamInfo) -> pb.ExistsResponse:
        """Tell whether a stream is there."""
        try:
            await self._streams.stream(request.scope, request.stream)
        except (NoSuchScopeError, NoSuchStreamError):
            return pb.ExistsResponse(exists=False)
        return pb.ExistsResponse(exists=True)

    async def get_stream_configuration(self, request: pb.StreamInfo) -> pb.StreamConfig:
        """Tell what a stream's maker asked for."""
        stream = await self._streams.stream(request.scope, request.stream)
        return answers.described(request.scope, request.stream, stream.config)

    async def get_delegation_token(self, request: pb.StreamInfo) -> pb.DelegationToken:
        """Give what the segment store asks for: nothing."""
        return pb.DelegationToken(delegationToken=TOKEN)

    # Segments ------------------------------------------------------------------------------------

    async def get_current_segments(self, request: pb.StreamInfo) -> pb.SegmentRanges:
        """Tell which segments take appends."""
        await self._streams.create_mark(request.scope, request.stream)
        return answers.ranges(
            request,
            layout.current_segments(await self._streams.stream(request.scope, request.stream)),
            TOKEN,
        )

    async def get_epoch_segments(self, request: pb.GetEpochSegmentsRequest) -> pb.SegmentRanges:
        """Tell which segments took appends in an epoch."""
        info = request.streamInfo
        return answers.ranges(
            info,
            layout.segments_in_epoch(
                await self._streams.stream(info.scope, info.stream), request.epoch
            ),
            TOKEN,
        )

    async def get_segments(self, request: pb.GetSegmentsRequest) -> pb.SegmentsAtTime:
        """Tell where a stream begins, or where it was at a time."""
        info = request.streamInfo
        return answers.places(
            info,
            await self._streams.cut_at(info.scope, info.stream, request.timestamp or None),
            TOKEN,
        )

    async def get_segments_immediately_following(
        self, request: pb.SegmentId
    ) -> pb.SuccessorResponse:
        """Tell which segments took a segment's place."""
        info = request.streamInfo
        stream = await self._streams.stream(info.scope, info.stream)
        entries = [
            pb.SuccessorResponse.SegmentEntry(
                segment=answers.segment_range(info, segment), value=before
            )
            for segment, before in layout.successors(stream, request.segmentId)
        ]
        return pb.SuccessorResponse(segments=entries, delegationToken=TOKEN)

    get_segments_immediatly_following = get_segments_immediately_following

    async def get_segments_between(self, request: pb.StreamCutRange) -> pb.StreamCutRangeResponse:
        """Tell which segments have what lies between two places."""
        info = request.streamInfo
        stream = await self._streams.stream(info.scope, info.stream)
        found = [
            answers.segment_id(info, segment.id)
            for segment in layout.segments_between(stream, getattr(request, "from"), request.to)
        ]
        return pb.StreamCutRangeResponse(segments=found, delegationToken=TOKEN)

    async def is_segment_valid(self, request: pb.SegmentId) -> pb.SegmentValidityResponse:
        """Tell whether a segment takes appends."""
        stream = await self._streams.stream(request.streamInfo.scope, request.streamInfo.stream)
        return pb.SegmentValidityResponse(response=answers.is_current(stream, request.segmentId))

    async def is_stream_cut_valid(self, request: pb.StreamCut) -> pb.StreamCutValidityResponse:
        """Tell whether a cut is one place of the stream that it can be read from."""
        stream = await self._streams.stream(request.streamInfo.scope, request.streamInfo.stream)
        try:
            layout.check_cut(stream, request.cut)
        except StreamsError:
            return pb.StreamCutValidityResponse(response=False)
        return pb.StreamCutValidityResponse(response=True)

    async def get_uri(self, request: pb.SegmentId) -> pb.NodeUri:
        """Tell where a segment is: all are in one place."""
        return self._node

    async def scale(self, request: pb.ScaleRequest) -> pb.ScaleResponse:
        """Replace segments.

        The answer names the epoch before, and the new segments; all is done by then.
        """
        info = request.streamInfo
        wanted = [(entry.start, entry.end) for entry in request.newKeyRanges]
        epoch, now = await self._streams.scale(
            info.scope, info.stream, request.sealedSegments, wanted
        )
        new = [
            answers.segment_range(info, segment)
            for segment in now
            if epoch_of_id(segment.id) == epoch
        ]
        return pb.ScaleResponse(status="STARTED", segments=new, epoch=epoch - 1)

    async def check_scale(self, request: pb.ScaleStatusRequest) -> pb.ScaleStatusResponse:
        """Tell whether a scaling is done."""
        stream = await self._streams.stream(request.streamInfo.scope, request.streamInfo.stream)
        if not 0 <= request.epoch < len(stream.epochs):
            raise PreconditionError(f"there was no epoch {request.epoch}")
        return pb.ScaleStatusResponse(status="SUCCESS")

    # Transactions --------------------------------------------------------------------------------

    async def create_transaction(self, request: pb.CreateTxnRequest) -> pb.CreateTxnResponse:
        """Open a transaction."""
        info = request.streamInfo
        found, segments = await self._transactions.begin(info.scope, info.stream, request.lease)
        active = [answers.segment_range(info, segment) for segment in segments]
        return pb.CreateTxnResponse(
            txnId=answers.transaction_id(found), activeSegments=active, delegationToken=TOKEN
        )

    async def ping_transaction(self, request: pb.PingTxnRequest) -> pb.PingTxnStatus:
        """Keep a transaction alive."""
        info = request.streamInfo
        found = await self._transactions.ping(
            info.scope, info.stream, answers.uuid_of(request.txnId), request.lease
        )
        return pb.PingTxnStatus(
            status={"open": "OK", "committed": "COMMITTED"}.get(found.status, "ABORTED")
        )

    async def commit_transaction(self, request: pb.TxnRequest) -> pb.TxnStatus:
        """Put a transaction into its stream, and take note of its time."""
        info, found = request.streamInfo, answers.uuid_of(request.txnId)
        await self._transactions.commit(info.scope, info.stream, found)
        if request.writerId and request.timestamp != _NO_TIME:
            await self._writers.note_committed(
                info.scope, info.stream, request.writerId, request.timestamp, found
            )
        return pb.TxnStatus(status="SUCCESS")

    async def abort_transaction(self, request: pb.TxnRequest) -> pb.TxnStatus:
        """Forget a transaction."""
        info = request.streamInfo
        await self._transactions.abort(info.scope, info.stream, answers.uuid_of(request.txnId))
        return pb.TxnStatus(status="SUCCESS")

    async def check_transaction_state(self, request: pb.TxnRequest) -> pb.TxnState:
        """Tell what became of a transaction."""
        info = request.streamInfo
        found = await self._transactions.state(
            info.scope, info.stream, answers.uuid_of(request.txnId)
        )
        return pb.TxnState(state=found.status.upper())

    async def list_completed_transactions(
        self, request: pb.ListCompletedTxnRequest
    ) -> pb.ListCompletedTxnResponse:
        """Tell how the transactions that are remembered ended."""
        info = request.streamInfo
        ended = await self._transactions.ended(info.scope, info.stream)
        told = [
            pb.TxnResponse(txnId=answers.transaction_id(key), status=found.status.upper())
            for key, found in ended
        ]
        return pb.ListCompletedTxnResponse(response=told)


def _method(method: Method, handler: Handler) -> "grpc.RpcMethodHandler[Any, Any]":
    async def answer(request: Message, context: "grpc.aio.ServicerContext[Any, Any]") -> Message:
        try:
            return await handler(request)
        except StreamsError as error:
            told = status_of(method.answer, error)
            if told is None:
                await context.abort(code_of(error), str(error))
            return told
        except TransientError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except LogdriveError as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))

    return grpc.unary_unary_rpc_method_handler(
        answer, method.request.FromString, lambda found: found.SerializeToString()
    )


def _python_name(name: str) -> str:
    """Return what a method is called here: words in lower case, "URI" being one of them."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name.replace("URI", "Uri"))


def _listed(scope: str, streams: list[str], after: str) -> pb.StreamsInScopeResponse:
    names, token = answers.page(streams, after)
    listed = [pb.StreamInfo(scope=scope, stream=name) for name in names]
    return pb.StreamsInScopeResponse(streams=listed, continuationToken=token, status="SUCCESS")
