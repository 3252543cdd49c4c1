"""Real stores for the tests of the pipeline: segments made by hand, appended batch by batch."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.numbers import ABSENT
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.read.stream import StreamClient
from logdrive.store.engine import Store
from tests.logdrive.pipeline.segments import STREAM, Segment


def store(directory: Path, *segments: Segment, since: int = 0) -> str:
    """Append what *segments* have from *since* on to the store in *directory*; return the stream's
    address.
    """

    async def append(opened: Store) -> None:
        for segment in segments:
            await _append(opened, segment, since)

    asyncio.run(_with_store(directory, append))
    return f"file://{directory}#{STREAM}"


def cut_off(directory: Path, segment: str, offset: int) -> None:
    """Cut off what *segment* has before *offset*, as retention does."""

    async def truncate(opened: Store) -> None:
        await opened.truncate(segment, offset)

    asyncio.run(_with_store(directory, truncate))


async def _with_store(directory: Path, act: Callable[[Store], Awaitable[None]]) -> None:
    executor = ThreadExecutor("test-store")
    opened = await Store.open(
        str(directory), disk=SystemDisk(), executor=executor, clock=SystemClock()
    )
    running = asyncio.create_task(opened.run(asyncio.Event()))
    try:
        await act(opened)
    finally:
        await opened.close()
        await running
        executor.close()


async def _append(opened: Store, segment: Segment, since: int) -> None:
    if opened.info(segment.name) is None:
        await opened.create(segment.name)
    info = opened.info(segment.name)
    assert info is not None
    since = max(since, info.length)
    writer, before, waiting = UUID(int=uuid4().int), ABSENT, []
    for number, hop in enumerate(walk_batches(segment.name, since, bytes(segment.data[since:]))):
        batch = bytes(segment.data[hop.offset : hop.next])
        waiting.append(
            opened.append(
                segment.name, [batch], writer=writer, expected=before, number=number, events=1
            )
        )
        before = number
        if len(waiting) >= 32:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)


@contextmanager
def served(directory: Path, *segments: Segment) -> Iterator[StreamClient]:
    """Store *segments* in *directory* and serve them while the context lasts."""
    with open_stream(store(directory, *segments)) as face:
        yield face
