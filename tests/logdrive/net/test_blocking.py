"""A blocking connection runs its event loop during calls, and leaves nothing open."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from logdrive.errors import TransientError
from logdrive.net.blocking import BlockingConnection


class Client:
    """Notes what becomes of it."""

    def __init__(self) -> None:
        self.is_open = False
        self.loops: set[asyncio.AbstractEventLoop] = set()

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator["Client"]:
        self.is_open = True
        try:
            yield self
        finally:
            self.is_open = False

    async def double(self, number: int) -> int:
        self.loops.add(asyncio.get_running_loop())
        return 2 * number


def test_calls_share_one_connection_that_ends_with_the_block() -> None:
    client = Client()
    with BlockingConnection(client.connected) as blocking:
        assert client.is_open
        assert blocking.call(lambda one: one.double(1)) == 2
        assert blocking.call(lambda one: one.double(2)) == 4
    (loop,) = client.loops
    assert (client.is_open, loop.is_closed()) == (False, True)


def test_the_exception_of_a_call_is_raised_and_the_connection_closed() -> None:
    client = Client()

    async def fail(one: Client) -> None:
        await one.double(1)
        raise TransientError("lost")

    with (
        pytest.raises(TransientError, match="lost"),
        BlockingConnection(client.connected) as blocking,
    ):
        blocking.call(fail)
    (loop,) = client.loops
    assert (client.is_open, loop.is_closed()) == (False, True)


def test_a_connection_that_cannot_be_made_leaves_no_event_loop() -> None:
    loops = list[asyncio.AbstractEventLoop]()

    @contextlib.asynccontextmanager
    async def refused() -> AsyncIterator[Client]:
        loops.append(asyncio.get_running_loop())
        raise TransientError("nobody listens")
        yield Client()

    with pytest.raises(TransientError, match="nobody listens"), BlockingConnection(refused):
        raise AssertionError("entered")
    assert [loop.is_closed() for loop in loops] == [True]
