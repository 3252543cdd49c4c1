"""Two receivers over one streaming service, an agent that goes to and fro between them: histories 1
and 11 (D2, D3, S1, S2).
"""

import asyncio
from random import Random
from typing import Any

import pytest

from logdrive.host.host import Host
from logdrive.wire.lumberjack.frames import AckFrame, JsonRun, WindowFrame
from receiver import app
from receiver.config import ListenConfig, ReceiverConfig, SinkConfig
from tests.agent.world import World as AgentWorld
from tests.e2e.test_virtual_time import Writer
from tests.receiver.world import headers, in_virtual_time, ledger, receiver
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.service import HOST, PORT, StoreService
from tests.support.virtual_time import VirtualClock

HOSTS = ("east", "west")


def _configuration(**changes: Any) -> ReceiverConfig:
    sink = SinkConfig(uri=f"pravega://{HOST}:{PORT}/logs/events", segments=2, tls="off")
    return ReceiverConfig(
        listen=ListenConfig(address="127.0.0.1:5044", tls="off", **changes),
        sink=sink,
        drain_seconds=20.0,
    )


class Site:
    """An agent, two receivers and the store that they share."""

    def __init__(self, seed: int) -> None:
        self.agent = AgentWorld(seed)
        self.agent.settings["output"]["hosts"] = [f"{host}:5044" for host in HOSTS]
        self.network, self.random = self.agent.network, Random(seed)
        self.writer = Writer(self.agent, self.random)
        self.store = StoreService(self.network)

    async def delivered(self) -> list[bytes]:
        return [source.data for source in (await ledger(self.store.disk)).sources.values()]

    def half_open(self) -> None:
        """Let the agent's connections fall silent for the agent alone: its receiver goes on with
        what it has.
        """
        for connection in self.network.connections("agent"):
            connection.lose("agent")

    async def settle(self) -> None:
        await asyncio.sleep(120)
        await self.agent.settle()
        await self.agent.stop()


@pytest.mark.parametrize("seed", range(6))
@in_virtual_time
async def test_history_11_the_agent_goes_to_the_other_receiver_and_back(seed: int) -> None:
    site = Site(seed)
    site.store.start()
    async with (
        receiver(network=site.network, config=_configuration(), host="east", seed=1),
        receiver(network=site.network, config=_configuration(), host="west", seed=2),
    ):
        site.agent.start()
        for _ in range(10):
            await site.writer.write(site.random.randint(1, 4))
            match site.random.randrange(5):
                case 0:
                    site.network.cut("agent")
                case 1:
                    site.half_open()
                case 2:
                    site.network.cut(site.random.choice(HOSTS), HOST)
                case 3:
                    await site.agent.kill()
                    site.agent.start()
                case 4:
                    site.network.link(site.random.choice(HOSTS), HOST).delay = site.random.random()
        await site.settle()
    await site.store.end()
    assert await site.delivered() == [site.writer.written]
    # one name, whoever received it (D5)
    assert len({header["store"] for header in await headers(site.store.disk)}) == 1


@pytest.mark.parametrize("seed", range(6))
@in_virtual_time
async def test_history_1_the_store_is_killed_and_powered_off_under_both_receivers(
    seed: int,
) -> None:
    site = Site(seed)
    async with asyncio.timeout(7200):
        site.store.start()
        async with (
            receiver(network=site.network, config=_configuration(), host="east", seed=1),
            receiver(network=site.network, config=_configuration(), host="west", seed=2),
        ):
            site.agent.start()
            for _ in range(8):
                await site.writer.write(site.random.randint(1, 5))
                await site.store.kill(site.random if site.random.random() < 0.5 else None)
                await asyncio.sleep(site.random.choice((0.0, 1.0, 40.0)))
                if site.random.random() < 0.5:
                    site.network.cut("agent")
                site.store.start()
            await site.settle()
    await site.store.end()
    assert await site.delivered() == [site.writer.written]


@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_receivers_killed_by_turns_with_their_appends_on_the_way(seed: int) -> None:
    site = Site(seed)
    site.store.start()
    for host in HOSTS:
        site.network.link(host, HOST).delay = 0.2
    site.agent.start()
    for turn in range(6):
        host = HOSTS[turn % 2]
        async with receiver(
            network=site.network, config=_configuration(), host=host, seed=turn
        ) as world:
            await site.writer.write(site.random.randint(2, 5))
            await world.crash()
    async with receiver(network=site.network, config=_configuration(), host="east", seed=9):
        await site.settle()
    await site.store.end()
    assert await site.delivered() == [site.writer.written]


@in_virtual_time
async def test_beats_are_answered_over_the_service_and_long_records_go_in_pieces__R6() -> None:
    site = Site(1)
    site.store.start()
    async with receiver(network=site.network, config=_configuration(), host="east") as world:
        peer = await world.foreign(plain=True)
        records = [
            b'{"message":"one"}',
            b'{"message":"two"}',
            b'{"message":"%s"}' % (b"x" * 800_000),
        ]
        await peer.send(WindowFrame(3).encode(), JsonRun.of(1, records).encode())
        assert await peer.next() == AckFrame(3)
    await site.store.end()
    assert (await ledger(site.store.disk)).foreign == records


@in_virtual_time
async def test_a_receiver_told_to_stop_while_it_waits_for_the_service_ends() -> None:
    site, stop = Site(1), asyncio.Event()
    running = asyncio.create_task(
        app.run(
            _configuration(),
            host=Host(
                clock=VirtualClock(),
                disk=MemoryDisk(),
                transport=site.network.host("east"),
                executor=InlineExecutor(),
                random=Random(1),
            ),
            stop=stop,
            started=lambda started: pytest.fail(f"it listens without a service: {started}"),
        )
    )
    await asyncio.sleep(600)
    assert not running.done()
    stop.set()
    await running
