"""Sends and polls."""

import asyncio

from logdrive.services.iggy.server.handlers.consumers import ConsumerPlace, place_to_poll
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.log.appending import DurableSend
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.rights import Right
from logdrive.services.iggy.server.state.topology import FoundTopic
from logdrive.wire.iggy.errors import IggyError, Reason, partition_not_found
from logdrive.wire.iggy.identifiers import ByKey, Partitioning, ToPartition
from logdrive.wire.iggy.limits import FENCED_PARTITION
from logdrive.wire.iggy.messages.batches import frame_sent
from logdrive.wire.iggy.messages.hashing import partition_of_key
from logdrive.wire.iggy.replies import Polled, SendConfirmation
from logdrive.wire.iggy.requests import FlushPartition, PollMessages, SendMessages
from logdrive.wire.iggy.revision import Revision


async def begin_send(
    service: IggyService, session: IggySession, request: SendMessages
) -> "asyncio.Future[object]":
    """Check a send and submit it; return what is done once it is durable."""
    topic = await service.topology.topic(request.stream, request.topic)
    service.check(session, Right.SEND, topic.target)
    batch = frame_sent(session.revision, request.batch, request.count)
    partition = _choose_partition(service, topic, request.partitioning, session.revision)
    log = await service.open_partition(topic, partition)
    submitted = log.submit(batch)
    confirmed: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def confirm(done: "asyncio.Future[DurableSend]") -> None:
        if confirmed.done():
            return
        if done.cancelled():
            confirmed.cancel()
        elif (error := done.exception()) is not None:
            confirmed.set_exception(error)
            confirmed.exception()  # no warning if the connection has ended meanwhile
        else:
            confirmed.set_result(_confirmation(topic, partition, done.result()))

    submitted.add_done_callback(confirm)
    return confirmed


def _confirmation(
    topic: FoundTopic, partition: int, appended: DurableSend
) -> tuple[SendConfirmation, ...]:
    if appended.first_offset is None:  # all were duplicates
        return ()
    return (SendConfirmation(topic.owner.id, topic.topic.id, partition, appended.first_offset),)


def _choose_partition(
    service: IggyService, topic: FoundTopic, partitioning: Partitioning, revision: Revision
) -> int:
    """Return the partition for one send. A sealed one is never chosen, nor accepted."""
    if isinstance(partitioning, ToPartition):
        topic.segment(partitioning.index)
        if partitioning.index not in topic.open:
            raise IggyError(
                Reason.SEGMENT_CLOSED,
                f"partition {partitioning.index} is sealed: its stream was scaled, or ended",
            )
        return partitioning.index
    if not topic.open:
        if topic.indices:
            raise IggyError(Reason.SEGMENT_CLOSED, "the topic is sealed")
        raise IggyError(Reason.NO_PARTITIONS, "the topic has no partitions")
    if isinstance(partitioning, ByKey):
        return topic.open[partition_of_key(revision, partitioning.key, len(topic.open))]
    last = service.balanced.get(topic.key, -1)
    chosen = next((index for index in topic.open if index > last), topic.open[0])
    service.balanced[topic.key] = chosen
    return chosen


async def poll(service: IggyService, session: IggySession, request: PollMessages) -> Polled:
    """Return messages of one partition; with auto_commit the last one's offset is in force."""
    topic = await service.topology.topic(request.stream, request.topic)
    try:
        service.check(session, Right.POLL, topic.target)
    except IggyError:
        # who may poll no more keeps no partition from the other members
        service.members.leave_topic(topic, session.client_id)
        raise
    place = place_to_poll(service, session, topic, request.consumer, request.partition)
    if place is None:  # a member of a group with more members than partitions
        return Polled(0, 0, 0)
    log = await service.open_partition(topic, place.partition)
    polled = await log.poll(
        session.revision,
        request.strategy,
        request.count,
        partition=place.partition,
        stored=service.offsets.get(place.segment, place.key),
        wait_for_memory=session.wait_for_answer,
    )
    if polled.last_offset is None:
        return _fenced(session, place) or polled.reply
    if request.auto_commit:
        service.offsets.note(place.segment, place.key, polled.last_offset)
        if place.group is not None:
            place.group.on_committed(place.partition, polled.last_offset)
    elif place.group is not None:
        place.group.on_polled(place.partition, polled.last_offset)
    return polled.reply


def _fenced(session: IggySession, place: ConsumerPlace) -> Polled | None:
    """Return the reply that tells a member of R3 to ask for its partitions again."""
    if session.revision < Revision.R3 or place.group is None:
        return None
    member = place.group.members.get(session.client_id)
    if member is None or member.synced == place.group.generation:
        return None
    return Polled(FENCED_PARTITION, 0, 0)


async def flush(service: IggyService, session: IggySession, request: FlushPartition) -> None:
    """Do nothing: what is acknowledged is on disk."""
    topic = await service.topology.topic(request.stream, request.topic)
    service.check(session, Right.SEND, topic.target)
    if session.revision >= Revision.R3:
        raise IggyError(Reason.FEATURE_UNAVAILABLE, "acknowledged messages are on disk")
    if request.partition not in topic.indices:
        raise partition_not_found(request.partition)
