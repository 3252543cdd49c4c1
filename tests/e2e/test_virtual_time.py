"""Agent, receiver and store whole, in one process and in virtual time: nothing lost or doubled,
whatever is killed or cut.
"""

import asyncio
from random import Random

import pytest

from tests.agent.world import World as AgentWorld
from tests.agent.world import lines
from tests.receiver.world import configuration, in_virtual_time, ledger, receiver
from tests.support.memory.disk import MemoryDisk


class Writer:
    """An application that writes numbered lines."""

    def __init__(self, world: AgentWorld, random: Random) -> None:
        self.world, self.random, self.written = world, random, b""

    async def write(self, turns: int) -> None:
        for _ in range(turns):
            data = lines(self.written.count(b"\n"), self.random.randint(1, 800))
            self.written += data
            self.world.write(data)
            await asyncio.sleep(self.random.random() * 3)


def _agent(seed: int, *hosts: str) -> tuple[AgentWorld, Writer]:
    world = AgentWorld(seed)
    world.settings["output"]["hosts"] = [f"{host}:5044" for host in hosts]
    return world, Writer(world, Random(seed))


@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_agents_killed_and_connections_cut(seed: int) -> None:
    agent, writer = _agent(seed, "receiver")
    async with receiver(network=agent.network, config=configuration(tls="off")) as world:
        agent.start()
        for _ in range(10):
            await writer.write(writer.random.randint(1, 4))
            if writer.random.random() < 0.5:
                agent.network.cut("agent")
            else:
                await agent.kill()
                if writer.random.random() < 0.3:
                    agent.forget()
                agent.start()
        await agent.settle()
        await agent.stop()
    assert [source.data for source in (await ledger(world.disk)).sources.values()] == [
        writer.written
    ]


@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_receivers_killed_and_powered_off(seed: int) -> None:
    agent, writer = _agent(seed, "receiver")
    agent.start()
    disk = MemoryDisk()
    for _ in range(8):
        async with receiver(
            network=agent.network, disk=disk, config=configuration(tls="off")
        ) as world:
            await writer.write(writer.random.randint(1, 6))
            await world.crash()
            disk = disk.crash(writer.random) if writer.random.random() < 0.5 else disk.killed()
    async with receiver(network=agent.network, disk=disk, config=configuration(tls="off")):
        await asyncio.sleep(60)
        await agent.settle()
        await agent.stop()
    assert [source.data for source in (await ledger(disk)).sources.values()] == [writer.written]


@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_history_13_two_receivers_with_a_store_each_agent_goes_to_other_and_back(
    seed: int,
) -> None:
    agent, writer = _agent(seed, "east", "west")
    agent.start()
    disks = {"east": MemoryDisk(), "west": MemoryDisk()}
    for turn in range(9):
        host = ("east", "west")[turn % 2]
        async with receiver(
            network=agent.network,
            disk=disks[host],
            config=configuration(tls="off"),
            host=host,
            seed=turn,
        ):
            await writer.write(writer.random.randint(2, 6))
            if turn == 8:
                await asyncio.sleep(60)
                await agent.settle()
                await agent.stop()
    sources = [list((await ledger(disk)).sources.values()) for disk in disks.values()]
    assert {reason for each in sources for source in each for _, _, reason in source.gaps} <= {
        "elsewhere"
    }
    pieces = [[piece for source in each for piece in source.pieces] for each in sources]
    assert all(pieces), "one store has nothing"
    assert b"".join(data for _, data in sorted(pieces[0] + pieces[1])) == writer.written
