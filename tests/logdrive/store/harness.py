"""Stores on a disk in memory, ended in good order or by a crash."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from random import Random
from uuid import UUID

from logdrive.model.numbers import ABSENT
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock

PATH = "/store"
SEGMENT = "logs/app/0.#epoch.0"
WRITER = UUID(int=1)
OTHER = UUID(int=2)
FIRST_FILE = f"{PATH}/log-{0:016x}"


async def opened(
    disk: MemoryDisk, limits: StoreLimits = StoreLimits(), delay: float = 0.0
) -> Store:
    executor = InlineExecutor(delay)
    return await Store.open(
        PATH, disk=disk, executor=executor, clock=VirtualClock(), limits=limits, random=Random(7)
    )


@contextlib.asynccontextmanager
async def running(
    disk: MemoryDisk,
    limits: StoreLimits = StoreLimits(),
    *,
    delay: float = 0.0,
    clean: bool = True,
) -> AsyncIterator[Store]:
    """Run a store; end it by `close`, or, unless *clean*, by cancelling it.

    For a disk the latter is like a crash.
    """
    store = await opened(disk, limits, delay)
    task = asyncio.create_task(store.run(asyncio.Event()), name="store")
    try:
        yield store
    finally:
        if clean and not task.done():
            await store.close()
        elif not clean:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def submit(
    store: Store,
    data: bytes | Sequence[bytes],
    number: int,
    *,
    segment: str = SEGMENT,
    writer: UUID = WRITER,
) -> "asyncio.Future[int]":
    """Append as a correct writer does: from the number submitted last."""
    return store.append(
        segment,
        data,
        writer=writer,
        expected=store.submitted_number(segment, writer),
        number=number,
        events=1,
    )


async def filled(
    disk: MemoryDisk,
    batches: Sequence[bytes],
    limits: StoreLimits = StoreLimits(),
    *,
    clean: bool = False,
) -> None:
    """Leave a store on *disk* whose one segment has *batches*, one per group, numbered from 1."""
    async with running(disk, limits, clean=clean) as store:
        await store.create(SEGMENT)
        for number, batch in enumerate(batches, 1):
            await submit(store, batch, number)


def content(store: Store, segment: str = SEGMENT) -> bytes:
    info = store.info(segment)
    assert info is not None
    return store.read(segment, 0, info.length)


__all__ = [
    "ABSENT",
    "FIRST_FILE",
    "OTHER",
    "PATH",
    "SEGMENT",
    "WRITER",
    "content",
    "filled",
    "opened",
    "running",
    "submit",
]
