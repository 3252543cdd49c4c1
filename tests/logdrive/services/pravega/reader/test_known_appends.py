"""Headers that the store tells from its index are those that a reader finds by itself (R5)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from uuid import UUID

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import LogdriveError
from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import frame_event, frame_events
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.reader.segment import SegmentReader
from logdrive.store.limits import StoreLimits
from logdrive.wire.pravega.attributes import LOCATES_APPENDS
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.own import LocateAppends
from logdrive.wire.pravega.segments import ReadSegment
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world

SMALL = StoreLimits(log_file=20_000, page=256, pages=4, read_ahead=4096, direct=False)


def batch(sizes: list[int], attributes: int = 0) -> bytes:
    records = [b"r" * size for size in sizes]
    header = BatchHeader(
        kind="foreign",
        source=str(UUID(int=1)),
        records=len(records),
        events=len(records),
        size=sum(8 + size for size in sizes),
        received=1,
        store="s",
        attributes=msgspec.Raw(b'"' + b"a" * attributes + b'"'),
    )
    return frame_event(header.encode()) + frame_events(records)


BATCHES = st.builds(
    batch,
    st.lists(st.sampled_from([0, 3, 700, 9_000, 40_000]), max_size=3),
    st.sampled_from([0, 0, 0, 800, 3_000, 16_000, 40_000]),
)
STRAYS = st.sampled_from([b'{"message":"stray"}', b"", b"x" * 5000]).map(frame_event)


@asynccontextmanager
async def reader(made: World, *, own: bool) -> AsyncIterator[tuple[SegmentReader, SegmentClient]]:
    """Yield a reader; without *own* it takes the store for a Pravega."""
    async with connect_segment_store(made.client, "server", made.port) as client:
        if not own:

            async def no(segment: str) -> bool:
                return False

            client.locates_appends = no  # type: ignore[method-assign]
        yield SegmentReader(client, S), client


async def refs(made: World, start: int, end: int, *, own: bool) -> list[BatchRef] | str:
    async with reader(made, own=own) as (reading, _):
        try:
            return [found async for found in reading.read_batch_refs(start, end)]
        except LogdriveError as error:
            return str(error)


async def append(made: World, pieces: list[bytes]) -> None:
    for number, piece in enumerate(pieces, 1):
        await made.store.append(S, piece, writer=W, expected=None, number=number, events=1)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(set(places)), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


@given(st.lists(BATCHES | STRAYS, min_size=1, max_size=14), st.data(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_headers_from_the_index_are_those_that_are_read(
    batches: list[bytes], data: st.DataObject, seed: int
) -> None:
    """Whoever appended: a batch an append, several in one, or one over several, cut anywhere."""
    stream = b"".join(batches)
    starts = [sum(map(len, batches[:n])) for n in range(len(batches) + 1)]
    inside = st.integers(1, max(1, len(stream) - 1))
    odd = data.draw(st.lists(inside, max_size=4))
    kept = data.draw(st.lists(st.booleans(), min_size=len(starts), max_size=len(starts)))
    edges = [place for place, keep in zip(starts, kept, strict=True) if keep]
    ends = [*starts[1:], len(stream) - 1, *odd]

    async def main(made: World) -> None:
        await made.store.create(S)
        await append(made, cut(stream, edges + odd))
        for start in data.draw(st.lists(st.sampled_from(starts[:-1]), min_size=1, max_size=3)):
            end = data.draw(st.sampled_from([end for end in ends if end > start]))
            told = await refs(made, start, end, own=True)
            assert told == await refs(made, start, end, own=False)
        cut_off = data.draw(st.sampled_from(starts[:-1]))
        await made.store.truncate(S, cut_off)
        rest = await refs(made, cut_off, len(stream), own=True)
        assert rest == await refs(made, cut_off, len(stream), own=False)
        assert not isinstance(rest, str)
        assert (rest[0].offset, rest[-1].next) == (cut_off, len(stream))

    in_world(main, random=Random(seed), limits=SMALL)()


class Requests:
    """Counts what a client asks."""

    def __init__(self, client: SegmentClient) -> None:
        self.asked: list[Message] = []
        send = client._link.send_request

        def counted(make):  # type: ignore[no-untyped-def]
            self.asked.append(make(0))
            return send(make)

        client._link.send_request = counted  # type: ignore[method-assign]

    def count(self, kind: type[Message]) -> int:
        return sum(isinstance(message, kind) for message in self.asked)


async def asked_for(made: World, end: int, *, own: bool = True) -> tuple[int, Requests]:
    """Return how many batches were found, and what was asked for that."""
    async with reader(made, own=own) as (reading, client):
        requests = Requests(client)
        return len([found async for found in reading.read_batch_refs(0, end)]), requests


@in_world
async def test_hundreds_of_headers_take_one_question(made: World) -> None:
    await made.store.create(S)
    await append(made, [batch([40_000]) for _ in range(500)])
    found, requests = await asked_for(made, 500 * len(batch([40_000])))
    assert found == 500
    assert requests.count(LocateAppends) == 1
    assert requests.count(ReadSegment) == 0
    _, requests = await asked_for(made, 500 * len(batch([40_000])), own=False)
    assert requests.count(ReadSegment) == 500, "each a round trip at a Pravega"


@in_world
async def test_longer_headers_are_asked_for_in_larger_pieces(made: World) -> None:
    await made.store.create(S)
    await append(made, [batch([40_000], attributes=5_000) for _ in range(30)])
    found, requests = await asked_for(made, 30 * len(batch([40_000], 5_000)))
    assert (found, requests.count(LocateAppends), requests.count(ReadSegment)) == (30, 2, 0)


@in_world
async def test_a_service_without_the_attribute_is_asked_nothing_of_ours(made: World) -> None:
    """A Pravega answers that it has no such attribute; a message that it does not know ends the
    connection.
    """
    await made.store.create(S)
    await append(made, [batch([40_000]) for _ in range(3)])
    async with reader(made, own=True) as (reading, client):
        requests = Requests(client)

        async def absent(segment: str, attribute: UUID) -> int:
            assert attribute == LOCATES_APPENDS
            return -(1 << 63)

        client.get_attribute = absent  # type: ignore[method-assign]
        end = 3 * len(batch([40_000]))
        assert len([found async for found in reading.read_batch_refs(0, end)]) == 3
    assert requests.count(LocateAppends) == 0


@in_world
async def test_a_damaged_header_is_told_like_any_damage(made: World) -> None:
    """The bytes that the index gives are not checked, so one that ends elsewhere is read again."""
    await made.store.create(S)
    await append(made, [batch([40_000]) for _ in range(3)])
    place = next(made.store.extents(S, 0)).place
    (log,) = [name for name in made.disk.names("/var/store") if name.startswith("log-")]
    size_at = batch([40_000]).index(b'"bytes":') + len(b'"bytes":')
    made.disk.flip_bit(f"/var/store/{log}", place + size_at)
    told = await refs(made, 0, 3 * len(batch([40_000])), own=True)
    assert isinstance(told, str)
    assert "an entry read back is not what was written" in told
