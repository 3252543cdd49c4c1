"""The limit on one read: lower with many connections, so that all reads of one round stay within a
limit.
"""

import asyncio
import os
import socket

import pytest

from logdrive.host.transport import ByteStream
from logdrive.model.units import KIB, MIB
from logdrive.net.listener import Admission
from logdrive.net.tcp import SystemTransport
from logdrive.net.wires import PlainWire, Want, read_bytes
from tests.logdrive.net.loopback import listening, run
from tests.support.pki import Pki


@pytest.mark.parametrize(
    ("connections", "size"),
    [(0, 256 * KIB), (1, 256 * KIB), (256, 256 * KIB), (1024, 64 * KIB), (10_000, 16 * KIB)],
)
def test_a_read_brings_less_the_more_connections_there_are(connections: int, size: int) -> None:
    assert read_bytes(connections) == size
    assert connections * size <= 160 * MIB


def test_a_plain_read_brings_what_it_may_and_the_next_one_goes_on() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        data = os.urandom(50_000)
        theirs.sendall(data)
        wire = PlainWire(ours, "peer", lambda: 16 * KIB)
        got = [wire.receive() for _ in range(5)]
        assert got.pop() is Want.READ
        parts = [part for part in got if isinstance(part, bytes)]
        assert max(map(len, parts)) <= 16 * KIB
        assert b"".join(parts) == data


@pytest.mark.parametrize("secure", [False, True])
def test_an_accepted_connection_reads_by_how_many_there_are(
    pki: Pki, secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Admission, "read_bytes", lambda admission: 20 * KIB)
    data = os.urandom(300 * KIB)

    async def scenario() -> list[int]:
        sizes: list[int] = []
        done = asyncio.get_running_loop().create_future()

        async def accept(stream: ByteStream) -> None:
            got = b""
            while len(got) < len(data):
                part = await stream.read()
                sizes.append(len(part))
                got += part
            done.set_result(got)

        transport = SystemTransport()
        async with listening(pki.server() if secure else None, accept, transport) as port:
            stream = await SystemTransport().connect(
                "127.0.0.1", port, pki.client(name="localhost") if secure else None
            )
            await stream.write([data])
            assert await done == data
            await stream.close()
        return sizes

    sizes = run(scenario(), 20)
    assert max(sizes) <= 20 * KIB
