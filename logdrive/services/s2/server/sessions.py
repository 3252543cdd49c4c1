"""The sessions under way: counted, and told when they should move to another server."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator


class OpenSessions:
    """Sessions that use one face."""

    def __init__(self) -> None:
        self._draining = False
        # of each session, what lets it send something at once
        self._hurries: dict[object, Callable[[], None]] = {}
        self._none = asyncio.Event()
        self._none.set()

    @property
    def count(self) -> int:
        """Sessions under way."""
        return len(self._hurries)

    @contextlib.contextmanager
    def during(self, hurry: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Count a session during the context; *hurry* is called once it should move away."""
        key = object()
        self._hurries[key] = hurry
        self._none.clear()
        if self._draining:
            hurry()
        try:
            yield
        finally:
            del self._hurries[key]
            if not self._hurries:
                self._none.set()

    def drain(self) -> None:
        """Tell all sessions that they should move away."""
        self._draining = True
        for hurry in list(self._hurries.values()):
            hurry()

    async def wait_until_none(self) -> None:
        """Return once no session is under way."""
        await self._none.wait()
