"""Streams: listed, created, renamed, emptied, deleted."""

from logdrive.services.iggy.server.handlers.figures import estimates, stream_info, topic_info
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.names import requested_name
from logdrive.services.iggy.server.state.rights import Right, RightTarget
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.replies import IggyStreamInfo, StreamDetails
from logdrive.wire.iggy.requests import (
    DeleteStream,
    GetStream,
    GetStreams,
    IggyCreateStream,
    PurgeStream,
    UpdateStream,
)


async def get_stream(
    service: IggyService, session: IggySession, request: GetStream
) -> StreamDetails:
    """Return a stream and its topics."""
    topics = await service.topology.topics(request.stream)
    service.check(session, Right.READ_STREAM, await service.topology.target(request.stream))
    owner = await service.topology.stream(request.stream)
    return StreamDetails(
        stream_info(service, owner, topics),
        tuple(topic_info(topic, estimates(service, topic)) for topic in topics),
    )


async def get_streams(
    service: IggyService, session: IggySession, request: GetStreams
) -> tuple[IggyStreamInfo, ...]:
    """Return the streams that the user may read; refused if that is none of those there are."""
    assert session.user_id is not None
    there = await service.topology.all_streams()
    shown = [
        (scope, owner)
        for scope, owner in there
        if service.users.permits(session.user_id, Right.READ_STREAM, RightTarget(scope, owner.id))
    ]
    if not shown:
        service.check(session, Right.READ_STREAM)
    return tuple(
        stream_info(service, owner, service.topology.known_topics(scope, owner))
        for scope, owner in shown
    )


async def create_stream(
    service: IggyService, session: IggySession, request: IggyCreateStream
) -> IggyStreamInfo:
    """Create a stream."""
    service.check(session, Right.MANAGE_STREAM)
    owner = await service.changes.create_stream(_name(request.name, session), request.id)
    return stream_info(service, owner, ())


async def rename_stream(service: IggyService, session: IggySession, request: UpdateStream) -> None:
    """Give a stream another name."""
    service.check(session, Right.MANAGE_STREAM, await service.topology.target(request.stream))
    await service.changes.rename_stream(request.stream, _name(request.name, session))


async def delete_stream(service: IggyService, session: IggySession, request: DeleteStream) -> None:
    """Delete a stream with its topics."""
    target = await service.topology.target(request.stream)
    service.check(session, Right.MANAGE_STREAM, target)
    segments = await service.changes.delete_stream(request.stream)
    service.members.drop(target.scope)
    await service.offsets.forget(segments)


async def purge_stream(service: IggyService, session: IggySession, request: PurgeStream) -> None:
    """Delete all messages of all topics."""
    service.check(session, Right.MANAGE_STREAM, await service.topology.target(request.stream))
    for topic in await service.topology.topics(request.stream):
        for segment in topic.segments:
            if segment is not None:
                await service.empty(segment)


def _name(name: str, session: IggySession) -> str:
    if (wanted := requested_name(name, session.revision)) is None:
        raise IggyError(Reason.INVALID_STREAM_NAME, "a stream's name has 1 to 255 bytes")
    return wanted
