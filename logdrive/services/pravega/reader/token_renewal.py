"""Keeps the token of a stream fresh for long-running readers, such as `store cat --follow`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from logdrive.host.clock import Clock
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.controller import Controllers
from logdrive.services.pravega.client.grpc_extra import connect_controller
from logdrive.services.pravega.client.tokens import StreamTokens
from logdrive.services.pravega.client.writers import TokenOf
from logdrive.services.pravega.reader.segments import SegmentLocation
from logdrive.wire.pravega.names import scope_and_stream


@contextlib.asynccontextmanager
async def renew_tokens(
    target: Target,
    locations: Sequence[SegmentLocation],
    *,
    clock: Clock,
    update: bool = False,
    controllers: Controllers = connect_controller,
) -> AsyncIterator[TokenOf | None]:
    """Yield a function that returns a fresh token for *locations*, the segments of one stream.

    *target* is the controller that located them. Yields None if it issues no tokens. Raises
    `TransientError`, `ConfigError` and `RequestRefusedError`.
    """
    if target.login is None or not any(one.target.token for one in locations):
        yield None
        return
    scope, stream = scope_and_stream(locations[0].state.segment)
    async with controllers(target.host, target.port, target.tls, target.login) as controller:
        tokens = StreamTokens(controller, clock, update=update)
        await tokens.ensure_fresh(scope, stream)
        renewing = asyncio.create_task(tokens.run(), name="pravega-tokens")
        try:
            yield tokens.token_of
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
