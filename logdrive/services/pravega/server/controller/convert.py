"""Streams as a controller's messages describe them, both ways."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from logdrive.store.streams.errors import PreconditionError
from logdrive.store.streams.key_ranges import current_segments
from logdrive.store.streams.state import Segment, Stream, StreamConfig
from logdrive.wire.pravega.controller import controller_pb2 as pb

_HALF = (1 << 64) - 1
_PAGE = 1000


def config_of(config: pb.StreamConfig, *, least: int = 0) -> StreamConfig:
    """Return what a client asks for; one that says nothing of segments gets *least*.

    Raises `PreconditionError` for unknown policies.
    """
    scaling, retention = config.scalingPolicy, config.retentionPolicy
    known = (
        pb.ScalingPolicy.ScalingPolicyType.values(),
        pb.RetentionPolicy.RetentionPolicyType.values(),
    )
    if scaling.scaleType not in known[0] or retention.retentionType not in known[1]:
        raise PreconditionError(
            f"policies {scaling.scaleType} and {retention.retentionType} are not known here"
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


def described(scope: str, stream: str, config: StreamConfig) -> pb.StreamConfig:
    """Return what a stream's maker asked for."""
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


def segment_id(info: pb.StreamInfo, segment: int) -> pb.SegmentId:
    """Return how clients name a segment."""
    return pb.SegmentId(
        streamInfo=pb.StreamInfo(scope=info.scope, stream=info.stream), segmentId=segment
    )


def segment_range(info: pb.StreamInfo, segment: Segment) -> pb.SegmentRange:
    """Return a segment with its keys."""
    return pb.SegmentRange(
        segmentId=segment_id(info, segment.id), minKey=segment.low, maxKey=segment.high
    )


def ranges(info: pb.StreamInfo, segments: Iterable[Segment], token: str) -> pb.SegmentRanges:
    """Return segments with their keys, in the order of these."""
    found = sorted(segments, key=lambda segment: segment.low)
    return pb.SegmentRanges(
        segmentRanges=[segment_range(info, segment) for segment in found], delegationToken=token
    )


def places(info: pb.StreamInfo, cut: Mapping[int, int], token: str) -> pb.SegmentsAtTime:
    """Return one place of a stream."""
    located = [
        pb.SegmentsAtTime.SegmentLocation(segmentId=segment_id(info, key), offset=offset)
        for key, offset in cut.items()
    ]
    return pb.SegmentsAtTime(segments=located, delegationToken=token)


def is_current(stream: Stream, segment: int) -> bool:
    """Tell whether *segment* takes appends."""
    return any(found.id == segment for found in current_segments(stream))


def uuid_of(found: pb.TxnId) -> UUID:
    """Return a transaction's id."""
    return UUID(int=(found.highBits & _HALF) << 64 | found.lowBits & _HALF)


def transaction_id(found: UUID) -> pb.TxnId:
    """Return how clients name a transaction: two signed halves."""
    return pb.TxnId(highBits=_signed(found.int >> 64), lowBits=_signed(found.int & _HALF))


def page(names: list[str], after: str) -> tuple[list[str], pb.ContinuationToken]:
    """Return the names that follow the one in the token, and the token for those behind them.

    After the last it repeats itself.
    """
    found = [name for name in names if name > after][:_PAGE]
    return found, pb.ContinuationToken(token=found[-1] if found else after)


def _signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half
