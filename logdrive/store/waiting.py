"""Tasks that wait for something to become durable."""

import asyncio


class Waiters:
    """Wakes everybody who waits under a key; each then looks again for what it waits for."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def wait(self, key: str) -> None:
        """Return at the next `wake` for *key*."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        try:
            await future
        finally:
            if future.cancelled():
                self._drop(key, future)

    def wake(self, key: str) -> None:
        """Wake all who wait under *key*."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        """Wake everybody."""
        for key in list(self._waiting):
            self.wake(key)

    def _drop(self, key: str, future: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(key)
        if waiting is not None and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiting[key]
