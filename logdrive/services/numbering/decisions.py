"""Decides things one after the other: at once where that is possible, else in a task."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from logdrive.errors import LogdriveError

Wait = Callable[[], Awaitable[object]]
"""What a decision has to wait for."""
Item = TypeVar("Item")


class DecisionQueue(Generic[Item]):
    """Items that are not decided yet, in order.

    *decide* is called with the first one, again after each wait that it returns; it raises
    `LogdriveError` to refuse it. It is then given to *decided*, or with the error to *refused*.
    *idle* is called each time nothing is left.
    """

    def __init__(
        self,
        name: str,
        *,
        decide: Callable[[Item], Wait | None],
        decided: Callable[[Item], None],
        refused: Callable[[Item, LogdriveError], None],
        idle: Callable[[], None],
    ) -> None:
        self._name = name
        self._decide = decide
        self._decided = decided
        self._refused = refused
        self._idle = idle
        self._items: deque[Item] = deque()
        # decides what could not be decided at once
        self._task: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether everything is decided."""
        return not self._items

    def put(self, item: Item) -> None:
        """Add *item*; it is decided before this returns, if it need not wait."""
        self._items.append(item)
        if self._task is None:
            wait = self._decide_ready()
            if wait is not None:
                self._task = asyncio.create_task(self._decide_waiting(wait), name=self._name)

    async def join(self) -> None:
        """Return once what waits now is decided."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _decide_ready(self) -> Wait | None:
        """Decide what can be decided now; return what the next one has to wait for."""
        while self._items:
            item = self._items[0]
            try:
                wait = self._decide(item)
            except LogdriveError as error:
                self._refused(self._items.popleft(), error)
                continue
            if wait is not None:
                return wait
            self._decided(self._items.popleft())
        self._idle()
        return None

    async def _decide_waiting(self, wait: Wait | None) -> None:
        """Decide everything that waits, in order."""
        try:
            while wait is not None:
                try:
                    await wait()
                except LogdriveError as error:
                    self._refused(self._items.popleft(), error)
                wait = self._decide_ready()
        finally:
            self._task = None
