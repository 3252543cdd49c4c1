"""Streams, topics and partitions as replies tell them, with their figures.

Lists have estimates, for which nothing is opened; the partitions of a topic that is asked for have
exact figures.
"""

import asyncio
from collections.abc import Iterable

from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.log.partition import SEGMENT_BYTES, PartitionFigures
from logdrive.services.iggy.server.state.tables import IggyStreamState
from logdrive.services.iggy.server.state.topology import FoundTopic
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import NEVER, UNLIMITED
from logdrive.wire.iggy.options import IggyCompression, TopicOptions
from logdrive.wire.iggy.replies import IggyStreamInfo, PartitionInfo, TopicDetails, TopicInfo


def estimates(service: IggyService, topic: FoundTopic) -> list[PartitionFigures]:
    """Return about what the partitions of a topic have."""
    found = (service.logs.estimate(segment) for segment in topic.segments if segment is not None)
    return [figures for figures in found if figures is not None]


def stream_info(
    service: IggyService, owner: IggyStreamState, topics: Iterable[FoundTopic]
) -> IggyStreamInfo:
    """Return a stream as a list tells it."""
    shown = list(topics)
    figures = [one for topic in shown for one in estimates(service, topic)]
    return IggyStreamInfo(
        owner.id,
        owner.stream.created_us,
        len(shown),
        sum(one.size for one in figures),
        sum(one.messages for one in figures),
        owner.name,
    )


def topic_info(topic: FoundTopic, figures: Iterable[PartitionFigures]) -> TopicInfo:
    """Return a topic, with the sums of *figures*."""
    known, options, counted = topic.topic, topic.topic.options, list(figures)
    return TopicInfo(
        known.id,
        known.created_us,
        len(topic.indices),
        sum(one.size for one in counted),
        sum(one.messages for one in counted),
        known.name,
        expiry_us=NEVER if options.expiry_us is None else options.expiry_us,
        compression=options.compression or IggyCompression.NONE,
        max_size=UNLIMITED if options.max_size is None else options.max_size,
        replication=options.replication or 1,
        options=options,
        derived=_derived(options),
    )


def _derived(options: TopicOptions) -> TopicOptions:
    """Return what holds for options that were not given."""
    return TopicOptions(
        compression=IggyCompression.NONE if options.compression is None else None,
        expiry_us=NEVER if options.expiry_us is None else None,
        max_size=UNLIMITED if options.max_size is None else None,
    )


async def topic_details(service: IggyService, topic: FoundTopic) -> TopicDetails:
    """Return a topic and its partitions."""
    figures: dict[int, PartitionFigures] = {}
    for index in topic.indices:
        await asyncio.sleep(0)  # there may be thousands
        if (one := await _exact(service, topic.segment(index))) is not None:
            figures[index] = one
    piece = topic.topic.options.segment_size or SEGMENT_BYTES
    partitions = tuple(
        PartitionInfo(
            index,
            topic.topic.created_us,
            one.segments(piece),
            one.current_offset,
            one.size,
            one.messages,
        )
        for index, one in figures.items()
    )
    return TopicDetails(topic_info(topic, figures.values()), partitions)


async def _exact(service: IggyService, segment: str) -> PartitionFigures | None:
    try:
        return await (await service.logs.open(segment)).figures()
    except IggyError as error:
        if error.reason is Reason.PARTITION_NOT_FOUND:  # deleted at this moment
            return None
        if error.reason is Reason.FEATURE_UNAVAILABLE:  # bytes that are no messages
            return service.logs.estimate(segment)
        raise
