"""Receivers that refuse sources for a state of their own, as a full disk: they are left for others
(E 3, D10).
"""

import pytest

from agent.app import Agent
from agent.sources.registration import SourceState
from tests.agent.delivery.test_balance import (
    PATHS,
    all_stored,
    balanced,
    homes,
    nothing_twice,
    write_all,
)
from tests.agent.world import World, lines
from tests.support.virtual_time import run

NAMES = ("one", "two")
STALL_SECONDS = 20.0


async def paired(mode: str) -> World:
    """Return a world with two receivers of one store, and an agent that has sent them ten lines of
    each file.
    """
    world = await balanced(NAMES, mode=mode, stall_seconds=STALL_SECONDS, timeout_seconds=4.0)
    write_all(world, 0, 10)
    world.start()
    await world.settle()
    return world


async def write_for(world: World, seconds: int, start: int) -> int:
    """Write a line a second to each file, from the number *start* on; return the next number."""
    for number in range(start, start + seconds):
        write_all(world, number, 1)
        await world.clock.sleep(1)
    return start + seconds


def here(agent: Agent) -> str:
    """Return the receiver that the agent is connected to."""
    return agent.status().host.partition(":")[0]


def test_with_failover_a_full_receiver_is_left_for_the_next_and_asked_for_all_at_once() -> None:
    async def main() -> None:
        world = await paired("failover")
        agent = world.agent
        assert agent is not None
        full = here(agent)
        world.readers[full].full = True
        count = await write_for(world, int(STALL_SECONDS) - 4, 10)
        assert here(agent) == full
        assert agent.status().problem == "refused (E 3): no space left"
        assert {source.state for source in agent.registry.sources} == {SourceState.PAUSED}
        # a look each second for whether it stalls, and one to connect
        await world.clock.sleep(4 + 1 + 1)
        assert here(agent) not in (full, "")
        assert all_stored(world, count)
        assert agent.status().problem == ""
        await world.stop()

    run(main())


def test_with_balance_sources_leave_a_full_receiver_and_come_back_once_it_stores() -> None:
    async def main() -> None:
        world = await paired("balance")
        agent = world.agent
        assert agent is not None
        assert homes(agent) == {"one": 3, "two": 3}
        two = world.readers["two"]
        two.full = True
        count = await write_for(world, int(STALL_SECONDS) + 6, 10)
        for _ in range(60):
            count = await write_for(world, 1, count)
            waiting = [source for source in agent.registry.sources if source.is_behind]
            assert len(waiting) <= 1, "only the one that is sent there on trial"
            assert homes(agent)["two"] <= 1
        assert "two:5044: " in agent.status().problem
        assert "E 3" in agent.status().problem

        two.full = False
        count = await write_for(world, 60, count)
        await world.settle()
        assert homes(agent) == {"one": 3, "two": 3}
        assert agent.status().problem == ""
        assert all_stored(world, count)
        await world.stop()

    run(main())


def test_a_source_on_trial_is_not_kept_from_the_others_for_the_time_of_a_stall() -> None:
    async def main() -> None:
        world = await paired("balance")
        agent = world.agent
        assert agent is not None
        world.readers["two"].full = True
        count = await write_for(world, 60, 10)
        line = len(lines(0, 1))
        for _ in range(300):
            count = await write_for(world, 1, count)
            waiting = max(source.unacknowledged_bytes for source in agent.registry.sources)
            # files are looked at each 5 s
            assert waiting < STALL_SECONDS / 2 * line, waiting // line
        await world.stop()

    run(main())


def test_the_only_receiver_is_kept_while_it_is_full_and_asked_again_within_90_seconds() -> None:
    async def main() -> None:
        world = await balanced(("one",), stall_seconds=STALL_SECONDS)
        write_all(world, 0, 10)
        agent = world.start()
        await world.settle()
        one = world.readers["one"]
        one.full = True
        count = await write_for(world, 3600, 10)
        assert one.connections == 1
        assert agent.status().problem == "refused (E 3): no space left"
        one.full = False
        await world.clock.sleep(90)
        assert all_stored(world, count)
        assert agent.status().problem == ""
        await world.stop()

    run(main())


def test_where_all_receivers_are_full_the_first_that_has_room_gets_everything() -> None:
    async def main() -> None:
        world = await paired("failover")
        for reader in world.readers.values():
            reader.full = True
        count = await write_for(world, 300, 10)
        world.readers["two"].full = False
        await world.clock.sleep(90)
        assert all_stored(world, count)
        await world.stop()

    run(main())


@pytest.mark.parametrize("mode", ["failover", "balance"])
@pytest.mark.parametrize("code", [5, 6, 8])
def test_a_receiver_that_refuses_sources_for_their_own_faults_is_not_left(
    code: int, mode: str
) -> None:
    async def main() -> None:
        world = await balanced(NAMES, mode=mode, stall_seconds=STALL_SECONDS, timeout_seconds=4.0)
        for reader in world.readers.values():
            reader.refuse = lambda frame: (code, "not this one")
        write_all(world, 0, 10)
        agent = world.start()
        await world.clock.sleep(10 * STALL_SECONDS)
        assert sum(reader.connections for reader in world.readers.values()) == len(
            agent.connection.connectors
        )
        assert agent.status().problem == ""
        await world.stop()

    run(main())


@pytest.mark.parametrize("mode", ["failover", "balance"])
def test_a_receiver_that_takes_some_sources_and_refuses_others_is_not_left(mode: str) -> None:
    async def main() -> None:
        world = await balanced(NAMES, mode=mode, stall_seconds=STALL_SECONDS, timeout_seconds=4.0)
        refused = PATHS[0].encode()
        for reader in world.readers.values():
            reader.refuse = lambda frame: (3, "full") if refused in frame.attributes else None
        count = 0
        agent = world.start()
        count = await write_for(world, int(10 * STALL_SECONDS), count)
        assert sum(reader.connections for reader in world.readers.values()) == len(
            agent.connection.connectors
        )
        assert nothing_twice(world)
        await world.stop()

    run(main())
