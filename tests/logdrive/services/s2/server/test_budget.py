"""The byte budget: in order, never beyond its total, and nothing is lost by those who give up."""

import asyncio

import pytest

from logdrive.services.s2.server.budget import ByteBudget
from tests.support.virtual_time import run


def test_bytes_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    async def main() -> None:
        budget = ByteBudget(100)
        first = await budget.take(60)
        order: list[str] = []

        async def take(name: str, size: int) -> None:
            async with budget.hold(size):
                order.append(name)
                await asyncio.sleep(1)

        tasks = [
            asyncio.create_task(take(name, size)) for name, size in (("big", 80), ("small", 1))
        ]
        await asyncio.sleep(1)
        assert order == []  # the small one does not overtake
        budget.give(first)
        await asyncio.gather(*tasks)
        assert order == ["big", "small"]
        assert budget.held == 0

    run(main())


def test_what_is_larger_than_the_budget_gets_it_alone() -> None:
    async def main() -> None:
        budget = ByteBudget(100)
        async with budget.hold(1000):
            assert budget.held == 100
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await budget.take(1)
        assert budget.held == 0
        async with budget.hold(1):
            assert budget.held == 1

    run(main())


def test_who_gives_up_loses_nothing_and_holds_up_nobody() -> None:
    async def main() -> None:
        budget = ByteBudget(100)
        held = await budget.take(100)
        waiting = [asyncio.create_task(budget.take(size)) for size in (90, 10, 10)]
        await asyncio.sleep(1)
        waiting[0].cancel()
        budget.give(20)
        await asyncio.sleep(1)
        assert [task.done() for task in waiting] == [True, True, True]
        waiting.append(asyncio.create_task(budget.take(50)))
        await asyncio.sleep(1)
        budget.give(held - 20)  # and given up in the same moment
        waiting[-1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert budget.held == 20

    run(main())
