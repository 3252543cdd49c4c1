"""Streams over real sockets, plain and TLS: order, back-pressure, both directions at once, and all
kinds of ends.
"""

import asyncio
import os
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.net.system_stream import SystemStream
from logdrive.net.tcp import SystemTransport
from tests.logdrive.net.loopback import eventually, listening, read_exactly, run
from tests.support.pki import Pki

Pair = Callable[[], AbstractAsyncContextManager[tuple[SystemStream, SystemStream]]]
RESET = struct.pack("ii", 1, 0)


@pytest.fixture(params=["plain", "tls"])
def pair(request: pytest.FixtureRequest, pki: Pki) -> Pair:
    """Return a function that opens a connection and yields its client's and its server's end."""
    server, client = (pki.server(), pki.client()) if request.param == "tls" else (None, None)

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[SystemStream, SystemStream]]:
        arrived: asyncio.Queue[ByteStream] = asyncio.Queue()

        async def hold(stream: ByteStream) -> None:
            arrived.put_nowait(stream)
            await asyncio.Event().wait()

        async with listening(server, hold) as port:
            ours = await SystemTransport().connect("127.0.0.1", port, client)
            theirs = await arrived.get()
            assert isinstance(theirs, SystemStream)
            yield ours, theirs
            ours.abort()
            theirs.abort()

    return opened


def socket_of(stream: SystemStream) -> socket.socket:
    return stream._socket


def test_a_flood_of_single_bytes_is_taken_a_little_at_a_time(pki: Pki) -> None:
    """Each byte is a TLS record, and each record costs; one turn must not take thousands of
    them.
    """

    async def scenario() -> None:
        arrived: asyncio.Queue[ByteStream] = asyncio.Queue()

        async def hold(stream: ByteStream) -> None:
            arrived.put_nowait(stream)
            await asyncio.Event().wait()

        async with listening(pki.server(), hold) as port:
            ours = await SystemTransport().connect("127.0.0.1", port, pki.client())
            theirs = await arrived.get()
            for number in range(3000):
                await ours.write([b"%d" % (number % 10)])
            read: list[bytes] = []
            while sum(map(len, read)) < 3000:
                read.append(await theirs.read())
            assert max(map(len, read)) <= 64
            assert b"".join(read) == b"0123456789" * 300
            ours.abort()
            theirs.abort()

    run(scenario())


def test_five_megabytes_both_ways_at_once_with_a_slow_reader(pair: Pair) -> None:
    async def scenario() -> None:
        there, back = os.urandom(5 << 20), os.urandom(5 << 20)
        cuts = random.Random(1)

        async def send(stream: ByteStream, data: bytes) -> None:
            place = 0
            while place < len(data):
                parts = [
                    data[place + i * 1000 : place + (i + 1) * 1000]
                    for i in range(cuts.randint(1, 400))
                ]
                await stream.write(parts)
                place += sum(map(len, parts))

        async def collect(stream: ByteStream, size: int, pause: float) -> bytes:
            parts: list[bytes] = []
            while size > 0:
                data = await stream.read()
                assert 0 < len(data) <= 256 * 1024
                parts.append(data)
                size -= len(data)
                await asyncio.sleep(pause)
            return b"".join(parts)

        async with pair() as (ours, theirs):
            _, _, from_us, from_them = await asyncio.gather(
                send(ours, there),
                send(theirs, back),
                collect(theirs, len(there), 0.002),
                collect(ours, len(back), 0),
            )
            assert from_us == there
            assert from_them == back

    run(scenario())


def test_one_large_part_and_empty_parts(pair: Pair) -> None:
    async def scenario() -> None:
        data = os.urandom(3 << 20)
        async with pair() as (ours, theirs):
            writing = asyncio.create_task(ours.write([b"", data, b"", b"end"]))
            assert await read_exactly(theirs, len(data) + 3) == data + b"end"
            await writing
            await ours.write([])

    run(scenario())


def test_heads_before_long_parts_arrive_in_their_places(pair: Pair) -> None:
    async def scenario() -> None:
        parts = [
            bytes([number]) * size
            for number, size in enumerate(
                (8, 300_000, 8, 20_000, 262_140, 262_144, 3, 700_000, 5, 6)
            )
        ]
        async with pair() as (ours, theirs), asyncio.TaskGroup() as tasks:
            tasks.create_task(ours.write(parts))
            assert await read_exactly(theirs, sum(map(len, parts))) == b"".join(parts)

    run(scenario())


def test_a_writer_waits_while_its_peer_does_not_read_and_other_connections_go_on(
    pair: Pair,
) -> None:
    async def scenario() -> None:
        async with pair() as (ours, theirs):
            writing = asyncio.create_task(ours.write([bytes(64 << 20)]))
            await asyncio.sleep(0.2)
            assert not writing.done()
            await theirs.write([b"the other way is free"])
            assert await ours.read() == b"the other way is free"
            writing.cancel()

    run(scenario())


def test_a_write_given_up_half_way_leaves_no_way_to_write_garbage(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair() as (ours, _):
            writing = asyncio.create_task(ours.write([bytes(64 << 20)]))
            await asyncio.sleep(0.1)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            with pytest.raises(TransientError, match="given up half-way"):
                await ours.write([b"next"])

    run(scenario())


def test_a_cancelled_read_loses_nothing(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair() as (ours, theirs):
            got = b""
            for number in range(300):
                reading = asyncio.create_task(theirs.read())
                await asyncio.sleep(0)
                await ours.write([b"%04d" % number])
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                reading.cancel()
                (result,) = await asyncio.gather(reading, return_exceptions=True)
                got += result if isinstance(result, bytes) else b""
            got += await read_exactly(theirs, 1200 - len(got))
            assert got == b"".join(b"%04d" % number for number in range(300))

    run(scenario())


def test_after_a_close_the_peer_reads_to_the_end(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair() as (ours, theirs):
            await ours.write([b"last words"])
            closing = asyncio.create_task(ours.close())
            assert await theirs.read() == b"last words"
            assert await theirs.read() == b""
            assert await theirs.read() == b""
            await theirs.close()
            await closing
            await ours.close()
            assert await ours.read() == b""
            with pytest.raises(TransientError, match="closed on this side"):
                await ours.write([b"more"])

    run(scenario())


def test_the_last_bytes_written_arrive_although_bytes_are_unread_at_the_close(pair: Pair) -> None:
    """Otherwise the reset that the kernel sends for unread bytes would overtake the last
    acknowledgement.
    """

    async def scenario() -> None:
        async with pair() as (ours, theirs):
            await ours.write([bytes(100_000)])
            await asyncio.sleep(0.05)
            await theirs.write([b"2A\x00\x00\x00\x07"])
            closing = asyncio.create_task(theirs.close())
            await asyncio.sleep(0.05)
            assert await ours.read() == b"2A\x00\x00\x00\x07"
            assert await ours.read() == b""
            await ours.close()
            await closing

    run(scenario())


def test_a_close_ends_in_time_although_the_peer_says_nothing_and_wakes_the_reader(
    pair: Pair,
) -> None:
    async def scenario() -> None:
        async with pair() as (ours, _):
            reading = asyncio.create_task(ours.read())
            await asyncio.sleep(0)
            started = asyncio.get_running_loop().time()
            await ours.close()
            assert await reading == b""
            assert asyncio.get_running_loop().time() - started < 4

    run(scenario())


def test_an_abort_during_a_close_ends_it(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair() as (ours, _):
            started = asyncio.get_running_loop().time()
            closing = asyncio.create_task(ours.close())
            await asyncio.sleep(0.05)
            ours.abort()
            await closing
            assert asyncio.get_running_loop().time() - started < 1

    run(scenario())


def test_a_reset_in_mid_write_is_an_error_for_the_reader_and_the_writer(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair() as (ours, theirs):
            writing = asyncio.create_task(ours.write([bytes(64 << 20)]))
            await asyncio.sleep(0.1)
            theirs.abort()
            with pytest.raises(TransientError, match=r"reset|ended") as caught:
                await writing
            assert str(caught.value).startswith(ours.peer.address)
            with pytest.raises(TransientError):
                await read_exactly(ours, 1)
            with pytest.raises(TransientError):
                await ours.write([b"more"])
            await ours.close()

    run(scenario())


def test_a_reset_of_an_idle_connection_is_a_clear_error(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair() as (ours, theirs):
            await theirs.write([b"x"])
            assert await ours.read() == b"x"
            reading = asyncio.create_task(ours.read())
            await asyncio.sleep(0.05)
            theirs.abort()
            with pytest.raises(
                TransientError,
                match=r"127\.0\.0\.1:\d+: the connection was .*(by the other side).*",
            ) as caught:
                await reading
            assert "reset" in str(caught.value)

    run(scenario())


def test_an_end_without_a_goodbye_is_an_end(pki: Pki) -> None:
    """Deployed peers close the socket without close_notify.

    Frames know their length, so this truncates nothing unnoticed.
    """

    async def scenario() -> None:
        ends: list[bytes] = []

        async def collect(stream: ByteStream) -> None:
            while data := await stream.read():
                ends.append(data)
            ends.append(b"")

        async with listening(pki.server(), collect) as port:
            ours = await SystemTransport().connect("127.0.0.1", port, pki.client())
            await ours.write([b"data"])
            await eventually(lambda: ends)
            socket_of(ours).shutdown(socket.SHUT_WR)
            await eventually(lambda: len(ends) > 1)
            ours.abort()
        assert ends == [b"data", b""]

    run(scenario())


def test_a_connection_cut_in_mid_record_is_an_error_before_anything_was_said(pki: Pki) -> None:
    async def scenario() -> None:
        async def cut(stream: ByteStream) -> None:
            stream.abort()

        async with listening(pki.server(), cut) as port:
            ours = await SystemTransport().connect("127.0.0.1", port, pki.client())
            with pytest.raises(
                TransientError,
                match="before it said anything: if this repeats, it may refuse our certificate",
            ):
                await ours.read()
            ours.abort()

    run(scenario())


def test_many_small_messages_there_and_back(pair: Pair) -> None:
    async def scenario() -> None:
        async with pair() as (ours, theirs):
            for number in range(500):
                await ours.write([b"%06d" % number])
                assert await theirs.read() == b"%06d" % number
                await theirs.write([b"2A%06d" % number])
                assert await ours.read() == b"2A%06d" % number

    run(scenario())


def test_a_peer_that_takes_all_at_once_does_not_keep_others_from_running() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def swallow() -> int:
                accepted, _ = server.accept()
                with accepted:
                    return sum(map(len, iter(lambda: accepted.recv(1 << 20), b"")))

            swallowing = asyncio.create_task(asyncio.to_thread(swallow))
            ours = await SystemTransport().connect("127.0.0.1", server.getsockname()[1], None)
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count())
            for _ in range(64):
                await ours.write([bytes(1 << 20)])
            await ours.close()
            counting.cancel()
            assert await swallowing == 64 << 20
            assert turns >= 64

    run(scenario())
