"""A rate: so many events or bytes of a source a second, with a burst; the rest is counted."""

from agent.events.event import Event
from tests.agent.events.processors.steps import Steps


def _events(count: int, size: int = 10) -> list[Event]:
    return [Event(n * size, (n + 1) * size, "x" * (size - 1)) for n in range(count)]


def test_events_over_the_burst_are_dropped_until_time_has_passed() -> None:
    steps = Steps("processor = [{ rate_limit = { events_per_second = 2, burst = 3 } }]")

    assert len(steps.of_events(*_events(5))) == 3
    assert steps.of_events(*_events(5)) == []
    steps.now += 1
    assert len(steps.of_events(*_events(5))) == 2
    steps.now += 100
    assert len(steps.of_events(*_events(5))) == 3
    assert steps.counts() == [("rate_limit", "", 12, 120)]


def test_a_rate_below_one_event_a_second_lets_one_pass() -> None:
    steps = Steps("processor = [{ rate_limit = { events_per_second = 0.01 } }]")

    assert len(steps.of_events(*_events(2))) == 1
    steps.now += 99
    assert steps.of_events(*_events(2)) == []
    steps.now += 2
    assert len(steps.of_events(*_events(2))) == 1


def test_bytes_are_limited_and_a_long_event_passes_at_the_expense_of_later_ones() -> None:
    steps = Steps("processor = [{ rate_limit = { bytes_per_second = 10, burst = 20 } }]")

    assert len(steps.of_events(*_events(2, size=50))) == 1
    steps.now += 3
    assert steps.of_events(*_events(1)) == []
    steps.now += 1
    assert len(steps.of_events(*_events(3))) == 1
    assert steps.counts() == [("rate_limit", "", 4, 80)]
