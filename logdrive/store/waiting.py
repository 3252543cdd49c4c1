"""Waiters: tasks that wait for a change to become durable."""

import asyncio


class Waiters:
    """Wakes all tasks that wait under a key; each then checks its own condition again."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    async def wait(self, key: str) -> None:
        """Return at the next `wake` for *key*."""
        future = self.watch(key)
        try:
            await future
        finally:
            if future.cancelled():
                self.unwatch(key, future)

    def watch(self, key: str) -> "asyncio.Future[None]":
        """Return a future that is done at the next `wake` for *key*.

        Call `unwatch` for a future that is no longer awaited.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, {})[future] = None
        return future

    def unwatch(self, key: str, future: "asyncio.Future[None]") -> None:
        """Cancel a future that `watch` returned."""
        future.cancel()
        waiting = self._waiting.get(key)
        if waiting is not None and future in waiting:
            del waiting[future]
            if not waiting:
                del self._waiting[key]

    def wake(self, key: str) -> None:
        """Wake all tasks that wait under *key*."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        """Wake all tasks."""
        for key in list(self._waiting):
            self.wake(key)
