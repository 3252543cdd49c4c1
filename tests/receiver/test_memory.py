"""Bounded memory: a connection reads only while what it and all hold, not yet durable, is below the limits."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from logdrive.limits import MIB
from receiver.memory import Account, Memory
from tests.support import virtual_time

Scenario = Callable[[], Coroutine[Any, Any, None]]


def in_virtual_time(scenario: Scenario) -> Callable[[], None]:
    def test() -> None:
        virtual_time.run(scenario())

    test.__name__ = scenario.__name__
    return test


async def _admitted(account: Account) -> bool:
    task = asyncio.create_task(account.admit())
    await asyncio.sleep(0)
    if task.done():
        return True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return False


@in_virtual_time
async def test_a_connection_stops_at_its_own_limit_and_goes_on_once_its_batches_are_durable() -> None:
    memory = Memory(total=100 * MIB, per_connection=MIB)
    full, other = memory.account(), memory.account()
    full.submit(2 * MIB)
    assert not await _admitted(full)
    assert await _admitted(other)
    waiting = asyncio.create_task(full.admit())
    await asyncio.sleep(0)
    full.settle(2 * MIB)
    await asyncio.wait_for(waiting, 1)


@in_virtual_time
async def test_all_stop_at_the_total_and_go_on_in_the_order_in_which_they_came() -> None:
    memory = Memory(total=10 * MIB, per_connection=100 * MIB)
    full, first, second = memory.account(), memory.account(), memory.account()
    full.submit(11 * MIB)
    order: list[str] = []

    async def wait(account: Account, name: str) -> None:
        await account.admit()
        order.append(name)

    tasks = [asyncio.create_task(wait(first, "first")), asyncio.create_task(wait(second, "second"))]
    await asyncio.sleep(1)
    assert order == []
    full.settle(11 * MIB)
    await asyncio.wait_for(asyncio.gather(*tasks), 1)
    assert order == ["first", "second"]


@in_virtual_time
async def test_those_who_wait_are_let_in_a_few_at_a_time_as_their_bytes_are_not_known_yet() -> None:
    memory = Memory(total=10 * MIB, per_connection=100 * MIB)
    full = memory.account()
    full.submit(11 * MIB)
    accounts = [memory.account() for _ in range(30)]
    tasks = [asyncio.create_task(account.admit()) for account in accounts]
    await asyncio.sleep(1)
    full.settle(11 * MIB)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(task.done() for task in tasks) == 10
    await asyncio.wait_for(asyncio.gather(*tasks), 1)


@in_virtual_time
async def test_memory_full_of_unfinished_windows_lets_one_connection_at_a_time_finish_its_own() -> None:
    memory = Memory(total=10 * MIB, per_connection=100 * MIB)
    first, second = memory.account(), memory.account()
    first.hold(6 * MIB)
    second.hold(6 * MIB)
    assert await _admitted(first)
    assert first.overdrawn_since is not None
    assert not await _admitted(second)
    first.hold(0)  # its window is whole and on its way
    first.submit(6 * MIB)
    assert not await _admitted(second)
    first.settle(6 * MIB)
    assert first.overdrawn_since is None
    assert await _admitted(second)


@in_virtual_time
async def test_a_connection_that_goes_away_gives_back_what_it_held_and_its_turn() -> None:
    memory = Memory(total=10 * MIB, per_connection=100 * MIB)
    first, second = memory.account(), memory.account()
    first.hold(6 * MIB)
    second.hold(6 * MIB)
    await first.admit()
    waiting = asyncio.create_task(second.admit())
    await asyncio.sleep(0)
    first.close()
    await asyncio.wait_for(waiting, 1)
    assert memory.used == 6 * MIB
    assert first.overdrawn_since is None


@in_virtual_time
async def test_who_gives_up_waiting_is_forgotten() -> None:
    memory = Memory(total=10 * MIB, per_connection=100 * MIB)
    full, gone = memory.account(), memory.account()
    full.submit(11 * MIB)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await gone.admit()
    full.settle(11 * MIB)
    assert await _admitted(full)
