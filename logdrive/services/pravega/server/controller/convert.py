"""Conversions between the controller's messages and our types."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from logdrive.store.streams.errors import PreconditionError
from logdrive.store.streams.key_ranges import open_segments
from logdrive.store.streams.state import Segment, Stream, StreamConfig
from logdrive.wire.pravega.controller import controller_pb2 as pb

NO_TOKEN: Final = ""
"""The delegation token in answers where clients need no login."""
_HALF = (1 << 64) - 1  # mask of 64 bits
_PAGE = 1000  # names in one answer


def parse_stream_config(config: pb.StreamConfig, *, least: int = 0) -> StreamConfig:
    """Return a stream's configuration, with at least *least* segments.

    Raises `PreconditionError` for unknown policies.
    """
    scaling, retention = config.scalingPolicy, config.retentionPolicy
    known = (
        pb.ScalingPolicy.ScalingPolicyType.values(),
        pb.RetentionPolicy.RetentionPolicyType.values(),
    )
    if scaling.scaleType not in known[0] or retention.retentionType not in known[1]:
        raise PreconditionError(
            f"policies {scaling.scaleType} and {retention.retentionType} are unknown"
        )
    return StreamConfig(
        scale_type=scaling.scaleType,
        target_rate=scaling.targetRate,
        scale_factor=scaling.scaleFactor,
        min_segments=max(scaling.minNumSegments, least),
        retention_type=retention.retentionType,
        retention_param=retention.retentionParam,
        retention_max=retention.retentionMax,
        tags=tuple(config.tags.tag),
        timestamp_aggregation_ms=config.timestampAggregationTimeout,
        rollover_bytes=config.rolloverSizeBytes,
    )


def stream_config_message(scope: str, stream: str, config: StreamConfig) -> pb.StreamConfig:
    """Return the configuration of a stream as a message."""
    return pb.StreamConfig(
        streamInfo=pb.StreamInfo(scope=scope, stream=stream),
        scalingPolicy=pb.ScalingPolicy(
            scaleType=pb.ScalingPolicy.ScalingPolicyType.Name(config.scale_type),
            targetRate=config.target_rate,
            scaleFactor=config.scale_factor,
            minNumSegments=config.min_segments,
        ),
        retentionPolicy=pb.RetentionPolicy(
            retentionType=pb.RetentionPolicy.RetentionPolicyType.Name(config.retention_type),
            retentionParam=config.retention_param,
            retentionMax=config.retention_max,
        ),
        tags=pb.Tags(tag=config.tags),
        timestampAggregationTimeout=config.timestamp_aggregation_ms,
        rolloverSizeBytes=config.rollover_bytes,
    )


def segment_id_message(info: pb.StreamInfo, segment: int) -> pb.SegmentId:
    """Return a segment's id as a message."""
    return pb.SegmentId(
        streamInfo=pb.StreamInfo(scope=info.scope, stream=info.stream), segmentId=segment
    )


def segment_range_message(info: pb.StreamInfo, segment: Segment) -> pb.SegmentRange:
    """Return a segment with its key range as a message."""
    return pb.SegmentRange(
        segmentId=segment_id_message(info, segment.id), minKey=segment.low, maxKey=segment.high
    )


def segment_ranges_message(
    info: pb.StreamInfo, segments: Iterable[Segment], token: str
) -> pb.SegmentRanges:
    """Return segments as a message, in the order of their key ranges."""
    ordered = sorted(segments, key=lambda segment: segment.low)
    return pb.SegmentRanges(
        segmentRanges=[segment_range_message(info, segment) for segment in ordered],
        delegationToken=token,
    )


def segments_at_time_message(
    info: pb.StreamInfo, cut: Mapping[int, int], token: str
) -> pb.SegmentsAtTime:
    """Return a stream cut (offsets by segment id) as a message."""
    located = [
        pb.SegmentsAtTime.SegmentLocation(segmentId=segment_id_message(info, key), offset=offset)
        for key, offset in cut.items()
    ]
    return pb.SegmentsAtTime(segments=located, delegationToken=token)


def is_current_segment(stream: Stream, segment: int) -> bool:
    """Return whether *segment* accepts appends: it is in the stream's current epoch."""
    return any(each.id == segment for each in open_segments(stream))


def parse_transaction_id(message: pb.TxnId) -> UUID:
    """Return a transaction's id from its two signed halves."""
    return UUID(int=(message.highBits & _HALF) << 64 | message.lowBits & _HALF)


def transaction_id_message(transaction: UUID) -> pb.TxnId:
    """Return a transaction's id as a message: two signed halves."""
    return pb.TxnId(
        highBits=_signed(transaction.int >> 64), lowBits=_signed(transaction.int & _HALF)
    )


def page_of_names(names: list[str], after: str) -> tuple[list[str], pb.ContinuationToken]:
    """Return the next page of *names* (sorted) after *after*, and the token for the page after it.

    The token is the last name returned; after the last page it stays the same.
    """
    page = [name for name in names if name > after][:_PAGE]
    return page, pb.ContinuationToken(token=page[-1] if page else after)


def _signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half
