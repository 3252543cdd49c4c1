"""Turns: when one is over, and who gets the next."""

import asyncio

from logdrive.net.turns import PORTION_SECONDS, Turns
from logdrive.services.pravega.server.segments.turn import TURN_STEPS, Turn
from tests.support import virtual_time
from tests.support.pravega_peer import virtually


@virtually
async def test_a_turn_ends_with_its_steps_or_its_time_and_waiting_gives_back_time_alone() -> None:
    turn = Turn(Turns())
    for _ in range(TURN_STEPS - 1):
        turn.step()
    assert not turn.over
    turn.step()
    assert turn.over
    turn.resume()
    assert turn.over
    await turn.next()
    assert not turn.over
    await asyncio.sleep(PORTION_SECONDS)
    assert turn.over
    turn.resume()
    assert not turn.over


def test_one_turn_is_given_each_time_round_the_loop_in_order_however_many_wait() -> None:
    async def main() -> None:
        turns, given = Turns(), list[tuple[int, int]]()
        rounds = 0

        async def greedy(number: int) -> None:
            turn = Turn(turns)
            for _ in range(3):
                await turn.next()
                given.append((rounds, number))

        tasks = [asyncio.create_task(greedy(number)) for number in range(4)]
        while not all(task.done() for task in tasks):
            rounds += 1
            await asyncio.sleep(0)
        assert [number for _, number in given] == [0, 1, 2, 3] * 3
        assert len({when for when, _ in given}) == len(given)

    virtual_time.run(main())


def test_who_no_longer_waits_costs_the_others_no_turn() -> None:
    async def main() -> None:
        turns = Turns()
        first, second = (asyncio.create_task(turns.wait_turn()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()
        await turns.wait_turn()

    virtual_time.run(main())
