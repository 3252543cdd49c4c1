"""Each window is acknowledged once, in window order, in whatever order its runs become durable
(rule D1).
"""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.acks import AckQueue


@pytest.fixture
def sent() -> list[int]:
    return []


@pytest.fixture
def acks(sent: list[int]) -> AckQueue:
    return AckQueue(sent.extend)


def test_a_window_is_acknowledged_once_it_has_ended_and_nothing_holds_it(
    acks: AckQueue, sent: list[int]
) -> None:
    window = acks.hold_window()
    acks.end_window(7)
    assert sent == []
    acks.release_window(window)
    assert sent == [7]


def test_a_window_durable_before_its_end_is_acknowledged_at_its_end(
    acks: AckQueue, sent: list[int]
) -> None:
    acks.release_window(acks.hold_window())
    assert sent == []
    acks.end_window(3)
    assert sent == [3]


def test_a_later_window_waits_for_the_earlier_one(acks: AckQueue, sent: list[int]) -> None:
    first = acks.hold_window()
    acks.end_window(2)
    second = acks.hold_window()
    acks.end_window(4)
    acks.release_window(second)
    assert sent == []
    acks.release_window(first)
    assert sent == [2, 4]


def test_two_windows_with_the_same_last_number_get_two_acknowledgements(
    acks: AckQueue, sent: list[int]
) -> None:
    for _ in range(2):
        acks.release_window(acks.hold_window())
        acks.end_window(2048)
    assert sent == [2048, 2048]


def test_a_window_without_runs_of_ours_is_acknowledged_in_its_place(
    acks: AckQueue, sent: list[int]
) -> None:
    first = acks.hold_window()
    acks.end_window(1)
    acks.end_window(2)
    assert sent == []
    acks.release_window(first)
    assert sent == [1, 2]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 4), max_size=12), st.integers(0, 2**32))
def test_any_order_of_settling_acknowledges_all_windows_in_order(
    holds: list[int], seed: int
) -> None:
    sent: list[int] = []
    acks = AckQueue(sent.extend)
    windows = []
    for number, count in enumerate(holds, 1):
        windows += [acks.hold_window() for _ in range(count)]
        acks.end_window(number)
    random.Random(seed).shuffle(windows)
    for window in windows:
        acks.release_window(window)
        assert sent == sorted(sent)
    assert sent == list(range(1, len(holds) + 1))
    assert acks.unacknowledged == 0


def test_finished_waits_for_windows_that_have_ended_only() -> None:
    async def scenario() -> None:
        acks = AckQueue(lambda numbers: None)
        first = acks.hold_window()
        acks.end_window(1)
        acks.hold_window()  # of a window that never ends
        waiting = asyncio.create_task(acks.wait_finished())
        await asyncio.sleep(0)
        assert not waiting.done()
        acks.release_window(first)
        await asyncio.wait_for(waiting, 1)

    asyncio.run(scenario())
