"""Retry loops, carried by tenacity: which failures are tried again, how long to wait between two
attempts, and when to give up. No other module imports tenacity.

- A call that is repeated until it succeeds: `retry_async` and `retry_blocking` return tenacity's
  retrying object. Call it with the function and its arguments.
- A connection that is made again and again: the same, with a `Backoff`, whose waits begin anew once
  a connection has proved itself.
- A state machine that only asks when to try next: `Exponential.after`.

The waits are tenacity wait strategies. tenacity's own jitter draws from the global generator; here
randomness and sleep are arguments, so that a simulated history repeats every wait.
"""

from collections.abc import Awaitable, Callable
from random import Random

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_never,
    wait_fixed,
)
from tenacity.wait import wait_base

__all__ = [
    "AsyncRetrying",
    "Backoff",
    "Exponential",
    "FullJitter",
    "Retrying",
    "retry_async",
    "retry_blocking",
    "sleep_using_event",
    "wait_fixed",
]

_MOST_DOUBLINGS = 64
"""Limit on the exponent, so that no number of failures overflows a float."""

ErrorTypes = type[Exception] | tuple[type[Exception], ...]
OnFailure = Callable[[BaseException, float], None]
"""Called with the failure and the seconds until the next attempt, before they are waited for."""


class Exponential(wait_base):
    """Waits of *first*, 2 · *first*, 4 · *first* … seconds, never more than *longest*."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first  # seconds
        self._longest = longest  # seconds

    def after(self, failures: int) -> float:
        """Return the seconds to wait after this many *failures* in a row, 1 or more."""
        return min(self._longest, self._first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait after the attempt of *retry_state*."""
        return self.after(retry_state.attempt_number)


class FullJitter(Exponential):
    """Waits drawn evenly between 0 and the exponential one, so that a thousand clients that failed
    at once do not come back at once.
    """

    def __init__(self, first: float, longest: float, random: Random) -> None:
        super().__init__(first, longest)
        self._random = random  # an argument, so that simulated waits repeat

    def after(self, failures: int) -> float:
        """Draw the seconds to wait after this many *failures* in a row, 1 or more."""
        return self._random.uniform(0, super().after(failures))


class Backoff(wait_base):
    """The waits of *wait* with a count of their own, for a loop whose attempts may succeed for a
    while before they fail: a connection, a streaming query.
    """

    def __init__(self, wait: Exponential) -> None:
        self._wait = wait
        self.failures = 0
        """Failures since the start or the last `reset`."""

    def __call__(self, retry_state: RetryCallState) -> float:
        """Count the failure of *retry_state* and return the seconds to wait."""
        return self.next_wait()

    def next_wait(self) -> float:
        """Count a failure and return the seconds to wait."""
        self.failures += 1
        return self._wait.after(self.failures)

    def reset(self) -> None:
        """Begin again with the first wait.

        To be called once an attempt has proved itself: by an acknowledgement, not by a handshake,
        which a receiver that can't store anything completes, too.
        """
        self.failures = 0


class _ByError(wait_base):
    """Waits that *seconds_after* chooses by the failure."""

    def __init__(self, seconds_after: Callable[[BaseException], float]) -> None:
        self._seconds_after = seconds_after

    def __call__(self, retry_state: RetryCallState) -> float:
        return self._seconds_after(_failure(retry_state))


def retry_async(
    errors: ErrorTypes,
    *,
    sleep: Callable[[float], Awaitable[None]],
    wait: wait_base | Callable[[BaseException], float],
    unless: Callable[[BaseException], bool] = lambda _: False,
    give_up: Callable[[int], bool] | None = None,
    on_failure: OnFailure | None = None,
) -> AsyncRetrying:
    """Return what calls a coroutine function again after *errors*: `await retry_async(…)(call, …)`.
    A lambda that returns a coroutine is none.

    *wait* chooses the seconds between two attempts, by their number or by the failure, and *sleep*
    waits for them. An error for which *unless* is true is raised at once. After each attempt that
    failed *give_up* is asked with the number of attempts, and if it returns True, the error is
    raised. Cancellation and all other exceptions are raised as they are.
    """
    return AsyncRetrying(
        sleep=sleep,
        wait=wait if isinstance(wait, wait_base) else _ByError(wait),
        retry=retry_if_exception(lambda error: isinstance(error, errors) and not unless(error)),
        stop=_stop(give_up),
        before_sleep=_before_sleep(on_failure),
        reraise=True,
    )


def retry_blocking(
    errors: ErrorTypes,
    *,
    sleep: Callable[[float], None],
    wait: wait_base,
    unless: Callable[[BaseException], bool] = lambda _: False,
    give_up: Callable[[int], bool] | None = None,
    on_failure: OnFailure | None = None,
) -> Retrying:
    """Return what calls a plain function again, as `retry_async` does a coroutine function."""
    return Retrying(
        sleep=sleep,
        wait=wait,
        retry=retry_if_exception(lambda error: isinstance(error, errors) and not unless(error)),
        stop=_stop(give_up),
        before_sleep=_before_sleep(on_failure),
        reraise=True,
    )


def _failure(state: RetryCallState) -> BaseException:
    """Return what the attempt of *state* raised; only errors are tried again, so there is one."""
    error = state.outcome.exception() if state.outcome is not None else None
    assert error is not None
    return error


def _stop(give_up: Callable[[int], bool] | None) -> Callable[[RetryCallState], bool]:
    if give_up is None:
        return stop_never
    return lambda state: give_up(state.attempt_number)


def _before_sleep(on_failure: OnFailure | None) -> Callable[[RetryCallState], None] | None:
    if on_failure is None:
        return None
    return lambda state: on_failure(_failure(state), state.upcoming_sleep)
