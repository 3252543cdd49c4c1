"""Where a stream's segments are, for readers: all at a segment store, or wherever a controller says."""

from dataclasses import dataclass

from logdrive.net.stream import Transport
from logdrive.sinks.blocking import Target
from logdrive.sinks.controller import Controllers, Endpoint, NoSuchStreamError, StreamSegment, over_grpc, past_of
from logdrive.sinks.pravega_client import SegmentState, connected
from logdrive.sinks.pravega_discovery import is_controller
from logdrive.sinks.stream_reader import segments_of


@dataclass(frozen=True, slots=True)
class Placed:
    """A segment, what it is like, and the segment store that has it."""

    number: int
    state: SegmentState
    home: Target


async def placed(
    transport: Transport, target: Target, scope: str, stream: str, *, update: bool = False, controllers: Controllers = over_grpc
) -> list[Placed]:
    """Return the segments that a stream still has, by number; none for one that is not there.

    Their homes let whoever comes read, or *update*. Raises `TransientError`, `ConfigError`, `RefusedError`.
    """
    if not await is_controller(transport, target):
        async with connected(transport, target.host, target.port, target.tls, token=target.token_of) as client:
            states = await segments_of(client, scope, stream)
        return [Placed(number, state, target) for number, state in enumerate(states)]
    async with controllers(target.host, target.port, target.tls, target.login) as controller:
        try:
            past = await past_of(controller, scope, stream)
        except NoSuchStreamError:
            return []
        token = await controller.token(scope, stream, update=update)
        found: list[Placed] = []
        for id_ in dict.fromkeys((*past.oldest, *past.later)):
            segment = StreamSegment(scope, stream, id_, 0.0, 1.0)
            home = home_of(target, await controller.endpoint(segment), token)
            async with connected(transport, home.host, home.port, home.tls, token=home.token_of) as client:
                state = await client.segment_info(segment.name)
            if state is not None:
                found.append(Placed(segment.number, state, home))
    return sorted(found, key=lambda one: one.number)


def home_of(target: Target, endpoint: Endpoint, token: str) -> Target:
    """Return how to connect to a segment store that the controller at *target* named, and gave *token* for."""
    return Target(endpoint.host, endpoint.port, target.tls, token)
