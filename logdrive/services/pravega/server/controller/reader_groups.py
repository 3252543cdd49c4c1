"""The controller's methods for reader groups and subscribers
(docs/protocols/pravega-controller.md).
"""

from logdrive.services.pravega.server.streams.reader_groups import ReaderGroups
from logdrive.store.streams.state import ReaderGroup, StreamCut
from logdrive.wire.pravega.controller import controller_pb2 as pb


class ReaderGroupMethods:
    """Answers calls about the reader groups of one store."""

    def __init__(self, groups: ReaderGroups) -> None:
        self._groups = groups

    async def create_reader_group(
        self, request: pb.ReaderGroupConfiguration
    ) -> pb.CreateReaderGroupResponse:
        """Create a group, or return the existing one, for the client to compare."""
        group = await self._groups.create_group(
            request.scope, request.readerGroupName, _parse_group(request, generation=0)
        )
        return pb.CreateReaderGroupResponse(
            status="SUCCESS", config=_group_message(request.scope, request.readerGroupName, group)
        )

    async def get_reader_group_config(
        self, request: pb.ReaderGroupInfo
    ) -> pb.ReaderGroupConfigResponse:
        """Return a group's configuration."""
        group = await self._groups.get_group(request.scope, request.readerGroup)
        return pb.ReaderGroupConfigResponse(
            status="SUCCESS", config=_group_message(request.scope, request.readerGroup, group)
        )

    async def update_reader_group(
        self, request: pb.ReaderGroupConfiguration
    ) -> pb.UpdateReaderGroupResponse:
        """Change which streams a group reads, or where it starts and ends."""
        group = await self._groups.update_group(
            request.scope,
            request.readerGroupName,
            _parse_group(request, generation=request.generation),
        )
        return pb.UpdateReaderGroupResponse(status="SUCCESS", generation=group.generation)

    async def delete_reader_group(self, request: pb.ReaderGroupInfo) -> pb.DeleteReaderGroupStatus:
        """Delete a group."""
        await self._groups.delete_group(request.scope, request.readerGroup, request.readerGroupId)
        return pb.DeleteReaderGroupStatus(status="SUCCESS")

    async def list_subscribers(self, request: pb.StreamInfo) -> pb.SubscribersResponse:
        """List the groups that hold a stream's retention back."""
        return pb.SubscribersResponse(
            status="SUCCESS",
            subscribers=await self._groups.list_subscribers(request.scope, request.stream),
        )

    async def update_subscriber_stream_cut(
        self, request: pb.SubscriberStreamCut
    ) -> pb.UpdateSubscriberStatus:
        """Record how far a group has read a stream."""
        info, cut = request.streamCut.streamInfo, dict(request.streamCut.cut)
        await self._groups.update_read_cut(
            request.subscriber,
            request.readerGroupId,
            request.generation,
            info.scope,
            info.stream,
            cut,
        )
        return pb.UpdateSubscriberStatus(status="SUCCESS")


def _parse_group(request: pb.ReaderGroupConfiguration, *, generation: int) -> ReaderGroup:
    return ReaderGroup(
        id=request.readerGroupId,
        generation=generation,
        refresh_ms=request.groupRefreshTimeMillis,
        checkpoint_ms=request.automaticCheckpointIntervalMillis,
        outstanding=request.maxOutstandingCheckpointRequest,
        retention_type=request.retentionType,
        rollover_bytes=request.rolloverSizeBytes,
        starting=tuple(
            StreamCut(cut.streamInfo.scope, cut.streamInfo.stream, dict(cut.cut))
            for cut in request.startingStreamCuts
        ),
        ending=tuple(
            StreamCut(cut.streamInfo.scope, cut.streamInfo.stream, dict(cut.cut))
            for cut in request.endingStreamCuts
        ),
    )


def _group_message(scope: str, name: str, group: ReaderGroup) -> pb.ReaderGroupConfiguration:
    return pb.ReaderGroupConfiguration(
        scope=scope,
        readerGroupName=name,
        groupRefreshTimeMillis=group.refresh_ms,
        automaticCheckpointIntervalMillis=group.checkpoint_ms,
        maxOutstandingCheckpointRequest=group.outstanding,
        retentionType=group.retention_type,
        generation=group.generation,
        readerGroupId=group.id,
        startingStreamCuts=[_cut_message(cut) for cut in group.starting],
        endingStreamCuts=[_cut_message(cut) for cut in group.ending],
        rolloverSizeBytes=group.rollover_bytes,
    )


def _cut_message(cut: StreamCut) -> pb.StreamCut:
    return pb.StreamCut(streamInfo=pb.StreamInfo(scope=cut.scope, stream=cut.stream), cut=cut.at)
