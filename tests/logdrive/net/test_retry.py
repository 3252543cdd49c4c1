"""Waits grow, are spread at random, repeat with their seed, and begin again after a success."""

import asyncio
import random

import pytest

from logdrive.errors import ProtocolError, TransientError
from logdrive.net.retry import (
    Backoff,
    Exponential,
    FullJitter,
    retry_async,
    retry_blocking,
    wait_fixed,
)
from tests.support.virtual_time import VirtualClock, run


def jittered(first: float, longest: float, seed: int) -> Backoff:
    return Backoff(FullJitter(first, longest, random.Random(seed)))


class Flaky:
    """A function that fails some times before it returns "done", and notes when it was called."""

    def __init__(self, *failures: Exception) -> None:
        self.clock = VirtualClock()
        self.failures = list(failures)
        self.called_at: list[float] = []

    def call(self, at: float = 0.0) -> str:
        self.called_at.append(at)
        if self.failures:
            raise self.failures.pop(0)
        return "done"

    async def call_async(self) -> str:
        return self.call(self.clock.monotonic())


def transient(count: int) -> list[TransientError]:
    return [TransientError(f"not yet {number}") for number in range(count)]


def test_each_wait_lies_between_zero_and_a_ceiling_that_doubles_up_to_the_maximum() -> None:
    ceilings = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    waits = [
        [backoff.next_wait() for _ in ceilings]
        for backoff in (jittered(1.0, 30.0, seed) for seed in range(300))
    ]
    for ceiling, drawn in zip(ceilings, zip(*waits, strict=True), strict=True):
        assert min(drawn) >= 0
        assert 0.9 * ceiling < max(drawn) <= ceiling
        assert 0.4 * ceiling < sum(drawn) / len(drawn) < 0.6 * ceiling


def test_a_seed_repeats_every_wait() -> None:
    first, second = jittered(0.5, 60.0, 11), jittered(0.5, 60.0, 11)
    assert [first.next_wait() for _ in range(20)] == [second.next_wait() for _ in range(20)]


def test_after_a_reset_ceiling_is_initial_one_and_a_thousand_failures_overflow_nothing() -> None:
    backoff = jittered(1.0, 60.0, 3)
    for _ in range(2000):
        assert backoff.next_wait() <= 60.0
    assert backoff.failures == 2000
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next_wait() <= 1.0


def test_waits_without_jitter_double_up_to_the_longest() -> None:
    wait = Exponential(0.1, 5.0)
    assert [wait.after(failures) for failures in range(1, 9)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.6,
        3.2,
        5.0,
        5.0,
    ]
    assert wait.after(100_000) == 5.0


def test_a_call_is_repeated_after_errors_of_the_given_type_on_the_given_clock() -> None:
    async def scenario() -> None:
        flaky, noted = Flaky(*transient(4)), []
        retrying = retry_async(
            TransientError,
            sleep=flaky.clock.sleep,
            wait=Exponential(10.0, 40.0),
            on_failure=lambda error, seconds: noted.append((str(error), seconds)),
        )
        assert await retrying(flaky.call_async) == "done"
        assert flaky.called_at == [0.0, 10.0, 30.0, 70.0, 110.0]
        assert noted == [
            ("not yet 0", 10.0),
            ("not yet 1", 20.0),
            ("not yet 2", 40.0),
            ("not yet 3", 40.0),
        ]

    run(scenario())


def test_the_last_error_is_raised_once_a_caller_gives_up() -> None:
    async def scenario() -> None:
        flaky = Flaky(*transient(9))
        retrying = retry_async(
            TransientError,
            sleep=flaky.clock.sleep,
            wait=wait_fixed(1.0),
            give_up=lambda attempts: attempts >= 3,
        )
        with pytest.raises(TransientError, match="not yet 2"):
            await retrying(flaky.call_async)
        assert flaky.called_at == [0.0, 1.0, 2.0]

    run(scenario())


def test_other_errors_and_those_excepted_are_raised_at_once() -> None:
    async def scenario(error: Exception) -> None:
        flaky = Flaky(error)
        retrying = retry_async(
            TransientError,
            sleep=flaky.clock.sleep,
            wait=wait_fixed(1.0),
            unless=lambda error: "never" in str(error),
        )
        with pytest.raises(type(error)):
            await retrying(flaky.call_async)
        assert flaky.called_at == [0.0]

    run(scenario(ProtocolError("no", offset=0)))
    run(scenario(TransientError("never")))


def test_a_wait_may_depend_on_the_failure() -> None:
    async def scenario() -> None:
        flaky = Flaky(TransientError("5"), TransientError("2"))
        retrying = retry_async(
            TransientError, sleep=flaky.clock.sleep, wait=lambda error: float(str(error))
        )
        assert await retrying(flaky.call_async) == "done"
        assert flaky.called_at == [0.0, 5.0, 7.0]

    run(scenario())


def test_a_backoff_that_is_reset_while_a_call_goes_well_begins_with_the_first_wait_again() -> None:
    async def scenario() -> None:
        backoff = Backoff(Exponential(1.0, 60.0))
        flaky = Flaky(*transient(5))

        async def call() -> str:
            if len(flaky.called_at) == 3:
                backoff.reset()
            return await flaky.call_async()

        retrying = retry_async(TransientError, sleep=flaky.clock.sleep, wait=backoff)
        assert await retrying(call) == "done"
        assert flaky.called_at == [0.0, 1.0, 3.0, 7.0, 8.0, 10.0]

    run(scenario())


def test_cancelling_ends_a_wait_and_an_attempt() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        retrying = retry_async(TransientError, sleep=clock.sleep, wait=wait_fixed(1000.0))
        for call in (Flaky(*transient(9)).call_async, asyncio.Event().wait):
            task: asyncio.Future[object] = asyncio.ensure_future(retrying(call))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert clock.monotonic() == 2.0

    run(scenario())


def test_a_blocking_call_is_repeated_too() -> None:
    flaky = Flaky(*transient(3))
    slept: list[float] = []
    retrying = retry_blocking(TransientError, sleep=slept.append, wait=Exponential(0.1, 0.3))
    assert retrying(flaky.call) == "done"
    assert slept == [0.1, 0.2, 0.3]
