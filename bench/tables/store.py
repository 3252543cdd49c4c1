"""The store that the pipeline's benchmarks read: the log several times over, in packs.

Each copy is a source of its own, as if so many agents had sent the file.
"""

import asyncio
import shutil
from pathlib import Path
from uuid import UUID

from bench.measure import Setting
from bench.tables.decode import packed_batches
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.numbers import ABSENT
from logdrive.packs.pack import PackCodec
from logdrive.store.engine import Store

STREAM = "bench/nginx"
_SEGMENT = f"{STREAM}/0.#epoch.0"
RAW_BYTES = 4_400_000_000
"""Bytes of the lines in the store, at least: several micro-batches of the largest size."""


def copies(setting: Setting, raw_bytes: int = RAW_BYTES) -> int:
    """Return how often the log has to be there."""
    return -(-raw_bytes // setting.log.stat().st_size)


def fill_store(path: Path, setting: Setting, count: int) -> None:
    """Make a store at *path* with *count* copies of the log."""
    shutil.rmtree(path, ignore_errors=True)
    asyncio.run(_fill(path, setting, count))


async def _fill(path: Path, setting: Setting, count: int) -> None:
    executor = ThreadExecutor("store")
    try:
        store = await Store.open(
            str(path), disk=SystemDisk(), executor=executor, clock=SystemClock()
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run(asyncio.Event()))
            await store.create(_SEGMENT)
            for copy in range(count):
                source, expected = UUID(int=1 + copy), ABSENT
                for data, number in packed_batches(setting, PackCodec.DEFLATE, source):
                    await store.append(
                        _SEGMENT, data, writer=source, expected=expected, number=number, events=1
                    )
                    expected = number
            await store.close()
    finally:
        executor.close()
