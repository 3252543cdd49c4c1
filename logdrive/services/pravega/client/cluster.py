"""A pool of connections to one streaming service, shared by the sinks onto its streams.

The address is that of a segment store, which then has all segments, or of a controller, which knows
the segment store of each. Each segment store gets a few connections, which reconnect by themselves
until the context ends.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Final, TypeVar
from zlib import crc32

from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.model.units import MIB
from logdrive.net.retry import retry_async, wait_fixed
from logdrive.services.outage import Outage
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
from logdrive.services.pravega.client.grpc_extra import connect_controller
from logdrive.services.pravega.client.pooled_connection import PooledConnection
from logdrive.services.pravega.client.tokens import StreamTokens
from logdrive.services.pravega.client.writers import no_token

T = TypeVar("T")

IN_FLIGHT_BYTES: Final = 256 * MIB  # limit on appended bytes without an acknowledgement
_CONNECTIONS: Final = 4  # to each segment store
_RETRY_SECONDS: Final = 1.0  # between two attempts of `persist`


class Cluster:
    """One streaming service. `open_cluster` opens it.

    Call `find_controller` first: it finds out what listens at the address. *controller* is None if
    that is a segment store. The sinks count appended bytes without an acknowledgement in
    *in_flight*, and compare them with *in_flight_bytes*.
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
        self._transport = transport
        self._target = target
        # Closes the client of the controller.
        self._stack = stack
        self.clock = clock
        self._random = random
        self._login = login
        # Opens the client of a controller.
        self._controllers = controllers
        # Held while `find_controller` runs: several sinks call it.
        self._finding = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stores: dict[SegmentStoreAddress, list[PooledConnection]] = {}
        # The segment store of each segment, as the controller told.
        self._homes: dict[str, SegmentStoreAddress] = {}
        self.outage = Outage(f"{target.host}:{target.port}")
        # None without a controller.
        self.tokens: StreamTokens | None = None
        self.controller: ControllerClient | None = None
        # Limit on *in_flight*.
        self.in_flight_bytes = in_flight_bytes
        # Appended bytes without an acknowledgement.
        self.in_flight = 0

    # Discovery -----------------------------------------------------------------------------------

    async def find_controller(self) -> ControllerClient | None:
        """Return a client of the controller, None if the address is that of a segment store.

        Waits for the service as long as it takes.
        """
        async with self._finding:
            if self.controller is None and not self._stores:
                if await self.persist(self._ask_port):
                    opening = self._controllers(
                        self._target.host, self._target.port, self._target.tls, self._login
                    )
                    self.controller = await self._stack.enter_async_context(opening)
                    self.tokens = StreamTokens(self.controller, self.clock)
                    self.spawn(self.tokens.run(), "pravega-tokens")
                else:
                    self._connections_to(SegmentStoreAddress(self._target.host, self._target.port))
        return self.controller

    async def _ask_port(self) -> bool:
        return await is_controller(self._transport, self._target)

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call *ask* until the service answers, and return its result.

        Raises `ConfigError` if certificates can't be loaded.
        """

        async def attempt() -> T:
            return await ask()

        until_answered = retry_async(
            (TransientError, RequestRefusedError, UnknownStreamError),
            sleep=self.clock.sleep,
            wait=wait_fixed(_RETRY_SECONDS),
            on_failure=lambda error, _: self.outage.report_failure(str(error)),
        )
        return await until_answered(attempt)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run *work*, which never ends by itself, as a task until the context ends."""
        self._tasks.append(asyncio.create_task(work, name=name))

    async def end_tasks(self) -> None:
        """Cancel all tasks. Raises the exception of a task that has ended by itself."""
        for task in self._tasks:
            task.cancel()
        for error in await asyncio.gather(*self._tasks, return_exceptions=True):
            if not isinstance(error, asyncio.CancelledError):
                raise error or RuntimeError("a task of the service ended by itself")

    # Connections ---------------------------------------------------------------------------------

    def connection_of(self, segment: str) -> PooledConnection:
        """Return the connection for *segment*, by a hash of its name.

        It is always the same one, so that appends of this process to the segment keep their order.
        Raises `TransientError` if no segment store is known that has the segment.
        """
        home = (
            self._homes.get(segment)
            if self.controller is not None
            else next(iter(self._stores), None)
        )
        if home is None:
            raise TransientError(f"no segment store is known for {segment}")
        connections = self._stores[home]
        return connections[crc32(segment.encode()) % len(connections)]

    async def locate_connection(self, segment: StreamSegment) -> PooledConnection:
        """Return the connection for *segment*, after asking the controller if needed.

        Makes sure that there is a fresh token. Raises `TransientError`.
        """
        controller = self.controller
        if controller is None or self.tokens is None:
            return self.connection_of(segment.name)
        await self.tokens.ensure_fresh(segment.scope, segment.stream)
        home = self._homes.get(segment.name)
        # Ask again if the segment store is away: it may be gone for good.
        if home is None or self.connection_of(segment.name).client is None:
            self._homes[segment.name] = home = await controller.locate_segment(segment)
            self._connections_to(home)
        return self.connection_of(segment.name)

    def forget_location(self, segment: str) -> None:
        """Forget which segment store has *segment*: the next look-up asks the controller."""
        self._homes.pop(segment, None)

    def forget_token(self, segment: str) -> None:
        """Forget the token that a segment store refused for *segment*."""
        if self.tokens is not None:
            self.tokens.forget_token(segment)

    async def ask_segment_store(
        self, segment: str, ask: Callable[[SegmentClient], Awaitable[T]]
    ) -> T:
        """Call *ask* with a client of the segment store of *segment*, until the store answers.

        Raises `ConfigError` if certificates can't be loaded.
        """
        connection = self.connection_of(segment)
        answer = await self.persist(lambda: _answer(connection, ask))
        connection.report_success()
        return answer

    def _connections_to(self, endpoint: SegmentStoreAddress) -> list[PooledConnection]:
        if endpoint not in self._stores:
            target = Target(endpoint.host, endpoint.port, self._target.tls)
            token = self.tokens.token_of if self.tokens is not None else no_token
            made = [
                PooledConnection(
                    self._transport,
                    target,
                    self.outage,
                    clock=self.clock,
                    random=self._random,
                    token=token,
                )
                for _ in range(_CONNECTIONS)
            ]
            self._stores[endpoint] = made
            for number, connection in enumerate(made):
                self.spawn(
                    connection.run(), f"pravega-connection-{endpoint.host}:{endpoint.port}-{number}"
                )
        return self._stores[endpoint]


async def _answer(connection: PooledConnection, ask: Callable[[SegmentClient], Awaitable[T]]) -> T:
    return await ask(await connection.wait_connected())


@contextlib.asynccontextmanager
async def open_cluster(
    transport: Transport,
    target: Target,
    *,
    clock: Clock,
    random: Random,
    in_flight_bytes: int = IN_FLIGHT_BYTES,
    login: Login | None = None,
    controllers: Controllers = connect_controller,
) -> AsyncIterator[Cluster]:
    """Yield a pool of connections to the service at *target*, which need not be running yet.

    *in_flight_bytes* limits the appended bytes without an acknowledgement. *controllers* opens a
    client of a controller; tests pass another.
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
            await service.end_tasks()
