"""An hour without a receiver, and its return: no loss, bounded memory, no thundering herd (D9)."""

import asyncio
import random
from collections import Counter

import pytest

from agent.config.output import BackoffTable
from agent.delivery.reconnect import ReconnectPolicy
from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.net.retry import retry_async
from tests.agent.world import LOG, World, lines
from tests.support.memory.transport import MemoryNetwork
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

HOUR = 3600
AGENTS = 6
CLIENTS = 300


def fleet(network: MemoryNetwork, size: int) -> list[World]:
    """Return the hosts of so many agents, on one network."""
    worlds = []
    for number in range(size):
        world = World(seed=number, quiet_seconds=30)
        world.network = network
        world.host = f"agent{number}"
        world.settings["agent"]["id"] = world.host
        world.settings["agent"]["rescan_seconds"] = 600
        worlds.append(world)
    return worlds


def held_bytes(world: World) -> int:
    """Return the bytes of runs that an agent holds."""
    assert world.agent is not None
    sources = world.agent.registry.sources
    return sum(run.size for source in sources for run in source.unacknowledged.runs)


@pytest.mark.parametrize("mode", ["failover", "balance"])
def test_an_hour_without_receivers_loses_nothing_and_holds_nothing_in_memory(mode: str) -> None:
    async def main() -> None:
        network, reader = MemoryNetwork(random.Random(1)), ReaderModel("one")
        others = [ReaderModel(name) for name in ("two", "three")]
        for other in others:
            other.store, other.stored = reader.store, reader.stored
        for model in (reader, *others):
            model.ack_seconds = 0.5
        names = ("one", "two", "three")
        worlds = fleet(network, AGENTS)
        for world in worlds:
            world.settings["output"] |= {"hosts": list(names), "mode": mode}
            world.write(lines(0, 10))
            world.start()
        count = 10
        for _ in range(4):
            await asyncio.sleep(HOUR / 4)
            for world in worlds:
                world.write(lines(count, 1000))
            count += 1000
            assert [held_bytes(world) for world in worlds] == [0] * AGENTS

        arrivals = Counter[int]()
        most = 0
        loop = asyncio.get_running_loop()
        for name, model in zip(names, (reader, *others), strict=True):

            async def accept(stream: ByteStream, model: ReaderModel = model) -> None:
                arrivals[int(loop.time())] += 1
                await model.accept(stream)

            await network.host(name).listen("0.0.0.0", 5044, None, accept)
        for _ in range(300):
            await asyncio.sleep(0.2)
            most = max(most, *(held_bytes(world) for world in worlds))
        for world in worlds:
            await world.settle()
        each = [stored.content for stored in reader.by_path(LOG)]
        assert each == [lines(0, count)] * AGENTS
        assert 0 < most < 3 * 8 * 2 * 1024 * 1024
        connections = AGENTS * (len(names) if mode == "balance" else 1)
        assert sum(arrivals.values()) == connections, "none came twice"
        assert max(arrivals.values()) < connections / 2
        for world in worlds:
            await world.kill()

    run(main())


@pytest.mark.parametrize("outage", [10, 600])
def test_clients_of_a_receiver_that_returns_are_spread_over_the_longest_pause(outage: int) -> None:
    async def main() -> None:
        table = BackoffTable()
        arrivals, attempts = Counter[int](), Counter[int]()
        loop = asyncio.get_running_loop()

        async def client(number: int) -> None:
            policy = ReconnectPolicy(table, 1, random.Random(number))

            async def connect() -> None:
                attempts[int(loop.time())] += 1
                if loop.time() < outage:
                    raise TransientError("refused")
                arrivals[int(loop.time())] += 1

            loop_of = retry_async(TransientError, sleep=asyncio.sleep, wait=policy.seconds_after)
            await loop_of(connect)

        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(client(number))
        spread = min(table.max_seconds, outage)
        assert sum(arrivals.values()) == CLIENTS
        assert max(arrivals.values()) < 4 * CLIENTS / spread
        steady = [count for second, count in attempts.items() if outage / 2 < second < outage]
        assert max(steady) < 5 * CLIENTS / spread

    run(main())
