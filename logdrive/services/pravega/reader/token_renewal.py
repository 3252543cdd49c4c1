"""Tokens for who reads on and on, such as a command that follows a stream: asked for anew as long
as a context lasts.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from logdrive.host.clock import Clock
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.controller import Controllers
from logdrive.services.pravega.client.grpc_extra import over_grpc
from logdrive.services.pravega.client.tokens import StreamTokens
from logdrive.services.pravega.client.writers import TokenOf
from logdrive.services.pravega.reader.segments import SegmentLocations
from logdrive.wire.pravega.names import scope_and_stream


@contextlib.asynccontextmanager
async def renewed(
    target: Target,
    there: Sequence[SegmentLocations],
    *,
    clock: Clock,
    update: bool = False,
    controllers: Controllers = over_grpc,
) -> AsyncIterator[TokenOf | None]:
    """Yield what tells the token for *there*, segments of one stream that the controller at
    *target* placed; None where it gave none.

    Raises `TransientError`, `ConfigError`, `RefusedError`.
    """
    if target.login is None or not any(one.home.token for one in there):
        yield None
        return
    scope, stream = scope_and_stream(there[0].state.segment)
    async with controllers(target.host, target.port, target.tls, target.login) as controller:
        tokens = StreamTokens(controller, clock, update=update)
        await tokens.fresh(scope, stream)
        renewing = asyncio.create_task(tokens.run(), name="pravega-tokens")
        try:
            yield tokens.of
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
