"""Names with several addresses: looked up for each connection, all tried, spread over clients."""

import asyncio
import socket
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from random import Random

import pytest

from logdrive.errors import TransientError
from logdrive.net.resolve import Address, spread_addresses
from logdrive.net.tcp import SystemTransport
from tests.logdrive.net.loopback import Echo, listening, run


class Names:
    """A resolver whose answer a test sets, which counts how often it was asked."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.asked += 1
        return [(socket.AF_INET, ("127.0.0.1", at)) for at in self.ports]


class FirstFirst(Random):
    """Leaves addresses in their order."""

    def shuffle(self, x: object) -> None:
        pass


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def silent_port(undo: ExitStack) -> int:
    """Return a port at which a connection is neither made nor refused: its backlog is full."""
    sock = undo.enter_context(socket.socket())
    sock.bind(("127.0.0.1", 0))
    sock.listen(0)
    port: int = sock.getsockname()[1]
    for _ in range(4):
        waiting = undo.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(("127.0.0.1", port))
    return port


def test_each_connection_looks_the_name_up_again() -> None:
    async def main() -> None:
        names, echo = Names(), Echo()
        transport = SystemTransport(resolve=names)
        async with listening(None, echo) as first, listening(None, echo) as second:
            for number, port in enumerate((first, second, first), 1):
                names.ports = (port,)
                stream = await transport.connect("logs.example", 5044, None)
                assert names.asked == number
                await stream.close()

    run(main())


def test_all_addresses_are_tried_until_one_answers() -> None:
    async def main() -> None:
        async with listening(None, Echo()) as port:
            names = Names(closed_port(), closed_port(), port)
            transport = SystemTransport(resolve=names, random=FirstFirst())
            stream = await transport.connect("logs.example", 5044, None)
            assert (names.asked, stream.peer.address) == (1, "logs.example:5044")
            await stream.close()

    run(main())


def test_an_address_that_does_not_answer_leaves_time_for_the_others() -> None:
    async def main() -> None:
        with ExitStack() as undo:
            async with listening(None, Echo()) as port:
                names = Names(silent_port(undo), port)
                transport = SystemTransport(resolve=names, random=FirstFirst(), connect_timeout=0.6)
                stream = await transport.connect("logs.example", 5044, None)
                await stream.close()

    run(main())


def test_with_no_address_that_answers_each_reason_is_named() -> None:
    async def main() -> None:
        with ExitStack() as undo:
            names = Names(silent_port(undo), closed_port())
            transport = SystemTransport(resolve=names, random=FirstFirst(), connect_timeout=0.4)
            with pytest.raises(TransientError, match="timed out, Connection refused"):
                await transport.connect("logs.example", 5044, None)

    run(main())


def test_clients_are_spread_over_the_addresses_of_a_name() -> None:
    async def main() -> None:
        echoes = [Echo() for _ in range(3)]
        async with AsyncExitStack() as undo:
            ports = [await undo.enter_async_context(listening(None, echo)) for echo in echoes]
            transport = SystemTransport(resolve=Names(*ports), random=Random(1))
            for _ in range(30):
                await (await transport.connect("logs.example", 5044, None)).close()
            await asyncio.sleep(0)
            assert all(echo.streams for echo in echoes)

    run(main())


def test_families_keep_the_order_of_the_resolver() -> None:
    addresses: list[Address] = [
        *((socket.AF_INET6, number) for number in range(5)),
        *((socket.AF_INET, number) for number in range(5)),
    ]
    firsts = Counter[Address]()
    for seed in range(50):
        spread = spread_addresses(addresses, Random(seed))
        assert [family for family, _ in spread] == [family for family, _ in addresses]
        assert sorted(spread) == sorted(addresses)
        firsts[spread[0]] += 1
    assert len(firsts) == 5
