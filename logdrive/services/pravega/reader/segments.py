"""Where a stream's segments are, for readers: all at a segment store, or wherever a controller
says.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from logdrive.net.stream import Transport
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import SegmentClient, SegmentState, connected
from logdrive.services.pravega.client.controller import (
    Controllers,
    SegmentStoreAddress,
    StreamSegment,
    UnknownStreamError,
    predecessors_of,
)
from logdrive.services.pravega.client.discovery import is_controller
from logdrive.services.pravega.client.grpc_extra import over_grpc
from logdrive.services.pravega.client.writers import TokenOf
from logdrive.services.pravega.reader.journal import named_segments
from logdrive.services.pravega.reader.stream import ReadableSegment, segments_of
from logdrive.wire.pravega.names import SegmentName


@dataclass(frozen=True, slots=True)
class SegmentLocations:
    """A segment, what it is like, and the segment store that has it."""

    number: int
    state: SegmentState
    home: Target


async def locate_segments(
    transport: Transport,
    target: Target,
    scope: str,
    stream: str,
    *,
    update: bool = False,
    controllers: Controllers = over_grpc,
) -> list[SegmentLocations]:
    """Return the segments that a stream still has, by number; none for one that is not there.

    Their homes let whoever comes read, or *update*. Raises `TransientError`, `ConfigError`,
    `RefusedError`.
    """
    if not await is_controller(transport, target):
        async with connected(
            transport, target.host, target.port, target.tls, token=target.token_of
        ) as client:
            states = await segments_at(client, scope, stream)
        return [
            SegmentLocations(SegmentName.parse(state.segment).number, state, target)
            for state in states
        ]
    async with controllers(target.host, target.port, target.tls, target.login) as controller:
        try:
            past = await predecessors_of(controller, scope, stream)
        except UnknownStreamError:
            return []
        token = await controller.token(scope, stream, update=update)
        found: list[SegmentLocations] = []
        for id_ in dict.fromkeys((*past.oldest, *past.later)):
            segment = StreamSegment(scope, stream, id_, 0.0, 1.0)
            home = home_of(target, await controller.endpoint(segment), token)
            async with connected(
                transport, home.host, home.port, home.tls, token=home.token_of
            ) as client:
                state = await client.segment_info(segment.name)
            if state is not None:
                found.append(SegmentLocations(segment.number, state, home))
    return sorted(found, key=lambda one: one.number)


async def segments_at(client: SegmentClient, scope: str, stream: str) -> list[SegmentState]:
    """Return the segments that a stream has at a segment store, of all epochs that the store's own
    controller made, by number.
    """
    names = await named_segments(client, scope, stream)
    if names is None:
        return await segments_of(client, scope, stream)
    found = [await client.segment_info(name) for name in names]
    return sorted(
        (state for state in found if state is not None),
        key=lambda state: SegmentName.parse(state.segment).number,
    )


@contextlib.asynccontextmanager
async def readable(
    transport: Transport, there: Sequence[SegmentLocations], token: TokenOf | None = None
) -> AsyncIterator[list[ReadableSegment]]:
    """Connect once to each segment store that has some of a stream's segments; yield these with the
    client to ask for each.

    *token* tells the tokens, where those of the places may end meanwhile.
    """
    clients: dict[Target, SegmentClient] = {}
    async with contextlib.AsyncExitStack() as stack:
        for home in dict.fromkeys(one.home for one in there):
            connecting = connected(
                transport, home.host, home.port, home.tls, token=token or home.token_of
            )
            clients[home] = await stack.enter_async_context(connecting)
        yield [ReadableSegment(clients[one.home], one.state) for one in there]


def home_of(target: Target, endpoint: SegmentStoreAddress, token: str) -> Target:
    """Return how to connect to a segment store that the controller at *target* named, and gave
    *token* for.
    """
    return Target(endpoint.host, endpoint.port, target.tls, token)
