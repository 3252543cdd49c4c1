"""Reading begins where an append begins, wherever the index has it."""

from bisect import bisect_left
from random import Random

import pytest

from logdrive.model.units import MIB
from logdrive.store.boundaries import boundary_from
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.limits import StoreLimits
from tests.logdrive.store.harness import OTHER, SEGMENT, running, submit
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

SECOND = "logs/app/1.#epoch.0"


@pytest.mark.parametrize("limits", [StoreLimits(), StoreLimits(log_file=2000)])
def test_it_is_the_least_append_boundary_from_the_target_on_within_what_is_there(
    limits: StoreLimits,
) -> None:
    async def main() -> None:
        disk, random, edges = MemoryDisk(), Random(5), [0]
        async with running(disk, limits) as store:
            for name in (SEGMENT, SECOND):
                await store.create(name)
            for number in range(1, 60):
                edges.append(
                    await submit(store, random.randbytes(random.randrange(1, 300)), number)
                )
                await submit(store, b"between", number, segment=SECOND)
            start = edges[20] + 1
            await store.truncate(SEGMENT, start)
        edges = [start, *edges[21:]]
        async with running(disk, limits) as store:
            edges.append(await submit(store, b"new", 60))
            for offset in range(-5, edges[-1]):
                assert boundary_from(store, SEGMENT, offset) == edges[bisect_left(edges, offset)]
            for offset in (edges[-1], edges[-1] + 1, 1 << 62):
                assert boundary_from(store, SEGMENT, offset) == edges[-1]
            assert not store._reader._kept, "nothing of what was stored is read for it"

    run(main())


def test_it_is_not_amid_an_event_that_came_in_pieces() -> None:
    """Clients collect a large event in a segment of its own and merge that.

    (Specification, section 2.11.)
    """

    async def main() -> None:
        event = (3 * MIB + 7).to_bytes(8) + bytes(3 * MIB + 7)
        pieces = [event[at : at + MIB] for at in range(0, len(event), MIB)]
        async with running(MemoryDisk()) as store:
            for name in (SEGMENT, SECOND):
                await store.create(name)
            before = await submit(store, bytes(7) + b"\x01a", 1)
            for number, piece in enumerate(pieces):
                await submit(store, piece, number, segment=SECOND, writer=OTHER)
            behind = await store.merge(SEGMENT, SECOND)
            after = await submit(store, bytes(7) + b"\x01b", 2)
            assert (boundary_from(store, SEGMENT, 1), boundary_from(store, SEGMENT, before)) == (
                before,
                before,
            )
            for offset in (
                before + 1,
                before + MIB - 1,
                before + MIB,
                before + 2 * MIB,
                behind - 1,
                behind,
            ):
                assert boundary_from(store, SEGMENT, offset) == behind
            assert boundary_from(store, SEGMENT, behind + 1) == after

    run(main())


def test_large_appends_of_bytes_that_are_no_events_have_their_boundaries() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            for number in range(4):
                await submit(store, (2 * MIB).to_bytes(8) + bytes(MIB), number)
            assert [boundary_from(store, SEGMENT, at * (MIB + 8) + 1) for at in range(3)] == [
                at * (MIB + 8) for at in (1, 2, 3)
            ]

    run(main())


def test_a_missing_segment_has_none() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            with pytest.raises(NoSuchSegmentError):
                boundary_from(store, SEGMENT, 0)

    run(main())
