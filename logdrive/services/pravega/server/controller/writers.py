"""The controller's methods for the times that writers note
(docs/protocols/pravega-controller.md).
"""

from logdrive.services.pravega.server.streams.writer_times import WriterTimes
from logdrive.wire.pravega.controller import controller_pb2 as pb


class WriterMethods:
    """Answers calls about the writers of one store."""

    def __init__(self, writers: WriterTimes) -> None:
        self._writers = writers

    async def note_timestamp_from_writer(
        self, request: pb.TimestampFromWriter
    ) -> pb.TimestampResponse:
        """Record a writer's time and position."""
        info, position = request.position.streamInfo, dict(request.position.cut)
        await self._writers.note_time(
            info.scope, info.stream, request.writer, request.timestamp, position
        )
        return pb.TimestampResponse(result="SUCCESS")

    async def remove_writer(self, request: pb.RemoveWriterRequest) -> pb.RemoveWriterResponse:
        """Stop waiting for a writer's times."""
        await self._writers.remove_writer(
            request.stream.scope, request.stream.stream, request.writer
        )
        return pb.RemoveWriterResponse(result="SUCCESS")
