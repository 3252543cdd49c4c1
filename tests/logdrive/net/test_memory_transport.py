"""The network in memory that other tests use: order, back-pressure, and every way of breaking."""

import asyncio
import random

import pytest

from logdrive.errors import ConfigError, TransientError
from logdrive.host.transport import Accept, ByteStream, ClientTls, ServerTls
from tests.support.memory.transport import MemoryNetwork, MemoryStream
from tests.support.virtual_time import run

SERVER = ServerTls("server.pem", "server.key", "ca.pem", ("logdrive/1", "lumberjack/2"))


async def pair(
    network: MemoryNetwork, client: ClientTls | None = None, server: ServerTls | None = None
) -> tuple[MemoryStream, MemoryStream]:
    """Return both ends of a connection from host `a` to host `b`."""

    async def hold(_stream: ByteStream) -> None:
        await asyncio.Event().wait()

    listener = await network.host("b").listen("0.0.0.0", 0, server, hold)
    stream = await network.host("a").connect("b", listener.address[1], client)
    return stream, stream.connection.server


def test_bytes_arrive_in_order_both_ways_whatever_the_splits_and_delays() -> None:
    async def scenario() -> None:
        network = MemoryNetwork(random.Random(7))
        link = network.link("a", "b")
        link.delay, link.jitter = 0.001, 0.002
        there, back = bytes(range(256)) * 40, bytes(reversed(range(256))) * 40
        ours, theirs = await pair(network)

        async def collect(stream: MemoryStream) -> bytes:
            found = b""
            while data := await stream.read():
                found += data
            return found

        async def send(stream: MemoryStream, data: bytes) -> None:
            await stream.write([data[i : i + 100] for i in range(0, len(data), 100)])
            await stream.end_writing()

        results = await asyncio.gather(
            send(ours, there), send(theirs, back), collect(ours), collect(theirs)
        )
        assert (results[2], results[3]) == (back, there)

    run(scenario())


def test_a_writer_waits_while_the_reader_does_not_read() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        network.link("a", "b").capacity = 1000
        ours, theirs = await pair(network)
        writing = asyncio.create_task(ours.write([b"x" * 2500]))
        await asyncio.sleep(0.01)
        assert not writing.done()
        assert len(await theirs.read()) == 1000
        await asyncio.sleep(0.01)
        assert not writing.done()
        assert len(await theirs.read()) == 1000
        await writing
        assert len(await theirs.read()) == 500

    run(scenario())


def test_a_cut_is_seen_by_both_ends_and_by_a_waiting_writer() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        network.link("a", "b").capacity = 10
        ours, theirs = await pair(network)
        writing = asyncio.create_task(ours.write([b"x" * 100]))
        reading = asyncio.create_task(ours.read())
        await asyncio.sleep(0.01)
        assert network.cut("a", "b") == 1
        for waiting in (writing, reading):
            with pytest.raises(TransientError, match="reset"):
                await waiting
        assert await theirs.read() == b"x" * 10  # had arrived
        with pytest.raises(TransientError, match="reset"):
            await theirs.read()
        with pytest.raises(TransientError, match="reset"):
            await theirs.write([b"y"])
        assert network.connections() == []

    run(scenario())


def test_bytes_on_the_way_at_a_cut_are_lost() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        network.link("a", "b").delay = 0.02
        ours, theirs = await pair(network)
        await ours.write([b"early"])
        assert await theirs.read() == b"early"
        await ours.write([b"late"])
        ours.connection.cut()
        with pytest.raises(TransientError):
            await theirs.read()

    run(scenario())


def test_after_a_close_the_peer_reads_to_the_end_and_cannot_write() -> None:
    async def scenario() -> None:
        ours, theirs = await pair(MemoryNetwork())
        await ours.write([b"last words"])
        await ours.close()
        await ours.close()
        assert [await theirs.read(), await theirs.read(), await theirs.read()] == [
            b"last words",
            b"",
            b"",
        ]
        assert await ours.read() == b""
        with pytest.raises(TransientError):
            await theirs.write([b"too late"])
        with pytest.raises(TransientError):
            await ours.write([b"too late"])

    run(scenario())


def test_half_closed_the_other_direction_goes_on() -> None:
    async def scenario() -> None:
        ours, theirs = await pair(MemoryNetwork())
        await ours.end_writing()
        assert await theirs.read() == b""
        await theirs.write([b"answer"])
        assert await ours.read() == b"answer"

    run(scenario())


def test_a_stall_is_silent_and_a_partition_heals() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        ours, theirs = await pair(network)
        network.partition("a", "b")
        await ours.write([b"one"])
        await ours.write([b"two"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await theirs.read()
        with pytest.raises(TransientError, match="timed out"):
            await network.host("a").connect("b", ours.connection.port, None)
        network.heal("a", "b")
        assert await theirs.read() == b"onetwo"

    run(scenario())


@pytest.mark.parametrize("reset", [False, True])
def test_bytes_written_into_a_black_hole_are_lost_without_an_error(reset: bool) -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        network.link("a", "b").capacity = 10
        ours, theirs = await pair(network)
        network.swallow("a", "b", frozenset(("b",)))
        for _ in range(100):
            await ours.write([b"more than fits"])
        await theirs.write([b"back"])
        assert await ours.read() == b"back"
        with pytest.raises(TransientError, match="timed out"):
            await network.host("a").connect("b", ours.connection.port, None)
        network.give_back("a", "b", reset=reset)
        if reset:
            with pytest.raises(TransientError, match="reset"):
                await theirs.read()
            return
        await ours.write([b"and more"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000):
                await theirs.read()

    run(scenario())


def test_a_vanished_host_leaves_the_other_end_waiting() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        ours, theirs = await pair(network)
        await network.vanish("a")
        with pytest.raises(TransientError, match="gone"):
            await ours.read()
        await theirs.write([b"anyone?"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await theirs.read()

    run(scenario())


def test_a_crash_frees_the_port_and_ends_the_tasks() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        ours, _ = await pair(network)
        port = ours.connection.port
        await network.crash("b")
        with pytest.raises(TransientError, match="reset"):
            await ours.read()
        with pytest.raises(TransientError, match="refused"):
            await network.host("a").connect("b", port, None)
        served: list[str] = []

        async def serve(stream: ByteStream) -> None:
            served.append(stream.peer.address)

        await network.host("b").listen("127.0.0.1", port, None, serve)
        assert await (await network.host("a").connect("b", port, None)).read() == b""
        assert len(served) == 1

    run(scenario())


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        (("lumberjack/2", "logdrive/1"), "logdrive/1"),
        (("lumberjack/2",), "lumberjack/2"),
        (("h2",), None),
        ((), None),
    ],
)
def test_the_dialect_is_the_first_of_the_server_that_the_client_offers(
    offered: tuple[str, ...], agreed: str | None
) -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        network.host("a", identity="dns:a")
        network.host("b", identity="dns:b")
        ours, theirs = await pair(
            network, ClientTls("ca.pem", "client.pem", "client.key", None, offered), SERVER
        )
        assert (ours.peer.identity, theirs.peer.identity) == ("dns:b", "dns:a")
        assert (ours.peer.alpn, theirs.peer.alpn) == (agreed, agreed)
        assert ours.peer.secure
        assert theirs.peer.secure

    run(scenario())


@pytest.mark.parametrize(
    ("client", "server"),
    [(None, SERVER), (ClientTls("ca.pem"), SERVER), (ClientTls("ca.pem"), None)],
)
def test_a_client_that_would_fail_a_handshake_is_refused(
    client: ClientTls | None, server: ServerTls | None
) -> None:
    async def scenario() -> None:
        with pytest.raises(TransientError):
            await pair(MemoryNetwork(), client, server)

    run(scenario())


def test_loopback_names_mean_the_own_host_and_a_port_is_taken_once() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()

        async def greet(stream: ByteStream) -> None:
            await stream.write([b"hello"])

        accept: Accept = greet
        await network.host("b").listen("127.0.0.1", 5044, None, accept)
        assert await (await network.host("b").connect("localhost", 5044, None)).read() == b"hello"
        with pytest.raises(TransientError, match="refused"):
            await network.host("a").connect("127.0.0.1", 5044, None)
        with pytest.raises(ConfigError, match="in use"):
            await network.host("b").listen("127.0.0.1", 5044, None, accept)

    run(scenario())


def test_a_failure_of_an_accepted_connection_is_not_lost() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()

        async def fail(_stream: ByteStream) -> None:
            raise ValueError("a bug")

        await network.host("b").listen("127.0.0.1", 5044, None, fail)
        ours = await network.host("a").connect("b", 5044, None)
        with pytest.raises(TransientError):
            await ours.read()
        with pytest.raises(ExceptionGroup, match="accepted connections failed"):
            await network.close()

    run(scenario())


def test_a_connection_takes_a_round_trip_and_bytes_half_of_one() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        network.link("a", "b").delay = 0.25
        loop = asyncio.get_running_loop()
        started = loop.time()
        ours, theirs = await pair(network)
        assert loop.time() - started == 0.5
        await ours.write([b"there"])
        assert await theirs.read() == b"there"
        assert loop.time() - started == 0.75

    run(scenario())


def test_a_seed_repeats_every_split_and_every_delay() -> None:
    async def history(seed: int) -> list[tuple[float, int]]:
        network = MemoryNetwork(random.Random(seed))
        network.link("a", "b").jitter = 0.5
        ours, theirs = await pair(network)
        found = []
        for _ in range(20):
            await ours.write([bytes(1000)])
        await ours.close()
        while data := await theirs.read():
            found.append((asyncio.get_running_loop().time(), len(data)))
        return found

    first, again, other = run(history(1)), run(history(1)), run(history(2))
    assert first == again
    assert first != other
