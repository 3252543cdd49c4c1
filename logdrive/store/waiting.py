"""Tasks that wait for something to become durable."""

import asyncio


class Waiters:
    """Wakes everybody who waits under a key; each then looks again for what it waits for."""

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
        """Return what is done at the next `wake` for *key*.

        Who does not wait for it any more calls `unwatch`.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, {})[future] = None
        return future

    def unwatch(self, key: str, future: "asyncio.Future[None]") -> None:
        """Forget and cancel what `watch` returned."""
        future.cancel()
        waiting = self._waiting.get(key)
        if waiting is not None and future in waiting:
            del waiting[future]
            if not waiting:
                del self._waiting[key]

    def wake(self, key: str) -> None:
        """Wake all who wait under *key*."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        """Wake everybody."""
        for key in list(self._waiting):
            self.wake(key)
