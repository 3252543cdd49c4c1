"""A connection reads only while the bytes not durable yet, its own and all, are within limits."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from logdrive.model.units import KIB, MIB
from receiver.memory_budget import Allocation, MemoryBudget
from tests.support import virtual_time

Scenario = Callable[[], Coroutine[Any, Any, None]]


def in_virtual_time(scenario: Scenario) -> Callable[[], None]:
    def test() -> None:
        virtual_time.run(scenario())

    test.__name__ = scenario.__name__
    return test


async def _admitted(account: Allocation) -> bool:
    task = asyncio.create_task(account.wait_admitted())
    await asyncio.sleep(0)
    if task.done():
        return True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return False


@in_virtual_time
async def test_connection_stops_at_its_own_limit_and_goes_on_once_its_batches_are_durable() -> None:
    memory = MemoryBudget(total=100 * MIB, per_connection=MIB)
    full, other = memory.open_allocation(), memory.open_allocation()
    full.add_submitted(2 * MIB)
    assert not await _admitted(full)
    assert await _admitted(other)
    waiting = asyncio.create_task(full.wait_admitted())
    await asyncio.sleep(0)
    full.remove_submitted(2 * MIB)
    await asyncio.wait_for(waiting, 1)


@in_virtual_time
async def test_all_stop_at_the_total_and_go_on_in_the_order_in_which_they_came() -> None:
    memory = MemoryBudget(total=10 * MIB, per_connection=100 * MIB)
    full, first, second = (
        memory.open_allocation(),
        memory.open_allocation(),
        memory.open_allocation(),
    )
    full.add_submitted(11 * MIB)
    order: list[str] = []

    async def wait(account: Allocation, name: str) -> None:
        await account.wait_admitted()
        order.append(name)

    tasks = [asyncio.create_task(wait(first, "first")), asyncio.create_task(wait(second, "second"))]
    await asyncio.sleep(1)
    assert order == []
    full.remove_submitted(11 * MIB)
    await asyncio.wait_for(asyncio.gather(*tasks), 1)
    assert order == ["first", "second"]


@in_virtual_time
async def test_those_who_wait_are_let_in_a_few_at_a_time_as_their_bytes_are_not_known_yet() -> None:
    memory = MemoryBudget(total=10 * MIB, per_connection=100 * MIB)
    full = memory.open_allocation()
    full.add_submitted(11 * MIB)
    accounts = [memory.open_allocation() for _ in range(30)]
    tasks = [asyncio.create_task(account.wait_admitted()) for account in accounts]
    await asyncio.sleep(1)
    full.remove_submitted(11 * MIB)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(task.done() for task in tasks) == 10
    await asyncio.wait_for(asyncio.gather(*tasks), 1)


@in_virtual_time
async def test_memory_full_unfinished_windows_lets_one_connection_at_time_finish_its_own() -> None:
    memory = MemoryBudget(total=10 * MIB, per_connection=100 * MIB)
    first, second = memory.open_allocation(), memory.open_allocation()
    first.set_buffered(6 * MIB)
    second.set_buffered(6 * MIB)
    assert await _admitted(first)
    assert first.overdrawn_seconds_left is not None
    assert not await _admitted(second)
    first.set_buffered(0)  # its window is whole and on its way
    first.add_submitted(6 * MIB)
    assert not await _admitted(second)
    first.remove_submitted(6 * MIB)
    assert first.overdrawn_seconds_left is None
    assert await _admitted(second)


@in_virtual_time
async def test_a_connection_that_goes_away_gives_back_what_it_held_and_its_turn() -> None:
    memory = MemoryBudget(total=10 * MIB, per_connection=100 * MIB)
    first, second = memory.open_allocation(), memory.open_allocation()
    first.set_buffered(6 * MIB)
    second.set_buffered(6 * MIB)
    await first.wait_admitted()
    waiting = asyncio.create_task(second.wait_admitted())
    await asyncio.sleep(0)
    first.release_buffered()
    await asyncio.wait_for(waiting, 1)
    assert memory.used == 6 * MIB
    assert first.overdrawn_seconds_left is None


@in_virtual_time
async def test_who_gives_up_waiting_is_forgotten() -> None:
    memory = MemoryBudget(total=10 * MIB, per_connection=100 * MIB)
    full, gone = memory.open_allocation(), memory.open_allocation()
    full.add_submitted(11 * MIB)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await gone.wait_admitted()
    full.remove_submitted(11 * MIB)
    assert await _admitted(full)


# Parts of windows that fill the memory ----------------------------------------------------------


class Closed:
    """Which accounts were told to go, in order, and why."""

    def __init__(self, **accounts: Allocation) -> None:
        self.names: list[str] = []
        self.reasons: list[str] = []
        for name, account in accounts.items():
            account.on_evict = partial(self._note, name, account)

    def _note(self, name: str, account: Allocation, reason: str) -> None:
        self.names.append(name)
        self.reasons.append(reason)
        account.release_buffered()


def _waits(account: Allocation) -> "asyncio.Task[None]":
    return asyncio.create_task(account.wait_admitted())


@in_virtual_time
async def test_the_last_quarter_is_for_connections_that_hold_little() -> None:
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    large, other, small = (
        memory.open_allocation(),
        memory.open_allocation(),
        memory.open_allocation(),
    )
    large.set_buffered(7 * MIB)
    other.set_buffered(6 * MIB)
    assert await _admitted(large)
    assert large.overdrawn_seconds_left is not None
    assert not await _admitted(other)
    assert await _admitted(small)
    small.set_buffered(200 * KIB)
    assert await _admitted(small)
    small.set_buffered(MIB)
    assert not await _admitted(small), "it holds no longer little"


@in_virtual_time
async def test_who_opens_something_large_leaves_the_last_quarter_to_those_that_hold_little() -> (
    None
):
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    full, opener, short = (memory.open_allocation() for _ in range(3))
    full.add_submitted(10 * MIB)
    opener.opening = 4 * MIB
    assert not await _admitted(opener)
    assert await _admitted(short)
    full.remove_submitted(4 * MIB)
    assert await _admitted(opener)


@in_virtual_time
async def test_who_opens_more_than_memory_has_is_let_in_all_the_same() -> None:
    memory = MemoryBudget(total=8 * MIB, per_connection=100 * MIB)
    opener, waits, third = (memory.open_allocation() for _ in range(3))
    opener.opening = waits.opening = 12 * MIB
    assert await _admitted(opener)
    opener.set_buffered(2 * MIB)
    third.set_buffered(2 * MIB)
    # nothing that is submitted can make room for what these would open: one goes beyond the limit
    assert await _admitted(waits)
    assert not await _admitted(opener)
    waits.release_buffered()
    assert await _admitted(opener)


@in_virtual_time
async def test_who_holds_most_without_progress_goes_first_and_no_more_than_are_needed() -> None:
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    small, large, middle, comer = (memory.open_allocation() for _ in range(4))
    closed = Closed(small=small, large=large, middle=middle)
    for account, size in ((small, 1), (large, 9), (middle, 7)):
        account.set_buffered(size * MIB)
        account.begin_read()
    assert await _admitted(large)
    waiting = _waits(comer)
    await asyncio.sleep(0.5)
    assert closed.names == []
    await asyncio.wait_for(waiting, 2)
    assert closed.names == ["large"]
    assert "9437184 bytes" in closed.reasons[0]
    assert memory.used == 8 * MIB


@in_virtual_time
async def test_nobody_is_closed_while_nobody_waits_or_while_the_disk_makes_the_room() -> None:
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    idle, full, comer = memory.open_allocation(), memory.open_allocation(), memory.open_allocation()
    closed = Closed(idle=idle)
    idle.set_buffered(11 * MIB)
    idle.begin_read()
    full.add_submitted(10 * MIB)
    await asyncio.sleep(60)
    waiting = _waits(comer)
    await asyncio.sleep(60)
    assert closed.names == []
    full.remove_submitted(10 * MIB)
    await asyncio.wait_for(waiting, 1)


@in_virtual_time
async def test_who_waits_for_us_or_gets_on_is_not_closed() -> None:
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    steady, ours, comer = (
        memory.open_allocation(),
        memory.open_allocation(),
        memory.open_allocation(),
    )
    closed = Closed(steady=steady, ours=ours)
    steady.set_buffered(8 * MIB)
    ours.set_buffered(9 * MIB)  # it does not read: it waits for memory, or for its turn
    assert await _admitted(steady)
    waiting = [_waits(ours), _waits(comer)]
    for number in range(1, 20):
        steady.begin_read()
        await asyncio.sleep(0.2)
        steady.end_read()
        steady.set_buffered(8 * MIB + number * 100 * KIB)
    assert closed.names == []
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@in_virtual_time
async def test_who_sends_a_byte_now_and_then_makes_no_progress() -> None:
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    trickle, comer = memory.open_allocation(), memory.open_allocation()
    closed = Closed(trickle=trickle)
    trickle.set_buffered(17 * MIB)
    assert await _admitted(trickle)
    waiting = _waits(comer)
    for number in range(1, 10):
        trickle.begin_read()
        await asyncio.sleep(0.3)
        trickle.end_read()
        if closed.names:
            break
        trickle.set_buffered(17 * MIB + number)
    assert closed.names == ["trickle"]
    await asyncio.wait_for(waiting, 1)


@in_virtual_time
async def test_connection_holds_nothing_and_says_nothing_keeps_nobody_waiting_and_not_closed() -> (
    None
):
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    full, quiet, comer = (
        memory.open_allocation(),
        memory.open_allocation(),
        memory.open_allocation(),
    )
    closed = Closed(quiet=quiet)
    full.set_buffered(17 * MIB)
    assert await _admitted(quiet)
    quiet.begin_read()
    await asyncio.wait_for(_waits(comer), 1)
    assert not await _admitted(quiet)
    assert closed.names == []


@in_virtual_time
async def test_who_waits_for_us_gives_way_at_last_where_not_even_short_windows_go_through() -> None:
    memory = MemoryBudget(total=16 * MIB, per_connection=100 * MIB)
    overdrawn, large, little, comer = (memory.open_allocation() for _ in range(4))
    closed = Closed(large=large, little=little)
    for account, size in ((overdrawn, 8 * MIB), (large, 9 * MIB), (little, 100 * KIB)):
        account.set_buffered(size)
    assert await _admitted(overdrawn)
    waiting = [_waits(account) for account in (large, little, comer)]
    for number in range(1, 40):  # it gets on, and never ends
        overdrawn.begin_read()
        await asyncio.sleep(0.2)
        overdrawn.end_read()
        overdrawn.set_buffered(8 * MIB + number * 100 * KIB)
        if number == 20:
            assert closed.names == []
    assert closed.names == ["large", "little"], "who holds most first"
    await asyncio.wait_for(waiting[2], 1)
    for task in waiting[:2]:
        task.cancel()
