"""Listeners: addresses, limits, many connections, and tasks whose failures affect no other
connection.
"""

import asyncio
import contextlib
import os
import socket

import pytest
import structlog

from logdrive.errors import ConfigError, TransientError
from logdrive.host.transport import ByteStream
from logdrive.net.tcp import SystemTransport
from tests.conftest import unavailable
from tests.logdrive.net.loopback import Echo, eventually, listening, read_exactly, run
from tests.support.pki import Pki


def test_two_hundred_connections_at_once(pki: Pki) -> None:
    async def scenario() -> None:
        transport, echo = SystemTransport(), Echo()
        async with listening(pki.server(), echo) as port:

            async def client(number: int) -> None:
                stream = await transport.connect("127.0.0.1", port, pki.client())
                data = os.urandom(1000) * number
                _, got = await asyncio.gather(stream.write([data]), read_exactly(stream, len(data)))
                assert got == data
                await stream.close()

            await asyncio.gather(*(client(number) for number in range(200)))
            await eventually(lambda: len(echo.ends) == 200)
            assert set(echo.ends) == {""}

    run(scenario(), 60)


def test_beyond_the_limit_connections_are_turned_away_and_room_comes_back() -> None:
    async def scenario() -> None:
        transport = SystemTransport(max_connections=2)
        client = SystemTransport()
        with structlog.testing.capture_logs() as log:
            async with listening(None, Echo(), transport) as port:
                first, second = [await client.connect("127.0.0.1", port, None) for _ in range(2)]
                await first.write([b"x"])
                assert await first.read() == b"x"
                for _ in range(3):
                    third = await client.connect("127.0.0.1", port, None)
                    with contextlib.suppress(TransientError):
                        assert await third.read() == b""
                    third.abort()
                await second.close()
                await asyncio.sleep(0.05)
                fourth = await client.connect("127.0.0.1", port, None)
                await fourth.write([b"y"])
                assert await fourth.read() == b"y"
                first.abort()
                fourth.abort()
        assert [line["limit"] for line in log if "turned away" in line["event"]] == [2]

    run(scenario())


def test_a_failing_connection_is_logged_and_the_others_go_on() -> None:
    async def scenario() -> None:
        async def fail(stream: ByteStream) -> None:
            data = await stream.read()
            if data == b"bug":
                raise ValueError("a bug")
            await stream.write([data])

        with structlog.testing.capture_logs() as log:
            async with listening(None, fail) as port:
                for said, end in ((b"bug", TransientError), (b"fine", None)):
                    stream = await SystemTransport().connect("127.0.0.1", port, None)
                    await stream.write([said])
                    if end is None:
                        assert await stream.read() == said
                    else:
                        with pytest.raises(end):
                            await stream.read()
                    stream.abort()
        assert [line["event"] for line in log if line["log_level"] == "error"] == [
            "connection failed"
        ]

    run(scenario())


def test_a_closed_listener_refuses_connections_and_open_ones_go_on() -> None:
    async def scenario() -> None:
        transport = SystemTransport()
        listener = await transport.listen("127.0.0.1", 0, None, Echo())
        stream = await transport.connect("127.0.0.1", listener.address[1], None)
        await stream.write([b"x"])
        assert await stream.read() == b"x"
        await listener.close()
        await listener.close()
        with pytest.raises(TransientError, match=r"Connection refused"):
            await transport.connect("127.0.0.1", listener.address[1], None)
        await stream.write([b"y"])
        assert await stream.read() == b"y"
        await stream.close()

    run(scenario())


def test_an_ipv4_client_of_an_ipv6_socket_is_called_by_its_own_address() -> None:
    try:
        socket.socket(socket.AF_INET6).close()  # what "::" takes: no interface needs an address
    except OSError:
        unavailable("a kernel with IPv6")

    async def scenario() -> None:
        transport, echo = SystemTransport(), Echo()
        listener = await transport.listen("::", 0, None, echo)
        stream = await transport.connect("127.0.0.1", listener.address[1], None)
        await eventually(lambda: echo.streams)
        assert echo.streams[0].peer.address.startswith("127.0.0.1:")
        await stream.close()
        await listener.close()

    run(scenario())


def test_a_port_in_use_and_an_address_of_another_host_are_mistakes_of_the_configuration() -> None:
    async def scenario() -> None:
        transport = SystemTransport()
        listener = await transport.listen("127.0.0.1", 0, None, Echo())
        host, port = listener.address
        with pytest.raises(
            ConfigError,
            match=rf"address = {host}:{port}: Address already in use: another program ",
        ):
            await transport.listen(host, port, None, Echo())
        await listener.close()
        with pytest.raises(
            ConfigError,
            match=r"192\.0\.2\.1:5044: Cannot assign requested address: this host does not have",
        ):
            await transport.listen("192.0.2.1", 5044, None, Echo())
        with pytest.raises(ConfigError, match="address"):
            await transport.listen("no-such-host.invalid", 5044, None, Echo())
        with pytest.raises(ConfigError, match="address"):
            await transport.listen("127.0.0.1", 70_000, None, Echo())

    run(scenario())


def test_a_host_that_does_not_answer_or_has_no_address_is_a_transient_error() -> None:
    async def scenario() -> None:
        transport = SystemTransport(connect_timeout=0.2)
        with pytest.raises(
            TransientError,
            match=r"127\.0\.0\.1:1: Connection refused: does the other side listen there",
        ):
            await transport.connect("127.0.0.1", 1, None)
        with pytest.raises(TransientError, match=r"no-such-host.invalid:5044: "):
            await SystemTransport().connect("no-such-host.invalid", 5044, None)

    run(scenario())


def test_certificates_that_cannot_be_loaded_are_a_mistake_at_once(pki: Pki) -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match=r"cert = .*missing.pem: No such file"):
            await SystemTransport().listen("127.0.0.1", 0, pki.server("missing"), Echo())
        with pytest.raises(ConfigError, match=r"ca = .*missing.pem: No such file"):
            await SystemTransport().connect("127.0.0.1", 1, pki.client(ca="missing.pem"))

    run(scenario())
