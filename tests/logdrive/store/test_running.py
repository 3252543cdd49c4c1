"""A store that runs inside `async with`: how it ends."""

import pytest

from logdrive.store.limits import StoreLimits
from logdrive.store.running import Failure, open_store
from tests.logdrive.store.harness import PATH
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run


@pytest.mark.parametrize("seconds", [None, 0.0, 1.0], ids=["at once", "after a step", "later"])
def test_a_context_that_ends_with_an_exception_releases_the_directory(
    seconds: float | None,
) -> None:
    """Also before the store's task had its first step: cancelled, it never gets to run."""

    disk, clock = MemoryDisk(), VirtualClock()

    async def fail() -> None:
        runs = open_store(
            PATH,
            Failure(),
            disk=disk,
            executor=InlineExecutor(),
            clock=clock,
            limits=StoreLimits(),
        )
        async with runs:
            if seconds is not None:
                await clock.sleep(seconds)
            raise KeyError

    async def main() -> None:
        for _ in range(2):  # the second one would find the store in use
            with pytest.raises(KeyError):
                await fail()

    run(main())
