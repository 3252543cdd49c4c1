import asyncio
import time

import pytest

from tests.support.inline import InlineExecutor
from tests.support.virtual_time import EPOCH_MS, DeadlockError, VirtualClock, run


def test_an_hour_takes_no_time() -> None:
    async def main() -> tuple[float, int]:
        clock = VirtualClock()
        await clock.sleep(3600)
        return clock.monotonic(), clock.now_ms()

    started = time.monotonic()
    assert run(main()) == (3600.0, EPOCH_MS + 3_600_000)
    assert time.monotonic() - started < 5


def test_timers_run_in_the_order_of_their_time() -> None:
    async def main() -> list[float]:
        order: list[float] = []

        async def note(after: float) -> None:
            await asyncio.sleep(after)
            order.append(after)

        async with asyncio.TaskGroup() as group:
            for after in (3.0, 1.0, 2.0, 0.1, 1e6):
                group.create_task(note(after))
        return order

    assert run(main()) == [0.1, 1.0, 2.0, 3.0, 1e6]


def test_timeouts_run_on_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == 30.0


def test_a_deadlock_is_named_not_waited_for() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(stuck(), name="the stuck one")

    with pytest.raises(DeadlockError, match="the stuck one"):
        run(main())


def test_the_inline_executor_runs_calls_in_order_after_the_other_tasks_turn() -> None:
    async def main() -> list[str]:
        order: list[str] = []
        executor = InlineExecutor(delay=1.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(executor.run(order.append, "first"))
            group.create_task(executor.run(order.append, "second"))
            await asyncio.sleep(0.5)
            order.append("meanwhile")
        return order

    assert run(main()) == ["meanwhile", "first", "second"]


def test_a_scenario_that_is_too_long_for_its_timers_is_refused_and_does_not_hang() -> None:
    with pytest.raises(OverflowError, match="half a year"):
        run(asyncio.sleep(200 * 86_400))
