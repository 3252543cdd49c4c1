"""Bad peers: each costs one log message and its own connection.

The others go on, and what was acknowledged is stored (D1, D2).
"""

import asyncio
import contextlib
import random
import socket
import struct

import pytest

from logdrive.model.units import MIB
from logdrive.net.tcp import SystemTransport
from logdrive.wire.lumberjack.frames import CONNECTION, AckFrame
from tests.e2e.bad_input import attacks
from tests.e2e.bad_input.attacks import ATTACKS, Attack, events_bomb
from tests.e2e.bad_input.bystanders import window_of
from tests.e2e.bad_input.outlaw import context, say
from tests.e2e.bad_input.victim import Victim
from tests.logdrive.net.loopback import eventually
from tests.receiver.peers import Peer

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", ATTACKS)
def test_a_peer_that_talks_nonsense_costs_one_line_and_nobody_else(
    receiver: Victim, name: str
) -> None:
    attack = ATTACKS[name]

    async def scene() -> None:
        data, said = attack.data(), receiver.said()
        async with receiver.others_go_on():
            tls, until = (
                context(receiver.pki, alpn=attack.dialect),
                attack.answer if attack.index != CONNECTION else None,
            )
            met = await say(receiver.port, data, tls=tls, hang_up=attack.hang_up, until=until)
            await said.one_line(
                "warning", f"peer={met.address} ", "identity=dns:client.example", attack.words
            )
        _check_answer(attack, met.answer)

    asyncio.run(scene())


def _check_answer(attack: Attack, answer: bytes) -> None:
    if attack.answer is not None:
        assert attack.answer in answer, f"no refusal {attack.refusal} in {answer!r}"
    elif attack.dialect == attacks.PLAIN:
        assert {answer[i : i + 2] for i in range(0, len(answer), 6)} <= {b"2A"}, answer


def test_a_connection_reset_in_the_middle_of_a_frame_is_one_line(receiver: Victim) -> None:
    async def scene() -> None:
        said = receiver.said()
        async with receiver.others_go_on():
            _, writer = await asyncio.open_connection(
                "127.0.0.1", receiver.port, ssl=context(receiver.pki), server_hostname="localhost"
            )
            address = writer.get_extra_info("sockname")
            writer.write(window_of([b"{}"] * 100)[:50])
            await asyncio.sleep(0.1)
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            writer.transport.abort()
            await said.one_line(f"peer={address[0]}:{address[1]} ", "connection lost", "reset")

    asyncio.run(scene())


def test_bombs_below_every_limit_are_stored_within_bounded_memory(receiver: Victim) -> None:
    """Three envelopes of 60 KB, 58 MB of events each: all allowed, so all acknowledged, one after
    the other.
    """
    bomb, events = events_bomb()

    async def scene() -> None:
        async with receiver.others_go_on():
            stream = await SystemTransport().connect(
                "127.0.0.1", receiver.port, receiver.pki.client(name="localhost", alpn=())
            )
            peer = Peer(stream, "lumberjack")
            await peer.send(bomb * 3)
            for _ in range(3):
                assert await peer.next() == AckFrame(events)
            await stream.close()

    asyncio.run(scene())
    assert receiver.most_memory() < 600 * MIB


def test_twenty_bombs_at_once_take_no_more_memory_than_a_few_and_give_it_back(
    receiver: Victim,
) -> None:
    """Each holds 58 MB of events: a receiver that opened them as they came would take more than a
    gigabyte.
    """
    bomb, events = events_bomb()

    async def peer() -> None:
        stream = await SystemTransport().connect(
            "127.0.0.1", receiver.port, receiver.pki.client(name="localhost", alpn=())
        )
        peer = Peer(stream, "lumberjack")
        await peer.send(bomb)
        assert await peer.next() == AckFrame(events)
        await stream.close()

    async def scene() -> None:
        async with receiver.others_go_on(), asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(peer())
        await eventually(lambda: receiver.memory() < 200 * MIB, 15)

    asyncio.run(scene())
    assert receiver.most_memory() < 600 * MIB


def test_a_crowd_of_bad_peers_at_once_leaves_nothing_behind(receiver: Victim) -> None:
    async def scene() -> None:
        before, pick = receiver.descriptors(), random.Random(7)
        async with receiver.others_go_on():
            crowd = []
            for number in range(60):
                noise = pick.randbytes(pick.randrange(1, 5000))
                data = noise if number % 2 else b"2J" + noise
                crowd.append(
                    say(
                        receiver.port,
                        data,
                        tls=context(receiver.pki) if number % 3 else None,
                        hang_up=number % 5 == 0,
                    )
                )
            await asyncio.gather(*crowd)
        await eventually(lambda: receiver.descriptors() <= before, 10)

    asyncio.run(scene())


def test_garbage_on_the_face_is_one_line(receiver: Victim) -> None:
    async def scene() -> None:
        for data, words in (
            (b"GET / HTTP/1.1\r\n\r\n", "connection ended.* reason="),
            (struct.pack("!ii", -127, 0x7FFFFFF0), "connection ended.* reason="),
        ):
            said = receiver.said()
            async with receiver.others_go_on():
                met = await say(receiver.face, data, tls=None)
                await said.one_line(f"peer={met.address} ", words)

    asyncio.run(scene())


def test_a_peer_that_never_reads_its_acknowledgements_is_left_behind(receiver: Victim) -> None:
    """It floods one-event windows and reads nothing, with the smallest buffer there is; the others
    go on meanwhile.
    """

    async def scene() -> None:
        async with receiver.others_go_on():
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", receiver.port))
            _, writer = await asyncio.open_connection(
                sock=sock, ssl=context(receiver.pki), server_hostname="localhost", limit=1024
            )
            assert isinstance(writer.transport, asyncio.Transport)
            writer.transport.pause_reading()
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(3):
                    while True:
                        writer.write(window_of([b"{}"]) * 500)
                        await writer.drain()
            writer.transport.abort()

    asyncio.run(scene())
    assert receiver.most_memory() < 600 * MIB
