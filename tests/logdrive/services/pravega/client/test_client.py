"""The client against the store's own face, joined in memory."""

import asyncio
from contextlib import AbstractAsyncContextManager
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.services.pravega.client.writer import ConditionFailedError
from logdrive.services.reader import SegmentState
from logdrive.services.sink import NumberConflictError
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.wire.pravega.limits import PRAVEGA_READ_BYTES
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world, virtually, world


def client_of(made: World) -> AbstractAsyncContextManager[SegmentClient]:
    return connect_segment_store(made.client, "server", made.port)


@in_world
async def test_a_segment_is_created_described_and_sealed(made: World) -> None:
    async with client_of(made) as client:
        assert await client.segment_info(S) is None
        assert await client.create_segment(S)
        assert not await client.create_segment(S)
        info = await client.segment_info(S)
        assert info is not None
        assert info == SegmentState(S, 0, 0, False, info.modified_ms)
        await client.seal_segment(S)
        with pytest.raises(SegmentSealedError):
            await client.seal_segment(S)
        with pytest.raises(NoSuchSegmentError):
            await client.seal_segment("other")
        with pytest.raises(RequestRefusedError, match="1024 bytes"):
            await client.create_segment("x" * 2000)


@in_world
async def test_attributes_are_compared_and_set(made: World) -> None:
    async with client_of(made) as client:
        await client.create_segment(S)
        assert await client.get_attribute(S, W) == ABSENT
        assert await client.update_attribute(S, W, ABSENT, 7)
        assert not await client.update_attribute(S, W, ABSENT, 8)
        assert await client.get_attribute(S, W) == 7


@in_world
async def test_batches_are_acknowledged_and_the_number_is_told_at_the_next_set_up(
    made: World,
) -> None:
    async with client_of(made) as client:
        await client.create_segment(S)
        writer = await client.set_up_writer(S, W)
        assert writer.durable == ABSENT
        stored = [writer.append_data([b"ab", b"c"], events=2, number=10 * n) for n in range(1, 51)]
        assert await asyncio.gather(*stored) == sorted(await asyncio.gather(*stored))
        assert writer.durable == 500
        assert (await client.set_up_writer(S, W)).durable == 500
    assert made.store.read(S, 0, 999) == b"abc" * 50


@in_world
async def test_the_first_append_after_a_set_up_goes_alone(made: World) -> None:
    """Rule S2: a burst on a sealed segment would be answered by closing."""
    async with client_of(made) as client:
        await client.create_segment(S)
        writer = await client.set_up_writer(S, W)
        await client.seal_segment(S)
        stored = [writer.append_data(b"x", events=1, number=n) for n in range(1, 6)]
        for one in stored:
            with pytest.raises(SegmentSealedError):
                await one
        with pytest.raises(SegmentSealedError):
            writer.append_data(b"x", events=1, number=9)
        assert (await client.set_up_writer(S, W)).durable == ABSENT  # the connection stands


@in_world
async def test_numbers_must_grow(made: World) -> None:
    async with client_of(made) as client:
        await client.create_segment(S)
        writer = await client.set_up_writer(S, W)
        await writer.append_data(b"x", events=1, number=5)
        with pytest.raises(NumberConflictError):
            writer.append_data(b"x", events=1, number=5)


@in_world
async def test_a_writer_overtaken_by_another_connection_is_told_to_set_up_again(
    made: World,
) -> None:
    async with client_of(made) as one, client_of(made) as other:
        await one.create_segment(S)
        late, first = await one.set_up_writer(S, W), await other.set_up_writer(S, W)
        await first.append_data(b"x", events=1, number=3)
        with pytest.raises(NumberConflictError):
            await late.append_data(b"y", events=1, number=2)
    assert made.store.read(S, 0, 9) == b"x"


@in_world
async def test_conditional_appends_tell_whether_the_segment_was_as_expected(made: World) -> None:
    async with client_of(made) as client:
        await client.create_segment(S)
        writer = await client.set_up_writer(S, W)
        assert await writer.append_data(b"abc", events=1, number=1, expected_offset=0) == 3
        with pytest.raises(ConditionFailedError):
            await writer.append_data(b"abc", events=1, number=2, expected_offset=0)
        assert await writer.append_data(b"de", events=1, number=3, expected_offset=3) == 5


@in_world
async def test_a_writer_moves_to_another_segment_once_nothing_of_it_is_in_flight(
    made: World,
) -> None:
    """Rule S2: one connection never carries the same writer id for two segments."""
    async with client_of(made) as client:
        await client.create_segment(S)
        await client.create_segment("other")
        writer = await client.set_up_writer(S, W)
        stored = writer.append_data(b"x", events=1, number=1)
        assert (await client.set_up_writer("other", W)).durable == ABSENT
        assert stored.done()
        assert writer.ended


@in_world
async def test_a_range_is_read_whole_and_in_order(made: World) -> None:
    data = bytes(Random(1).randbytes(3 * PRAVEGA_READ_BYTES + 17))
    await made.store.create(S)
    await made.store.append(S, data, writer=W, expected=None, number=1, events=1)
    async with client_of(made) as client:
        assert b"".join([piece async for piece in client.read_range(S, 0, len(data))]) == data
        assert (
            b"".join([piece async for piece in client.read_range(S, 5, 4_000_000)])
            == data[5:4_000_000]
        )
        async for piece in client.read_range(S, 0, len(data)):
            assert data.startswith(piece)
            break  # the rest is not waited for
        assert (await client.read_segment(S, 3, 5)).data == data[3:8]
        assert (await client.read_segment(S, 3, 0)).data == b""


@in_world
async def test_a_read_at_the_tail_ends_with_data_with_the_seal_or_with_the_time(
    made: World,
) -> None:
    async with client_of(made) as client:
        await client.create_segment(S)
        assert (await client.read_segment(S, 0, 10)).at_tail
        writer = await client.set_up_writer(S, W)
        reading = asyncio.create_task(client.read_segment(S, 0, 10))
        await writer.append_data(b"abc", events=1, number=1)
        assert (await reading).data == b"abc"
        reading = asyncio.create_task(client.read_segment(S, 3, 10))
        await asyncio.sleep(0.1)
        await client.seal_segment(S)
        assert (await reading).end_of_segment
        assert (await client.read_segment(S, 3, 10)).end_of_segment
        with pytest.raises(RequestRefusedError, match="no bytes at 3"):
            _ = [piece async for piece in client.read_range(S, 0, 10)]


@in_world
async def test_a_cut_connection_fails_all_that_waits_as_transient(made: World) -> None:
    async with client_of(made) as client:
        await client.create_segment(S)
        writer = await client.set_up_writer(S, W)
        reading = asyncio.create_task(client.read_segment(S, 0, 10))
        stored = writer.append_data(b"x", events=1, number=1)
        await asyncio.sleep(0)
        made.network.cut("client", "server")
        with pytest.raises(TransientError):
            await stored
        with pytest.raises(TransientError):
            await reading
        with pytest.raises(TransientError):
            await client.segment_info(S)
        with pytest.raises(TransientError):
            writer.append_data(b"x", events=1, number=2)


@virtually
async def test_a_service_that_does_not_answer_is_given_up_in_time() -> None:
    async with (
        world() as made,
        connect_segment_store(made.client, "server", made.port, answer_seconds=2.0) as client,
    ):
        made.network.partition("client", "server")
        with pytest.raises(TransientError, match="did not answer within 2 s"):
            await client.segment_info(S)


class Source:
    """Ten batches of one writer, sent over connections that break, until all are acknowledged."""

    def __init__(self, made: World, writer: UUID, batches: list[bytes]) -> None:
        self.made, self.writer, self.batches = made, writer, batches
        self.acknowledged = 0

    async def send_all(self) -> None:
        while self.acknowledged < len(self.batches):
            try:
                async with client_of(self.made) as client:
                    await self._send(client)
            except (TransientError, NumberConflictError):
                await asyncio.sleep(0.01)

    async def _send(self, client: SegmentClient) -> None:
        writer = await client.set_up_writer(S, self.writer)
        self.acknowledged = max(writer.durable, 0)
        stored = [
            writer.append_data(batch, events=1, number=n)
            for n, batch in enumerate(self.batches, 1)
            if n > self.acknowledged
        ]
        for one in stored:
            await one
            self.acknowledged += 1


@given(
    st.integers(0, 10_000),
    st.lists(st.floats(0.0, 0.02), max_size=6),
    st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_whatever_connections_break_every_batch_is_stored_once_and_in_order(
    seed: int, cuts: list[float], batches: list[bytes]
) -> None:
    """Rules S1, S2: an unanswered append is sent again under its number, or known to be there."""

    async def main(made: World) -> None:
        await made.store.create(S)
        made.network.link("client", "server").delay = 0.002
        source = Source(made, W, batches)
        sending = asyncio.create_task(source.send_all())
        for pause in cuts:
            await asyncio.sleep(pause)
            made.network.cut("client", "server")
        await sending
        assert made.store.read(S, 0, 1 << 20) == b"".join(batches)

    in_world(main, random=Random(seed))()
