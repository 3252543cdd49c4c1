"""Waiting longer after each failure, spread at random so that a thousand clients don't come back at
once.

Full jitter: the n-th wait is uniform between 0 and initial · 2^(n-1), never beyond the maximum.
Time and randomness are arguments, so that a seed repeats every wait.

A connection that lives long wants `Backoff`: its loop asks for the next wait after each failure and
resets it once the connection has proved itself. A single call that may be tried again wants
`retrying`.
"""

import random as random_module

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    stop_never,
    wait_exponential,
)

from logdrive.errors import TransientError
from logdrive.host.clock import Clock


class FullJitter(wait_exponential):
    """tenacity's exponential wait as the ceiling of a draw from the given *random*, which its own
    jitter does not take.
    """

    def __init__(self, initial: float, maximum: float, random: random_module.Random) -> None:
        super().__init__(multiplier=initial, max=maximum)
        self._random = random

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait after the attempt that *retry_state* tells of."""
        return self._random.uniform(0, super().__call__(retry_state=retry_state))


class Backoff:
    """The waits of one connection loop, in seconds."""

    def __init__(self, initial: float, maximum: float, random: random_module.Random) -> None:
        self._wait = FullJitter(initial, maximum, random)
        self.failures = 0
        """How often in a row it failed."""

    def next(self) -> float:
        """Count a failure and return how long to wait now."""
        self.failures += 1
        state = RetryCallState(AsyncRetrying(), None, (), {})
        state.attempt_number = self.failures
        return self._wait(state)

    def reset(self) -> None:
        """Start anew: the connection has proved itself, by an acknowledgement rather than by its
        handshake.
        """
        self.failures = 0


def retrying(
    *,
    initial: float,
    maximum: float,
    random: random_module.Random,
    clock: Clock,
    attempts: int | None = None,
) -> AsyncRetrying:
    """Return what tries a call again after `TransientError`, at most *attempts* times in all; the
    last error is raised.

    `await retrying(…)(call, argument)`, or `async for attempt in retrying(…): with attempt: …`.
    """
    return AsyncRetrying(
        sleep=clock.sleep,
        wait=FullJitter(initial, maximum, random),
        stop=stop_never if attempts is None else stop_after_attempt(attempts),
        retry=retry_if_exception_type(TransientError),
        reraise=True,
    )
