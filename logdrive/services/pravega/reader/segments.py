"""Locates a stream's segments for readers: at one segment store, or where the controller says."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from logdrive.host.transport import Transport
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.client.controller import (
    Controllers,
    SegmentStoreAddress,
    StreamSegment,
    UnknownStreamError,
    read_segment_graph,
)
from logdrive.services.pravega.client.discovery import is_controller
from logdrive.services.pravega.client.grpc_extra import connect_controller
from logdrive.services.pravega.client.writers import TokenOf
from logdrive.services.pravega.reader.journal import segments_in_journal
from logdrive.services.pravega.reader.stream import ReadableSegment, list_first_segments
from logdrive.services.reader import SegmentState
from logdrive.wire.pravega.names import SegmentName


@dataclass(frozen=True, slots=True)
class SegmentLocation:
    """A segment, its state, and the segment store that has it."""

    number: int
    state: SegmentState
    target: Target


async def locate_segments(
    transport: Transport,
    target: Target,
    scope: str,
    stream: str,
    *,
    update: bool = False,
    controllers: Controllers = connect_controller,
) -> list[SegmentLocation]:
    """Return the segments that a stream still has, ordered by number; none if there is no stream.

    With *update*, the tokens in their targets allow updates, too. Raises `TransientError`,
    `ConfigError` and `RequestRefusedError`.
    """
    if not await is_controller(transport, target):
        async with connect_segment_store(
            transport, target.host, target.port, target.tls, token=target.token_of
        ) as client:
            states = await list_segments_at_store(client, scope, stream)
        return [
            SegmentLocation(SegmentName.parse(state.segment).number, state, target)
            for state in states
        ]
    async with controllers(target.host, target.port, target.tls, target.login) as controller:
        try:
            past = await read_segment_graph(controller, scope, stream)
        except UnknownStreamError:
            return []
        token = await controller.delegation_token(scope, stream, update=update)
        locations: list[SegmentLocation] = []
        for id_ in dict.fromkeys((*past.oldest, *past.later)):
            segment = StreamSegment(scope, stream, id_, 0.0, 1.0)
            home = segment_store_target(target, await controller.locate_segment(segment), token)
            async with connect_segment_store(
                transport, home.host, home.port, home.tls, token=home.token_of
            ) as client:
                state = await client.segment_info(segment.name)
            if state is not None:  # else retention deleted it since the controller was asked
                locations.append(SegmentLocation(segment.number, state, home))
    return sorted(locations, key=lambda one: one.number)


async def list_segments_at_store(
    client: SegmentClient, scope: str, stream: str
) -> list[SegmentState]:
    """Return the states of a stream's segments at a segment store, ordered by number.

    Without a journal of the store's own controller, only segments of epoch 0 are found.
    """
    names = await segments_in_journal(client, scope, stream)
    if names is None:
        return await list_first_segments(client, scope, stream)
    states = [await client.segment_info(name) for name in names]
    return sorted(
        (state for state in states if state is not None),
        key=lambda state: SegmentName.parse(state.segment).number,
    )


@contextlib.asynccontextmanager
async def connect_segments(
    transport: Transport, locations: Sequence[SegmentLocation], token: TokenOf | None = None
) -> AsyncIterator[list[ReadableSegment]]:
    """Connect once to each segment store in *locations*; yield the segments with their clients.

    *token* returns tokens that are kept fresh; the default are the tokens in the targets, which
    expire.
    """
    clients: dict[Target, SegmentClient] = {}
    async with contextlib.AsyncExitStack() as stack:
        for home in dict.fromkeys(one.target for one in locations):
            connecting = connect_segment_store(
                transport, home.host, home.port, home.tls, token=token or home.token_of
            )
            clients[home] = await stack.enter_async_context(connecting)
        yield [ReadableSegment(clients[one.target], one.state) for one in locations]


def segment_store_target(target: Target, endpoint: SegmentStoreAddress, token: str) -> Target:
    """Return the target for a segment store that the controller at *target* named.

    It has the controller's TLS settings, and *token*, which the controller issued.
    """
    return Target(endpoint.host, endpoint.port, target.tls, token)
