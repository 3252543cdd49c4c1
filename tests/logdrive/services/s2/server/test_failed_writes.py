"""A change of basins or streams that the disk refuses is not done, and can be asked for again."""

import pytest

from tests.logdrive.services.s2.server.served import BASIN, Face, face
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

BLOCK = 512


@pytest.mark.parametrize("room", range(16))
def test_a_stream_whose_creation_a_full_disk_cuts_short_is_not_there_and_can_be_created(
    room: int,
) -> None:
    """*room* is what the disk still takes, in blocks: the write that fails is another each time."""
    disk = MemoryDisk()

    async def main() -> None:
        async with face(disk) as served:
            await served.make()
            disk.capacity = disk.used() + room * BLOCK
            created = await served.ask("POST", "/v1/streams", {"stream": "events"})
            disk.mend()
            await _is_there_or_not(served, created.status == 201)

    run(main())


async def _is_there_or_not(served: Face, there: bool) -> None:
    tail = await served.ask("GET", "/v1/streams/events/records/tail")
    assert tail.code in ([(200, None)] if there else [(404, "stream_not_found"), (200, None)])
    again = await served.ask("POST", "/v1/streams", {"stream": "events"})
    assert again.status == (409 if tail.status == 200 else 201)
    assert (await served.append("events", "one")).status == 200


@pytest.mark.parametrize("room", range(16))
def test_a_basin_whose_creation_a_full_disk_cuts_short_is_not_there_and_can_be_created(
    room: int,
) -> None:
    disk = MemoryDisk()

    async def main() -> None:
        async with face(disk) as served:
            disk.capacity = disk.used() + room * BLOCK
            await served.ask("POST", "/v1/basins", {"basin": BASIN})
            disk.mend()
            basin = await served.ask("GET", f"/v1/basins/{BASIN}")
            assert basin.status in (200, 404)
            again = await served.ask("POST", "/v1/basins", {"basin": BASIN})
            assert again.status == (409 if basin.status == 200 else 201)
            await _is_there_or_not(served, False)

    run(main())
