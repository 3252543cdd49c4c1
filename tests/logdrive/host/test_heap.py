"""The heap is trimmed once, some seconds after held memory fell by much, and only then."""

import asyncio
import gc

import pytest

from logdrive.host.heap import Heap, give_back_freed_memory, without_collections
from logdrive.model.units import KIB, MIB
from tests.support import virtual_time


def trims(*steps: tuple[float, int]) -> list[float]:
    """Return the times of trims if each step, some seconds after the last, holds some MiB more."""

    async def scene() -> list[float]:
        loop, found = asyncio.get_running_loop(), []
        heap = Heap(lambda: found.append(loop.time()))
        for seconds, change in steps:
            await asyncio.sleep(seconds)
            heap.add_held(change * MIB)
        await asyncio.sleep(60)
        return found

    return virtual_time.run(scene())


def test_after_a_peak_the_heap_is_trimmed_once() -> None:
    assert trims((0, 100), (1, -60), (1, -40)) == [6.0]


def test_what_comes_and_goes_in_small_amounts_is_kept() -> None:
    assert trims(*[(0.1, 10), (0.1, -10)] * 100) == []


def test_many_small_connections_that_close_are_a_peak_too() -> None:
    assert len(trims(*[(0, 1)] * 40, *[(0, -1)] * 40)) == 1


def test_a_second_peak_is_followed_by_a_second_trim() -> None:
    assert trims((0, 100), (0, -100), (20, 100), (0, -100)) == [5.0, 25.0]


def test_a_peak_that_stays_is_left_alone() -> None:
    assert trims((0, 100), (3600, -10)) == []


def test_objects_are_collected_after_many_connections_have_left_and_not_after_windows() -> None:
    async def scene(connections: int) -> list[str]:
        found: list[str] = []
        heap = Heap(lambda: found.append("trim"), lambda: found.append("collect"))
        heap.add_held(100 * MIB)
        for _ in range(connections):
            heap.add_held(32 * KIB)
        for _ in range(connections):
            heap.on_connection_closed(32 * KIB)
        heap.add_held(-100 * MIB)
        await asyncio.sleep(60)
        return found

    assert virtual_time.run(scene(1000)) == ["collect", "trim"]
    assert virtual_time.run(scene(10)) == ["trim"]


def test_the_heap_of_this_process_can_be_trimmed_whatever_its_c_library() -> None:
    give_back_freed_memory()


def test_the_collector_rests_in_a_block_and_goes_on_after_it_also_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), without_collections():
        1 / gc.isenabled()  # False: the block ends with an error
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    with without_collections():
        with without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
