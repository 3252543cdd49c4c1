"""Pieces read from the log files on the store's host are the segment's bytes, or are left out."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import LogdriveError
from logdrive.host.boot import boot_id
from logdrive.services.pravega.client.located import LocatedAppends, read_located
from logdrive.services.pravega.reader.local import Locate, read_local_pieces
from logdrive.services.pravega.server.segments import locating
from logdrive.services.pravega.server.segments.locating import locate_appends
from logdrive.store.limits import StoreLimits
from logdrive.store.store_files import find_store_files
from logdrive.wire.pravega.own import AppendsLocated, LocateAppends
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world

OTHER = "logs/other/0.#epoch.0"
SMALL = StoreLimits(log_file=20_000, page=256, pages=4, read_ahead=4096, copy=8000)


def locate_in(made: World) -> Locate:
    """Return what asks the store of *made*, as a client on its host does."""
    files = find_store_files(made.disk, "/var/store")

    def locate(start: int, end: int) -> LocatedAppends | None:
        request = LocateAppends(1, S, start, end, 0, files.host)
        try:
            answer = locate_appends(made.store, files, request, lambda: 0.0)
        except LogdriveError:
            return None
        if not isinstance(answer, AppendsLocated):
            return None
        return read_located(answer, start, 0, files.host)

    return locate


class History:
    """A store that others use, and the bytes that its segment S ever had."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.data = b""
        self._numbers = itertools.count(1)

    async def append(self, size: int) -> None:
        data = Random(len(self.data)).randbytes(size)
        number = next(self._numbers)
        await self.made.store.append(S, data, writer=W, expected=None, number=number, events=1)
        self.data += data

    async def fill_another(self, size: int) -> None:
        """Fill log files with what is then deleted: they are copied forward, and removed."""
        store = self.made.store
        await store.create(OTHER)
        for _ in range(4):
            number = next(self._numbers)
            await store.append(OTHER, bytes(size), writer=W, expected=None, number=number, events=1)
        await store.delete(OTHER)
        await asyncio.sleep(1)

    async def truncate(self, part: int) -> None:
        info = self.made.store.info(S)
        assert info is not None
        await self.made.store.truncate(S, info.start + (info.length - info.start) * part // 100)
        await asyncio.sleep(1)

    async def merge(self, size: int) -> None:
        source, data = f"{S}#transaction.1", Random(-len(self.data)).randbytes(size)
        await self.made.store.create(source)
        await self.made.store.append(
            source, data, writer=W, expected=None, number=next(self._numbers), events=1
        )
        await self.made.store.merge(S, source)
        self.data += data


STEPS = st.lists(
    st.tuples(st.just("append"), st.sampled_from([3, 300, 3000, 9000]))
    | st.tuples(st.just("fill_another"), st.sampled_from([3000, 9000]))
    | st.tuples(st.just("truncate"), st.integers(0, 100))
    | st.tuples(st.just("merge"), st.sampled_from([3, 3000]))
    | st.tuples(st.just("read"), st.integers(1, 3)),
    min_size=3,
    max_size=30,
)


@given(STEPS, st.booleans(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_retention_reclaiming_and_merges_while_a_reader_reads(
    steps: list[tuple[str, int]], sealed: bool, seed: int
) -> None:
    """Each piece is what was appended there; without retention nothing is left out."""

    async def main(made: World) -> None:
        history = History(made)
        await made.store.create(S)
        await history.append(5000)
        reading: Iterator[bytes] | None = None
        at = begun = end = 0

        def step() -> bool:
            nonlocal at
            assert reading is not None
            piece = next(reading, None)
            if piece is None:
                return False
            assert piece == history.data[at : at + len(piece)]
            at += len(piece)
            return True

        for name, value in steps:
            if name == "read":
                info = made.store.info(S)
                assert info is not None
                if reading is None or at == end:
                    begun = at = info.start
                    end = info.length
                    reading = read_local_pieces(made.disk, locate_in(made), at, end)
                for _ in range(value):
                    step()
            else:
                await getattr(history, name)(value)
        if sealed:
            await made.store.seal(S)

        while reading is not None and step():
            pass
        if not any(name in ("truncate", "fill_another") for name, _ in steps):
            assert at == end, f"[{begun}, {end}) is there"
        info = made.store.info(S)
        assert info is not None
        rest = b"".join(read_local_pieces(made.disk, locate_in(made), info.start, info.length))
        assert rest == history.data[info.start :], "nothing happens meanwhile"

    in_world(main, random=Random(seed), limits=SMALL)()


def test_files_that_go_meanwhile_end_the_reading_without_an_error() -> None:
    async def main(made: World) -> None:
        history = History(made)
        await made.store.create(S)
        for _ in range(12):
            await history.append(9000)
        reading = read_local_pieces(made.disk, locate_in(made), 0, len(history.data))
        pieces, files = [next(reading)], len(made.disk.names("/var/store"))
        await history.truncate(100)
        assert len(made.disk.names("/var/store")) < files
        pieces += reading
        assert history.data.startswith(b"".join(pieces))
        assert len(pieces) < 12

    in_world(main, limits=SMALL)()


@in_world
async def test_any_part_of_a_segment_is_read(made: World) -> None:
    history = History(made)
    await made.store.create(S)
    for size in (9, 700, 1, 70_000, 30):
        await history.append(size)
    places = [0, 1, 8, 9, 10, 708, 709, 710, 711, 5000, 70_710, 70_739, 70_740]
    for start, end in itertools.combinations(places, 2):
        pieces = read_local_pieces(made.disk, locate_in(made), start, end)
        assert b"".join(pieces) == history.data[start:end]


def test_appends_beyond_one_answer_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locating, "PRAVEGA_LOCATED_APPENDS", 3)

    async def main(made: World) -> None:
        history = History(made)
        await made.store.create(S)
        for _ in range(10):
            await history.append(50)
        pieces = read_local_pieces(made.disk, locate_in(made), 0, 500)
        assert b"".join(pieces) == history.data

    in_world(main)()


@in_world
async def test_nothing_is_read_where_the_directory_is_not_the_stores_own(made: World) -> None:
    """A copy at the same path has the store's id, and may have other bytes behind some offset."""
    history = History(made)
    await made.store.create(S)
    await history.append(500)
    told = locate_in(made)(0, 500)
    assert told is not None
    assert told.files is not None

    def pieces(**changes: str) -> bytes:
        assert told is not None
        assert told.files is not None
        answer = replace(told, files=replace(told.files, **changes))
        return b"".join(read_local_pieces(made.disk, lambda *_: answer, 0, 500))

    assert pieces() == history.data
    assert pieces(identity="99:99") == b""
    assert pieces(directory="/var/elsewhere") == b""
    answers: list[LocatedAppends | None] = [None, replace(told, files=None)]
    for answer in answers:
        assert list(read_local_pieces(made.disk, lambda *_, a=answer: a, 0, 500)) == []
    assert told.files.host == boot_id()


@in_world
async def test_what_may_not_be_read_is_left_out(
    made: World,
) -> None:
    history = History(made)
    await made.store.create(S)
    await history.append(500)

    class Forbidden:
        """A disk whose log files belong to others."""

        def __init__(self, refused: str) -> None:
            self._refused = refused

        def __getattr__(self, name: str) -> object:
            if name == self._refused:
                return self._refuse
            return getattr(made.disk, name)

        def _refuse(self, *_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

    for refused in ("open", "names", "stat"):
        disk = Forbidden(refused)
        with suppress(StopIteration):
            next(read_local_pieces(disk, locate_in(made), 0, 500))  # type: ignore[arg-type]
            raise AssertionError(f"{refused} was not called")
