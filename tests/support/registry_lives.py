"""The promise of every registry that keeps its state in a journal: a kill loses nothing committed.

Registries of the faces of S2 and of Iggy are played with the same lives.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from logdrive.store.engine import Store
from logdrive.store.journal import JournaledState
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk

_SLACK = 4096
_LONGEST = 8 * _SLACK


async def check_lives(
    segment: str,
    make: Callable[[Store, int], JournaledState[Any, Any]],
    random_put: Callable[[Random], Any],
    known: Callable[[Any], object],
) -> None:
    """Commit changes of *random_put* in several lives, each ended by a kill, and compare *known*.

    *make* makes the registry of a store with a journal of so many bytes of slack in *segment*.
    """
    random, disk = Random(3), MemoryDisk()
    for _ in range(5):
        async with running(disk, delay=0.001, clean=False) as store:
            registry = make(store, _SLACK)
            async with registry.turn() as state:
                before = known(state)
            for _ in range(100):
                async with registry.turn():
                    await registry.commit_puts([random_put(random)])
            after = known(registry.state)
            info = store.info(segment)
            assert info is not None
            assert info.length - info.start < _LONGEST
        disk = disk.killed()
        async with running(disk, delay=0.001) as store:
            registry = make(store, _SLACK)
            async with registry.turn() as state:
                assert known(state) == after != before
