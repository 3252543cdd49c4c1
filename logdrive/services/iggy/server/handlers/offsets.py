"""Offsets of consumers: asked for, stored, deleted."""

from logdrive.services.iggy.server.handlers.consumers import place_of_offset
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.rights import Right
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.replies import ConsumerOffset
from logdrive.wire.iggy.requests import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from logdrive.wire.iggy.revision import Revision


async def get_offset(
    service: IggyService, session: IggySession, request: GetConsumerOffset
) -> ConsumerOffset | None:
    """Return the stored offset; where none is stored, 0 in R0, nothing later."""
    topic = await service.topology.topic(request.stream, request.topic)
    service.check(session, Right.POLL, topic.target)
    place = place_of_offset(service, session, topic, request.consumer, request.partition)
    stored = service.offsets.get(place.segment, place.key)
    if stored is None and session.revision >= Revision.R1:
        return None
    figures = await (await service.open_partition(topic, place.partition)).figures()
    return ConsumerOffset(place.partition, figures.current_offset, stored or 0)


async def store_offset(
    service: IggyService, session: IggySession, request: StoreConsumerOffset
) -> None:
    """Store an offset, durable before the reply."""
    topic = await service.topology.topic(request.stream, request.topic)
    service.check(session, Right.POLL, topic.target)
    place = place_of_offset(service, session, topic, request.consumer, request.partition)
    figures = await (await service.open_partition(topic, place.partition)).figures()
    if request.offset > figures.current_offset:
        raise IggyError(
            Reason.INVALID_OFFSET,
            f"the newest message has offset {figures.current_offset}, not {request.offset}",
        )
    await service.offsets.put(place.segment, place.key, request.offset)
    if place.group is not None:
        place.group.on_committed(place.partition, request.offset)


async def delete_offset(
    service: IggyService, session: IggySession, request: DeleteConsumerOffset
) -> None:
    """Delete a stored offset."""
    topic = await service.topology.topic(request.stream, request.topic)
    service.check(session, Right.POLL, topic.target)
    place = place_of_offset(service, session, topic, request.consumer, request.partition)
    if service.offsets.get(place.segment, place.key) is None:
        raise IggyError(Reason.OFFSET_NOT_FOUND, "no offset is stored for the consumer")
    await service.offsets.put(place.segment, place.key, None)
