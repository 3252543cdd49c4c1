"""Decisions come in order, whatever they wait for."""

import asyncio
from collections.abc import Awaitable, Callable

from logdrive.errors import LogdriveError
from logdrive.services.numbering.decisions import DecisionQueue, Wait
from tests.support.virtual_time import run


class Decider:
    """Decides numbers: *waits* says for how often, and how, each has to wait."""

    def __init__(self, waits: dict[int, list[Callable[[], Awaitable[object]]]]) -> None:
        self.waits = waits
        self.log: list[object] = []
        self.queue: DecisionQueue[int] = DecisionQueue(
            "numbers",
            decide=self._decide,
            decided=self.log.append,
            refused=lambda item, error: self.log.append((item, str(error))),
            idle=lambda: self.log.append("idle"),
        )

    def _decide(self, item: int) -> Wait | None:
        if item < 0:
            raise LogdriveError("negative")
        waits = self.waits.get(item, [])
        return waits.pop(0) if waits else None


async def fail() -> None:
    raise LogdriveError("waited in vain")


def test_what_need_not_wait_is_decided_at_once() -> None:
    async def main() -> None:
        decider = Decider({})
        for item in (1, -1, 2):
            decider.queue.put(item)
        assert decider.log == [1, "idle", (-1, "negative"), "idle", 2, "idle"]
        assert decider.queue.is_empty
        await decider.queue.join()

    run(main())


def test_what_comes_behind_one_that_waits_is_decided_behind_it() -> None:
    async def main() -> None:
        decider = Decider({1: [lambda: asyncio.sleep(1), lambda: asyncio.sleep(1)], 3: [fail]})
        for item in (1, 2, -1, 3, 4):
            decider.queue.put(item)
        assert decider.log == []
        assert not decider.queue.is_empty
        await decider.queue.join()
        assert decider.log == [1, 2, (-1, "negative"), (3, "waited in vain"), 4, "idle"]
        assert decider.queue.is_empty
        decider.queue.put(5)
        assert decider.log[-2:] == [5, "idle"]

    run(main())
