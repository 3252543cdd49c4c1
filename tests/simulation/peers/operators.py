"""An operator at a store's controller, who scales the stream and deletes its past."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from random import Random

from logdrive.errors import LogdriveError
from logdrive.services.pravega.client.controller import ControllerClient, StreamSegment
from logdrive.services.pravega.client.controller_grpc import GrpcController
from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.simulation.hosts.programs import CONTROLLER_PORT, SCOPE, STREAM
from tests.support.memory.rpc import reaching
from tests.support.memory.transport import MemoryNetwork

OPERATOR = "operator"
_MOST_SEGMENTS = 6  # a stream with so many is not split


async def scale(network: MemoryNetwork, store: str, how: str, pick: Random) -> None:
    """Ask once for the stream to be scaled; failures of the controller are ignored."""
    async with reaching(network.host(OPERATOR))(store, CONTROLLER_PORT, None, None) as controller:
        # a store that is away, a stream not made yet, or scaled by another meanwhile
        with suppress(LogdriveError):
            await scaled(controller, how, pick)


async def scaled(
    controller: ControllerClient, how: str, pick: Random, *, stream: str = STREAM
) -> Sequence[StreamSegment]:
    """Split one segment, merge two, or replace all; return those that were replaced.

    Raises what the controller raises.
    """
    assert isinstance(controller, GrpcController)
    now = sorted(await controller.current_segments(SCOPE, stream), key=lambda segment: segment.low)
    sealed, bounds = _change(now, how, pick)
    ranges = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in pairwise(bounds)]
    info = pb.StreamInfo(scope=SCOPE, stream=stream)
    request = pb.ScaleRequest(
        streamInfo=info, sealedSegments=[segment.id for segment in sealed], newKeyRanges=ranges
    )
    await controller.call_method("scale", request, pb.ScaleResponse)
    return sealed


def _change(
    now: Sequence[StreamSegment], how: str, pick: Random
) -> tuple[Sequence[StreamSegment], list[float]]:
    """Return the segments to replace, and the bounds of the key ranges that replace them."""
    if how == "split" and len(now) < _MOST_SEGMENTS:
        one = pick.choice(now)
        return [one], [one.low, (one.low + one.high) / 2, one.high]
    if how == "merge" and len(now) > 1:
        first = pick.randrange(len(now) - 1)
        sealed = list(now[first : first + 2])
        return sealed, [sealed[0].low, sealed[1].high]
    return now, [0.0, pick.choice((0.25, 0.5, 0.7)), 1.0]


async def give_up_the_past(controller: ControllerClient, *, stream: str = STREAM) -> None:
    """Delete all segments before those that the stream has now.

    Raises what the controller raises.
    """
    assert isinstance(controller, GrpcController)
    cut = {segment.id: 0 for segment in await controller.current_segments(SCOPE, stream)}
    info = pb.StreamInfo(scope=SCOPE, stream=stream)
    await controller.call_method(
        "truncateStream", pb.StreamCut(streamInfo=info, cut=cut), pb.UpdateStreamStatus
    )
