"""A store's log files give another process what was appended, or an error: never anything else."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.segment import Extent
from logdrive.store.limits import StoreLimits
from logdrive.store.local_log import LocalLog
from logdrive.store.log.files import bases_in
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world

OTHER = "logs/app/1.#epoch.0"
SMALL = StoreLimits(log_file=20_000, page=256, pages=4, read_ahead=4096)
DIRECTORY = "/var/store"


async def append(made: World, sizes: list[tuple[str, int]]) -> None:
    for segment in (S, OTHER):
        await made.store.create(segment)
    for number, (segment, size) in enumerate(sizes, 1):
        await made.store.append(
            segment, bytes([number % 251]) * size, writer=W, expected=None, number=number, events=1
        )


def read(made: World, segment: str, extents: list[Extent], store: UUID | None = None) -> bytes:
    data, at = b"", extents[0].offset
    with LocalLog(made.disk, DIRECTORY, store or made.store.store_id) as log:
        for offset, piece in log.read_appends(extents):
            assert offset == at + len(data)
            data += piece
    return data


SIZES = st.lists(
    st.tuples(st.sampled_from([S, S, OTHER]), st.sampled_from([1, 90, 700, 5000, 30_000])),
    min_size=1,
    max_size=30,
)


@given(SIZES, st.data(), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_appends_are_read_whatever_lies_between_them(
    sizes: list[tuple[str, int]], data: st.DataObject, seed: int
) -> None:
    async def main(made: World) -> None:
        await append(made, [*sizes, (S, 1)])
        extents = list(made.store.extents(S, 0))
        first = data.draw(st.integers(0, len(extents) - 1))
        last = data.draw(st.integers(first, len(extents) - 1))
        asked = extents[first : last + 1]
        end = asked[-1].offset + asked[-1].length
        stored = made.store.read(S, asked[0].offset, end - asked[0].offset)
        assert read(made, S, asked) == stored

    in_world(main, random=Random(seed), limits=SMALL)()


@in_world
async def test_short_appends_are_read_together(made: World) -> None:
    """One read for a piece of up to 1 MiB; entries of other segments between them are skipped."""
    await append(made, [(S, 300), (OTHER, 300)] * 500)
    with LocalLog(made.disk, DIRECTORY, made.store.store_id) as log:
        pieces = [data for _, data in log.read_appends(list(made.store.extents(S, 0)))]
    assert len(pieces) == 1
    assert pieces[0] == made.store.read(S, 0, 500 * 300)


@pytest.mark.parametrize("sizes", [[(S, 5000)] * 3, [(S, 5000), (OTHER, 9000)] * 3])
@pytest.mark.parametrize("within", ["head", "data"])
def test_no_changed_byte_is_given(sizes: list[tuple[str, int]], within: str) -> None:
    async def main(made: World) -> None:
        await append(made, sizes)
        extents = list(made.store.extents(S, 0))
        shift = -3 if within == "head" else 4999
        made.disk.flip_bit(f"{DIRECTORY}/log-{0:016x}", extents[1].place + shift)
        assert read(made, S, extents[2:]) == b"".join(made.store.read_parts(S, 10_000, 5000))
        with pytest.raises(StoreDamagedError):
            read(made, S, extents)

    in_world(main)()


@in_world
async def test_entries_of_another_store_or_place_are_refused(made: World) -> None:
    await append(made, [(S, 500)] * 3)
    first, second, third = made.store.extents(S, 0)
    assert read(made, S, [first, second, third])
    with pytest.raises(StoreDamagedError):
        read(made, S, [first], UUID(int=5))
    for wrong in (
        second._replace(place=first.place + 8),
        second._replace(place=1 << 40),
        second._replace(place=third.place + third.length + 4096),
        second._replace(length=499),
        second._replace(length=501),
    ):
        with pytest.raises(StoreDamagedError):
            read(made, S, [wrong])


def test_a_file_that_is_gone_is_an_error() -> None:
    async def main(made: World) -> None:
        await append(made, [(S, 9000)] * 12)
        extents = list(made.store.extents(S, 0))
        bases = bases_in(made.disk.names(DIRECTORY))
        assert len(bases) > 2
        with LocalLog(made.disk, DIRECTORY, made.store.store_id) as log:
            made.disk.remove(f"{DIRECTORY}/log-{bases[1]:016x}")
            with pytest.raises(FileNotFoundError):
                list(log.read_appends(extents))
        with pytest.raises(StoreDamagedError):  # now its place seems to be in the file before it
            read(made, S, extents)
        made.disk.remove(f"{DIRECTORY}/log-{bases[0]:016x}")
        with pytest.raises(StoreDamagedError):
            read(made, S, extents)
        with pytest.raises(FileNotFoundError):
            LocalLog(made.disk, "/var", made.store.store_id)

    in_world(main, limits=SMALL)()
