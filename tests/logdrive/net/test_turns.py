"""Turns: in each round of the loop, one of the tasks with much to do goes on, in the order in which
they asked.
"""

import asyncio
import contextlib

from logdrive.net.turns import Portion, Turns
from tests.support import virtual_time

ROUNDS = 40


class Log:
    """The steps that were done in each round of the loop."""

    def __init__(self) -> None:
        self.round = 0
        self.done: list[tuple[int, str]] = []

    async def count(self) -> None:
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
            self.round += 1

    async def work(self, turns: Turns, name: str, times: int) -> None:
        for _ in range(times):
            await turns.wait_turn()
            self.done.append((self.round, name))


def test_one_task_goes_on_in_each_round_in_the_order_in_which_they_asked() -> None:
    async def scene() -> Log:
        log, turns = Log(), Turns()
        async with asyncio.TaskGroup() as group:
            group.create_task(log.count())
            for name in "abc":
                group.create_task(log.work(turns, name, 4))
        return log

    log = virtual_time.run(scene())
    assert [name for _, name in log.done] == ["a", "b", "c"] * 4
    rounds = [number for number, _ in log.done]
    assert len(set(rounds)) == len(rounds)
    assert max(rounds) < ROUNDS


def test_a_cancelled_task_does_not_delay_the_others() -> None:
    async def scene() -> Log:
        log, turns = Log(), Turns()
        tasks = [asyncio.create_task(log.work(turns, name, 1)) for name in "abcd"]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[2].cancel()
        async with asyncio.timeout(1):
            await asyncio.gather(*tasks, return_exceptions=True)
            await log.work(turns, "e", 1)
        return log

    assert [name for _, name in virtual_time.run(scene()).done] == ["b", "d", "e"]


def test_a_portion_is_so_many_steps_and_the_others_run_before_the_next() -> None:
    async def scene() -> list[int]:
        portion, done, seen = Portion(Turns(), 5), 0, []

        async def watch() -> None:
            while True:
                seen.append(done)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        for _ in range(20):
            done += 1
            await portion.end_step()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        return seen

    seen = virtual_time.run(scene())
    assert {5, 10, 15} <= set(seen) <= {0, 5, 10, 15, 20}
