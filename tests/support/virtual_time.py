"""An event loop whose time jumps to the next timer as soon as nothing else can run.

Hours of waiting take no time, and every run with the same inputs takes the same steps: tasks and
futures hash by their serial number, not by their address, so that sets of them (asyncio keeps some)
have one order. There are no sockets and no threads under it: use in-memory streams, `MemoryDisk`
and `InlineExecutor`. Where every task waits and no timer is left, nothing can ever happen again:
the loop raises `DeadlockError` naming the waiting tasks instead of hanging.
"""

import asyncio
import selectors
from collections.abc import Coroutine, Generator
from contextvars import Context
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""The wall clock at the loop's time 0, in ms since 1970."""


_LONGEST = 1 << 24
"""Seconds, half a year, from which on a float lacks the nanosecond by which asyncio takes a timer
for due: it would look at it for ever.
"""


class DeadlockError(Exception):
    """Every task waits for another one, and no timer will wake any."""


class _Jump(selectors.DefaultSelector):
    """Never waits: passes the time that the loop wanted to wait instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("every task waits and no timer is left:\n" + "\n".join(_waiting()))
        if timeout > 0:
            self.now += timeout
        if self.now >= _LONGEST:
            raise OverflowError("a scenario in virtual time lasts half a year at most")
        return []


def _waiting() -> list[str]:
    """Return one line a task, with the place where it waits, in the order of their names."""
    lines = []
    for task in asyncio.all_tasks(asyncio._get_running_loop()):
        frames = task.get_stack(limit=1)
        place = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "not started"
        lines.append(f"  {task.get_name()}: {place}")
    return sorted(lines)


class _Task(asyncio.Task[Any]):
    """A task that hashes by its serial number."""

    serial = 0

    def __hash__(self) -> int:
        return self.serial


class _Future(asyncio.Future[Any]):
    """A future that hashes by its serial number."""

    serial = 0

    def __hash__(self) -> int:
        return self.serial


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio on virtual time: `asyncio.sleep`, timeouts and timers all run on it."""

    def __init__(self) -> None:
        self._jump = _Jump()
        self._serials = count()
        super().__init__(self._jump)
        self.set_task_factory(self._make_task)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        _Task.serial = next(self._serials)  # asyncio hashes a task before its constructor returns
        task = _Task(coroutine, loop=self, context=context)
        task.serial = _Task.serial
        return task

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        future = _Future(loop=self)
        future.serial = next(self._serials)
        return future

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._jump.now

    def stall(self, seconds: float) -> None:
        """Let time pass in which nothing runs, as while the process is stopped."""
        self._jump.now += seconds


class VirtualClock:
    """A `Clock` on the running loop's time; `wall_ms` may be set to make the wall clock jump."""

    def __init__(self, wall_ms: int = EPOCH_MS) -> None:
        self.wall_ms = wall_ms

    def now_ms(self) -> int:
        """Return ms since 1970."""
        return self.wall_ms + int(self.monotonic() * 1000)

    def monotonic(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* to its end on a new loop, as `asyncio.run` does, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
