"""Turns: when one is over, and which task has the next."""

import asyncio

from logdrive.net.turns import PORTION_SECONDS, Turns
from logdrive.services.pravega.server.segments.turn import TURN_STEPS, ConnectionTurn
from tests.support import virtual_time
from tests.support.pravega.peer import virtually


@virtually
async def test_a_turn_ends_after_its_steps_or_its_time_and_waiting_resets_only_the_time() -> None:
    turn = ConnectionTurn(Turns())
    for _ in range(TURN_STEPS - 1):
        turn.count_step()
    assert not turn.is_over
    turn.count_step()
    assert turn.is_over
    turn.restart_clock()
    assert turn.is_over
    await turn.next_turn()
    assert not turn.is_over
    await asyncio.sleep(PORTION_SECONDS)
    assert turn.is_over
    turn.restart_clock()
    assert not turn.is_over


def test_each_round_of_the_loop_has_one_turn_in_order() -> None:
    async def main() -> None:
        turns, given = Turns(), list[tuple[int, int]]()
        rounds = 0

        async def greedy(number: int) -> None:
            turn = ConnectionTurn(turns)
            for _ in range(3):
                await turn.next_turn()
                given.append((rounds, number))

        tasks = [asyncio.create_task(greedy(number)) for number in range(4)]
        while not all(task.done() for task in tasks):
            rounds += 1
            await asyncio.sleep(0)
        assert [number for _, number in given] == [0, 1, 2, 3] * 3
        assert len({when for when, _ in given}) == len(given)

    virtual_time.run(main())


def test_a_cancelled_wait_costs_no_turn() -> None:
    async def main() -> None:
        turns = Turns()
        first, second = (asyncio.create_task(turns.wait_turn()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()
        await turns.wait_turn()

    virtual_time.run(main())
