"""Streams: listed, created, renamed, emptied, deleted."""

from logdrive.services.iggy.server.handlers.figures import estimates, stream_info, topic_info
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.names import requested_name
from logdrive.services.iggy.server.state.rights import Right, RightTarget, new_stream_target
from logdrive.services.iggy.server.state.topology import FoundTopic
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
    # grants may be for some of them only
    topics = [topic for topic in topics if _may_read(service, session, topic)]
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
    name = _name(request.name, session)
    service.check(session, Right.MANAGE_STREAM, new_stream_target(name))
    owner = await service.changes.create_stream(name, request.id)
    return stream_info(service, owner, ())


async def rename_stream(service: IggyService, session: IggySession, request: UpdateStream) -> None:
    """Give a stream another name."""
    target = await service.topology.target(request.stream)
    service.check(session, Right.MANAGE_STREAM, target)
    name = _name(request.name, session)
    if name != (await service.topology.stream(request.stream)).name:
        # else it could be put where others send to the stream of that name
        service.check(session, Right.MANAGE_STREAM, new_stream_target(name, target.stream_id))
    await service.changes.rename_stream(request.stream, name)


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


def _may_read(service: IggyService, session: IggySession, topic: FoundTopic) -> bool:
    assert session.user_id is not None
    return service.users.permits(session.user_id, Right.READ_TOPIC, topic.target)


def _name(name: str, session: IggySession) -> str:
    if (wanted := requested_name(name, session.revision)) is None:
        raise IggyError(Reason.INVALID_STREAM_NAME, "a stream's name has 1 to 255 bytes")
    return wanted
