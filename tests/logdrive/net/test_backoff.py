"""Waits grow, are spread at random, repeat with their seed, and start anew after success."""

import random

import pytest

from logdrive.errors import ProtocolError, TransientError
from logdrive.net.backoff import Backoff, retrying
from tests.support.virtual_time import VirtualClock, run


def test_each_wait_lies_between_zero_and_a_ceiling_that_doubles_up_to_the_maximum() -> None:
    ceilings = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    waits = [
        [backoff.next() for _ in ceilings]
        for backoff in (Backoff(1.0, 30.0, random.Random(seed)) for seed in range(300))
    ]
    for ceiling, drawn in zip(ceilings, zip(*waits, strict=True), strict=True):
        assert min(drawn) >= 0
        assert 0.9 * ceiling < max(drawn) <= ceiling
        assert 0.4 * ceiling < sum(drawn) / len(drawn) < 0.6 * ceiling


def test_a_seed_repeats_every_wait() -> None:
    first, second = Backoff(0.5, 60.0, random.Random(11)), Backoff(0.5, 60.0, random.Random(11))
    assert [first.next() for _ in range(20)] == [second.next() for _ in range(20)]


def test_after_a_reset_ceiling_is_initial_one_and_a_thousand_failures_overflow_nothing() -> None:
    backoff = Backoff(1.0, 60.0, random.Random(3))
    for _ in range(2000):
        assert backoff.next() <= 60.0
    assert backoff.failures == 2000
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next() <= 1.0


def test_a_call_is_tried_again_after_transient_errors_only_on_the_given_clock() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        calls: list[float] = []

        async def call(failures: int) -> str:
            calls.append(clock.monotonic())
            if len(calls) <= failures:
                raise TransientError("not yet")
            return "done"

        assert (
            await retrying(initial=10, maximum=3600, random=random.Random(5), clock=clock)(call, 6)
            == "done"
        )
        assert len(calls) == 7
        assert calls == sorted(calls)
        assert calls[-1] > 10
        calls.clear()
        with pytest.raises(TransientError, match="not yet"):
            await retrying(initial=1, maximum=2, random=random.Random(5), clock=clock, attempts=3)(
                call, 9
            )
        assert len(calls) == 3

    run(scenario())


def test_other_failures_are_not_tried_again() -> None:
    async def scenario() -> None:
        calls = 0

        async def call() -> None:
            nonlocal calls
            calls += 1
            raise ProtocolError("no", offset=0)

        with pytest.raises(ProtocolError):
            await retrying(initial=1, maximum=2, random=random.Random(5), clock=VirtualClock())(
                call
            )
        assert calls == 1

    run(scenario())
