"""The connections to one streaming service, shared by the sinks onto its streams.

Behind the address is a segment store, which then has all segments, or a controller, which tells
which segment store has which. To each segment store there are a few connections, kept for as long
as the context lasts.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Final, TypeVar
from zlib import crc32

from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.model.units import MIB
from logdrive.net.retry import retry_async, wait_fixed
from logdrive.net.stream import Transport
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.controller import (
    ControllerClient,
    Controllers,
    Login,
    SegmentStoreAddress,
    StreamSegment,
    UnknownStreamError,
)
from logdrive.services.pravega.client.discovery import is_controller
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.services.pravega.client.grpc_extra import over_grpc
from logdrive.services.pravega.client.pooled_connection import Outage, PooledConnection
from logdrive.services.pravega.client.tokens import StreamTokens
from logdrive.services.pravega.client.writers import no_token

T = TypeVar("T")

IN_FLIGHT_BYTES: Final = 256 * MIB
_LANES: Final = 4
_RETRY_SECONDS: Final = 1.0


class Cluster:
    """One service.

    *in_flight* counts bytes not acknowledged; *controller* is None where there is none, known once
    `found`.
    """

    def __init__(
        self,
        transport: Transport,
        target: Target,
        stack: contextlib.AsyncExitStack,
        *,
        clock: Clock,
        random: Random,
        in_flight_bytes: int,
        login: Login | None,
        controllers: Controllers,
    ) -> None:
        self._transport, self._target, self._stack = transport, target, stack
        self.clock, self._random, self._login, self._controllers = clock, random, login, controllers
        self._finding = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stores: dict[SegmentStoreAddress, list[PooledConnection]] = {}
        self._homes: dict[str, SegmentStoreAddress] = {}
        self.outage = Outage(f"{target.host}:{target.port}")
        self.tokens: StreamTokens | None = None
        self.controller: ControllerClient | None = None
        self.in_flight_bytes, self.in_flight = in_flight_bytes, 0

    # What is there -------------------------------------------------------------------------------

    async def found(self) -> ControllerClient | None:
        """Return the controller, if it is one that the address names; waits for the service as long
        as it takes.
        """
        async with self._finding:
            if self.controller is None and not self._stores:
                if await self.persist(self._ask_port):
                    there = self._controllers(
                        self._target.host, self._target.port, self._target.tls, self._login
                    )
                    self.controller = await self._stack.enter_async_context(there)
                    self.tokens = StreamTokens(self.controller, self.clock)
                    self.spawn(self.tokens.run(), "pravega-tokens")
                else:
                    self._lanes(SegmentStoreAddress(self._target.host, self._target.port))
        return self.controller

    async def _ask_port(self) -> bool:
        return await is_controller(self._transport, self._target)

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what *ask* does, once the service does it.

        Raises `ConfigError` for certificates that can't be loaded.
        """

        async def attempt() -> T:
            return await ask()

        until_answered = retry_async(
            (TransientError, RequestRefusedError, UnknownStreamError),
            sleep=self.clock.sleep,
            wait=wait_fixed(_RETRY_SECONDS),
            on_failure=lambda error, _: self.outage.began(str(error)),
        )
        return await until_answered(attempt)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run *work*, which never ends by itself, for as long as the service's context lasts."""
        self._tasks.append(asyncio.create_task(work, name=name))

    async def end(self) -> None:
        """End all that runs. Raises what ended by itself."""
        for task in self._tasks:
            task.cancel()
        for error in await asyncio.gather(*self._tasks, return_exceptions=True):
            if not isinstance(error, asyncio.CancelledError):
                raise error or RuntimeError("a task of the service ended by itself")

    # Connections ---------------------------------------------------------------------------------

    def lane(self, segment: str) -> PooledConnection:
        """Return the connection of *segment*: always the same one, so that what one process appends
        to it keeps its order.

        Raises `TransientError` where it is not known which segment store has it.
        """
        home = (
            self._homes.get(segment)
            if self.controller is not None
            else next(iter(self._stores), None)
        )
        if home is None:
            raise TransientError(f"no segment store is known for {segment}")
        lanes = self._stores[home]
        return lanes[crc32(segment.encode()) % len(lanes)]

    async def locate(self, segment: StreamSegment) -> PooledConnection:
        """Return the connection of *segment*, once the controller has told which segment store has
        it. Raises `TransientError`.
        """
        controller = self.controller
        if controller is None or self.tokens is None:
            return self.lane(segment.name)
        await self.tokens.fresh(segment.scope, segment.stream)
        home = self._homes.get(segment.name)
        # a segment store that is away may be so for good
        if home is None or self.lane(segment.name).client is None:
            self._homes[segment.name] = home = await controller.endpoint(segment)
            self._lanes(home)
        return self.lane(segment.name)

    def moved(self, segment: str) -> None:
        """Forget which segment store has *segment*: the next `locate` asks anew."""
        self._homes.pop(segment, None)

    def refused(self, segment: str) -> None:
        """Forget the token that was not taken for *segment*."""
        if self.tokens is not None:
            self.tokens.refused(segment)

    async def asked(self, segment: str, ask: Callable[[SegmentClient], Awaitable[T]]) -> T:
        """Return what *ask* does at the segment store of *segment*, once it is there and does it.

        Raises `ConfigError`.
        """
        lane = self.lane(segment)
        found = await self.persist(lambda: _answer(lane, ask))
        lane.proved()
        return found

    def _lanes(self, endpoint: SegmentStoreAddress) -> list[PooledConnection]:
        if endpoint not in self._stores:
            target = Target(endpoint.host, endpoint.port, self._target.tls)
            token = self.tokens.of if self.tokens is not None else no_token
            made = [
                PooledConnection(
                    self._transport,
                    target,
                    self.outage,
                    clock=self.clock,
                    random=self._random,
                    token=token,
                )
                for _ in range(_LANES)
            ]
            self._stores[endpoint] = made
            for number, lane in enumerate(made):
                self.spawn(lane.run(), f"pravega-lane-{endpoint.host}:{endpoint.port}-{number}")
        return self._stores[endpoint]


async def _answer(lane: PooledConnection, ask: Callable[[SegmentClient], Awaitable[T]]) -> T:
    return await ask(await lane.up())


@contextlib.asynccontextmanager
async def open_cluster(
    transport: Transport,
    target: Target,
    *,
    clock: Clock,
    random: Random,
    in_flight_bytes: int = IN_FLIGHT_BYTES,
    login: Login | None = None,
    controllers: Controllers = over_grpc,
) -> AsyncIterator[Cluster]:
    """Keep connections to the service at *target* while the context lasts, whether it is there or
    not.
    """
    async with contextlib.AsyncExitStack() as stack:
        service = Cluster(
            transport,
            target,
            stack,
            clock=clock,
            random=random,
            in_flight_bytes=in_flight_bytes,
            login=login,
            controllers=controllers,
        )
        try:
            yield service
        finally:
            await service.end()
