"""Our own message LocateAppends tells where appends are, and nothing that reads would not."""

from itertools import count, pairwise

import pytest

from logdrive.host.boot import boot_id
from logdrive.model.numbers import ABSENT
from logdrive.net.turns import PORTION_SECONDS
from logdrive.services.pravega.server.segments import locating
from logdrive.store.index.segment import Extent
from logdrive.store.store_files import find_store_files
from logdrive.wire.pravega.attributes import LOCATES_APPENDS
from logdrive.wire.pravega.control import KeepAlive, NoSuchSegment, SegmentIsTruncated
from logdrive.wire.pravega.limits import PRAVEGA_HEAD_BYTES, PRAVEGA_LOCATED_APPENDS
from logdrive.wire.pravega.own import AppendsLocated, LocateAppends
from logdrive.wire.pravega.segments import (
    GetSegmentAttribute,
    SegmentAttribute,
    UpdateSegmentAttribute,
)
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world


async def filled(made: World, *appends: bytes) -> list[Extent]:
    await made.store.create(S)
    for number, data in enumerate(appends, 1):
        await made.store.append(S, data, writer=W, expected=None, number=number, events=1)
    return list(made.store.extents(S, 0))


async def located(
    made: World, start: int, end: int, head_bytes: int = 0, host: str = ""
) -> AppendsLocated:
    answer = await (await made.peer()).ask(LocateAppends(5, S, start, end, head_bytes, host))
    assert isinstance(answer, AppendsLocated)
    assert (answer.request_id, answer.segment) == (5, S)
    return answer


@in_world
async def test_the_face_announces_the_message_in_every_segment(made: World) -> None:
    peer = await made.peer()
    asked = GetSegmentAttribute(1, S, LOCATES_APPENDS)
    assert await peer.ask(asked) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    assert await peer.ask(asked) == SegmentAttribute(1, 1)
    await peer.ask(UpdateSegmentAttribute(2, S, LOCATES_APPENDS, 7, ABSENT))
    assert await peer.ask(asked) == SegmentAttribute(1, 1), "no client changes what it says"


@in_world
async def test_appends_are_told_with_their_places_and_how_they_begin(made: World) -> None:
    extents = await filled(made, b"abcd", b"ef", b"ghijkl")
    answer = await located(made, 0, 12, 3)
    assert answer.offsets == (0, 4, 6, 12)
    assert answer.places == tuple(extent.place for extent in extents)
    assert answer.heads == b"abcefghi"
    assert answer.store == made.store.store_id
    assert (answer.directory, answer.identity) == ("", "")


@in_world
async def test_of_the_first_append_only_what_was_asked_for_is_told(made: World) -> None:
    """What retention cut off is not told, though the log has it."""
    await filled(made, b"abcd", b"ef", b"ghijkl")
    await made.store.truncate(S, 2)
    answer = await located(made, 2, 5, 3)
    assert answer.offsets == (0, 4, 6)
    assert answer.heads == b"cdef"
    assert (await located(made, 4, 6, 3)).heads == b"ef"
    assert (await located(made, 7, 99, 3)).heads == b"hij"


@in_world
async def test_what_is_not_in_the_segment_is_refused_and_the_connection_goes_on(
    made: World,
) -> None:
    peer = await made.peer()
    assert await peer.ask(LocateAppends(1, S, 0, 9, 0)) == NoSuchSegment(1, S, "", -1)
    await filled(made, b"abcd", b"ef")
    await made.store.truncate(S, 3)
    for start, end in ((2, 6), (-1, 6), (6, 9), (1 << 62, 1 << 63 - 1), (4, 4), (5, 3)):
        assert await peer.ask(LocateAppends(1, S, start, end, 9)) == SegmentIsTruncated(
            1, S, 3, "", start
        )
    for head_bytes in (-1, -(1 << 31)):
        answer = await peer.ask(LocateAppends(1, S, 3, 6, head_bytes))
        assert isinstance(answer, AppendsLocated)
        assert answer.heads == b""
    assert await peer.ask(KeepAlive()) == KeepAlive()


@in_world
async def test_an_answer_has_bounds_and_the_next_goes_on_behind_it(made: World) -> None:
    appends = [b"x" * 5000] * 120
    await filled(made, *appends)
    answers, at = [], 0
    while at < 600_000:
        answers.append(await located(made, at, 600_000, (1 << 31) - 1))
        at = answers[-1].offsets[-1]
    assert len(answers) > 1
    assert max(len(answer.heads) for answer in answers) <= PRAVEGA_HEAD_BYTES
    assert b"".join(bytes(answer.heads) for answer in answers) == b"".join(appends)  # type: ignore[arg-type]


def test_an_answer_without_heads_is_bounded_in_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locating, "PRAVEGA_LOCATED_APPENDS", 7)
    assert PRAVEGA_LOCATED_APPENDS > 7

    async def main(made: World) -> None:
        await filled(made, *[b"x"] * 20)
        answers = [await located(made, start, 20) for start in (0, 7, 14)]
        assert [len(answer.places) for answer in answers] == [7, 7, 6]

    in_world(main)()


@in_world
async def test_a_slow_disk_shortens_the_answer(made: World) -> None:
    """Other connections wait no longer than a turn lasts (ADR 21)."""
    await filled(made, *[b"abc"] * 9)
    ticks = count()
    answer = locating.locate_appends(
        made.store,
        None,
        LocateAppends(1, S, 0, 27, 2),
        lambda: next(ticks) * PORTION_SECONDS / 3,
    )
    assert isinstance(answer, AppendsLocated)
    assert answer.heads == (b"ab",) * 3
    assert answer.offsets == (0, 3, 6, 9)


@in_world
async def test_only_clients_on_the_stores_host_learn_its_directory(made: World) -> None:
    await filled(made, b"abcd")
    assert boot_id()
    answer = await located(made, 0, 4, host=boot_id())
    files = find_store_files(made.disk, "/var/store")
    assert (answer.directory, answer.identity) == (files.directory, files.identity)
    for stranger in ("", "another host", boot_id().upper()):
        assert (await located(made, 0, 4, host=stranger)).directory == ""


@in_world
async def test_merged_appends_lie_where_their_source_had_them(made: World) -> None:
    await filled(made, b"abcd")
    await made.store.create("logs/part")
    await made.store.append("logs/part", b"ef", writer=W, expected=None, number=1, events=1)
    (part,) = made.store.extents("logs/part", 0)
    await made.store.merge(S, "logs/part")
    answer = await located(made, 0, 6, 9)
    assert answer.places[1] == part.place
    assert answer.heads == b"abcdef"
    assert [end - at for at, end in pairwise(answer.offsets)] == [4, 2]
