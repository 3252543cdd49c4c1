"""Several receivers at once: sources are spread over connections, nothing is sent twice (D10)."""

import random
from collections import Counter
from typing import Any

import pytest

from agent.app import Agent
from agent.sources.registration import SourceState
from logdrive.host.transport import ByteStream
from tests.agent.world import World, contents, lines
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

NAMES = ("one", "two", "three")
PATHS = [f"/logs/{number}.log" for number in range(6)]


async def balanced(names: tuple[str, ...] = NAMES, **output: Any) -> World:
    """Return a world whose receivers share one store; the agent is not started."""
    world = World()
    world.settings["output"] |= {
        "hosts": [f"{name}:5044" for name in names],
        "mode": "balance",
        **output,
    }
    first = await world.reader(names[0])
    for name in names[1:]:
        other = ReaderModel(name)
        other.store, other.stored = first.store, first.stored
        await world.reader(name, other)
    return world


def homes(agent: Agent) -> Counter[str]:
    """Return how many sources live on the connection to each receiver."""
    names = {
        connector._services.send_queue.number: connector.hosts[0].partition(":")[0]
        for connector in agent.connection.connectors
    }
    return Counter(names[source.connection] for source in agent.registry.sources)


def write_all(world: World, start: int, count: int) -> None:
    for path in PATHS:
        world.write(lines(start, count), path)


def all_stored(world: World, count: int, name: str = "one") -> bool:
    return all(b"".join(contents(world.stored(path, name))) == lines(0, count) for path in PATHS)


def nothing_twice(world: World) -> bool:
    """Return whether no receiver had to refuse a run, as one sent again is."""
    return all(reader.refused_runs == 0 for reader in world.readers.values())


def test_sources_are_spread_over_all_receivers() -> None:
    async def main() -> None:
        world = await balanced()
        write_all(world, 0, 10)
        agent = world.start()
        await world.settle()
        write_all(world, 10, 10)
        await world.settle()
        assert homes(agent) == dict.fromkeys(NAMES, 2)
        assert all(reader.windows for reader in world.readers.values())
        assert agent.status().host == "one:5044, two:5044, three:5044"
        assert all_stored(world, 20)
        assert nothing_twice(world)
        await world.stop()

    run(main())


def test_sources_of_a_lost_receiver_go_to_the_others_and_come_back_with_it() -> None:
    async def main() -> None:
        world = await balanced()
        write_all(world, 0, 10)
        agent = world.start()
        await world.settle()
        await world.crash_reader("two")
        write_all(world, 10, 10)
        await world.settle()
        assert homes(agent) == {"one": 3, "three": 3}
        await world.reader("two")
        for start in range(20, 60, 10):
            await world.clock.sleep(15)
            write_all(world, start, 10)
        await world.settle()
        assert homes(agent) == dict.fromkeys(NAMES, 2)
        assert all_stored(world, 60)
        assert nothing_twice(world)
        await world.stop()

    run(main())


def test_busy_sources_move_with_nothing_in_flight() -> None:
    async def main() -> None:
        world = await balanced()
        for reader in world.readers.values():
            reader.ack_seconds = 0.05
        await world.crash_reader("two")
        agent, count = world.start(), 0
        for second in range(100):
            write_all(world, count, 500)
            count += 500
            await world.clock.sleep(0.2)
            if second == 30:
                await world.reader("two")
        await world.settle()
        assert homes(agent) == dict.fromkeys(NAMES, 2)
        assert all_stored(world, count)
        assert nothing_twice(world)
        await world.stop()

    run(main())


def test_a_draining_receiver_is_left_at_once__E0() -> None:
    async def main() -> None:
        world = await balanced()
        write_all(world, 0, 10)
        agent = world.start()
        await world.settle()
        await world.readers["two"].drain()
        await world.clock.sleep(0.05)
        assert homes(agent)["two"] == 0 or agent.connection.connectors[1].session is not None
        write_all(world, 10, 10)
        await world.settle()
        assert all_stored(world, 20)
        await world.stop()

    run(main())


def test_a_slow_receiver_slows_no_source_of_the_others() -> None:
    async def main() -> None:
        world = await balanced(window_bytes=64 * 1024)
        write_all(world, 0, 10)
        agent = world.start()
        await world.settle()
        world.readers["two"].ack_seconds = 60.0
        slow = agent.connection.connectors[1]
        count = 10
        for _ in range(100):
            write_all(world, count, 3000)
            count += 3000
            await world.clock.sleep(0.2)
        await world.clock.sleep(2)
        queue = slow._services.send_queue
        for source in agent.registry.sources:
            assert source.is_behind is (source.connection == queue.number)
            held = sum(run.size for run in source.unacknowledged.runs)
            assert held < 3 * 1024 * 1024, "bounded by the windows in flight, not by what waits"
        assert slow.session is not None
        assert slow.session.in_flight <= 8
        world.readers["two"].ack_seconds = 0.01
        await world.settle(300)
        assert all_stored(world, count)
        await world.stop()

    run(main())


def test_a_receiver_that_only_keeps_alive_loses_its_sources_and_gets_one_back_on_trial() -> None:
    async def main() -> None:
        world = await balanced(("one", "two"))
        await world.crash_reader("two")
        stalls = True

        async def accept(stream: ByteStream) -> None:
            if not stalls:
                await world.readers["two"].accept(stream)
                return
            await stream.read()
            while True:
                await world.clock.sleep(3)
                await stream.write([b"2A\0\0\0\0"])

        await world.network.host("two").listen("0.0.0.0", 5044, None, accept)
        agent, count = world.start(), 0
        for _ in range(420):
            write_all(world, count, 5)
            count += 5
            await world.clock.sleep(1)
        behind = [source for source in agent.registry.sources if source.is_behind]
        assert len(behind) <= 1
        stalls = False
        for _ in range(420):
            write_all(world, count, 5)
            count += 5
            await world.clock.sleep(1)
        await world.settle()
        assert homes(agent) == {"one": 3, "two": 3}
        assert all_stored(world, count)
        await world.stop()

    run(main())


def test_without_any_receiver_sources_wait_and_all_go_to_the_first_that_comes() -> None:
    async def main() -> None:
        world = await balanced()
        for name in NAMES:
            await world.crash_reader(name)
        write_all(world, 0, 10)
        agent = world.start()
        await world.clock.sleep(100)
        await world.reader("three")
        await world.clock.sleep(40)
        await world.settle()
        assert homes(agent) == {"three": 6}
        assert all_stored(world, 10)
        await world.stop()

    run(main())


def test_a_refused_source_waits_for_its_pause_at_another_receiver_too() -> None:
    async def main() -> None:
        world = await balanced(("one", "two"))
        for reader in world.readers.values():
            reader.refuse = lambda frame: (5, "not here")
        write_all(world, 0, 10)
        agent = world.start()
        await world.clock.sleep(10)
        assert {source.state for source in agent.registry.sources} == {SourceState.PAUSED}
        await world.crash_reader("one")
        world.readers["two"].refuse = lambda frame: None
        await world.clock.sleep(5)
        assert {source.state for source in agent.registry.sources} == {SourceState.PAUSED}
        await world.clock.sleep(120)
        await world.settle()
        assert all_stored(world, 10)
        await world.stop()

    run(main())


def test_receivers_with_stores_of_their_own_have_each_byte_once_between_them__D5() -> None:
    async def main() -> None:
        world = await balanced(("one", "two"))
        world.readers["two"] = two = ReaderModel("two")
        await world.crash_reader("two")
        await world.reader("two", two)
        write_all(world, 0, 10)
        agent, count = world.start(), 10
        for step in range(12):
            await world.settle()
            write_all(world, count, 10)
            count += 10
            if step % 4 == 1:
                await world.crash_reader("two")
            if step % 4 == 3:
                await world.reader("two")
        await world.settle()
        for path in PATHS:
            pieces = sorted(
                piece
                for name in ("one", "two")
                for stored in world.stored(path, name)
                for piece in stored.data
            )
            assert b"".join(data for _, _, data in pieces) == lines(0, count)
            reasons = {
                gap[2]
                for name in ("one", "two")
                for stored in world.stored(path, name)
                for gap in stored.gaps
            }
            assert reasons <= {"elsewhere"}
        await world.stop()
        assert agent.connection.is_settled

    run(main())


def test_each_store_gets_the_record_of_the_first_run__P2() -> None:
    async def main() -> None:
        world = await balanced(("one", "two"))
        world.settings["input"][0]["start"] = "end"
        await world.crash_reader("two")
        await world.reader("two", ReaderModel("two"))
        write_all(world, 0, 10)
        world.start()
        await world.settle()
        records = [
            [stored.ended for stored in reader.stored.values() if stored.ended is not None]
            for reader in world.readers.values()
        ]
        assert records == [[(0, "first_run")], [(0, "first_run")]]
        await world.stop()

    run(main())


def test_a_connection_of_its_greatest_age_is_made_anew_with_nothing_sent_again() -> None:
    async def main() -> None:
        world = await balanced(max_connection_seconds=10)
        for reader in world.readers.values():
            reader.ack_seconds = 0.5
        agent, count = world.start(), 0
        for _ in range(300):
            write_all(world, count, 20)
            count += 20
            await world.clock.sleep(0.2)
        await world.settle()
        assert all(6 <= reader.connections <= 9 for reader in world.readers.values())
        assert homes(agent) == dict.fromkeys(NAMES, 2)
        assert all_stored(world, count)
        assert nothing_twice(world)
        await world.stop()

    run(main())


def test_with_failover_agents_spread_again_as_their_connections_grow_old() -> None:
    async def main() -> None:
        world = await balanced(mode="failover", max_connection_seconds=10)
        write_all(world, 0, 10)
        world.start()
        await world.clock.sleep(300)
        assert all(reader.connections >= 5 for reader in world.readers.values())
        assert all_stored(world, 10)
        assert nothing_twice(world)
        await world.stop()

    run(main())


@pytest.mark.parametrize("seed", range(8))
def test_random_histories_of_receivers_that_come_and_go_lose_and_double_nothing(
    seed: int,
) -> None:
    async def main() -> None:
        pick = random.Random(seed)
        world = await balanced(max_connection_seconds=pick.choice((5, 100)))
        up, count = set(NAMES), 0
        world.start()
        for _ in range(30):
            write_all(world, count, added := pick.choice((1, 50, 2000)))
            count += added
            name = pick.choice(NAMES)
            match pick.randrange(5):
                case 0 if name in up:
                    await world.crash_reader(name)
                    up.discard(name)
                case 1 if name not in up:
                    await world.reader(name)
                    up.add(name)
                case 2:
                    world.network.cut("agent", name)
                case 3:
                    world.readers[name].ack_seconds = pick.choice((0.001, 0.5, 5.0))
                case 4 if pick.random() < 0.3:
                    await world.kill()
                    world.start()
            await world.clock.sleep(pick.choice((0.01, 0.3, 3.0)))
        for name in NAMES:
            world.readers[name].ack_seconds = 0.001
            if name not in up:
                await world.reader(name)
        await world.clock.sleep(60)
        await world.settle(400)
        assert all_stored(world, count)
        await world.stop()

    run(main())
