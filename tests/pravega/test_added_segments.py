"""Segments that no keys lead to, as Iggy adds them: Pravega's Java client writes beside them, and
reads them, too.
"""

import asyncio
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.framing import frame_event
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.state import StreamConfig
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.names import segment_name
from tests.pravega.java import told
from tests.pravega.sites import our_site

pytestmark = [
    pytest.mark.pravega_server,
    pytest.mark.usefixtures("java_client"),
    pytest.mark.timeout(600),
]

WRITTEN = [f"written {number}" for number in range(20)]


async def make_stream(directory: Path) -> None:
    """Make a store whose stream has two segments for keys, and two more with an event each."""
    executor, random = ThreadExecutor("store"), Random(7)
    store = await Store.open(
        str(directory / "store"),
        disk=SystemDisk(),
        executor=executor,
        clock=SystemClock(),
        limits=StoreLimits(),
        random=random,
    )
    running = asyncio.create_task(store.run(asyncio.Event()))
    streams = Streams(Catalog(store, clock=SystemClock(), random=random))
    await streams.create_scope("logs")
    await streams.create("logs", "app", StreamConfig(min_segments=2))
    for number in await streams.add_segments("logs", "app", 2):
        event = frame_event(b"added %d" % number)
        await store.append(
            segment_name("logs", "app", number),
            event,
            writer=UUID(int=1),
            expected=None,
            number=1,
            events=1,
        )
    await store.close()
    await running
    executor.close()


def test_the_java_client_reads_added_segments_and_writes_beside_them(tmp_path: Path) -> None:
    async def main() -> dict[str, str]:
        await make_stream(tmp_path)
        async with our_site(tmp_path) as site:
            return await told("Added", site.port, tmp_path)

    found = asyncio.run(main())
    expected = ", ".join(sorted(["added 2", "added 3", *WRITTEN]))
    assert found == {"group": expected, "batch": expected}
