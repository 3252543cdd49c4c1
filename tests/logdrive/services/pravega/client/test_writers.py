"""How many writers one connection keeps, and what waits while one is being set up (S2, S4)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.writers import SegmentWriters
from logdrive.services.sink import NumberConflictError
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world


@contextlib.asynccontextmanager
async def writers_of(made: World, most: int = 100) -> AsyncIterator[SegmentWriters]:
    await made.store.create(S)
    link = RequestChannel(
        await made.client.connect("server", made.port, None),
        lambda message: writers.on_append_answer(message),
    )
    writers = SegmentWriters(link, most=most)
    carrying = asyncio.create_task(link.run())
    yield writers
    carrying.cancel()
    await asyncio.wait([carrying])


@in_world
async def test_beyond_limit_writer_not_used_for_longest_forgotten_and_set_up_again_at_will__S4(
    made: World,
) -> None:
    async with writers_of(made, most=2) as writers:
        first, second, third = (UUID(int=n) for n in (1, 2, 3))
        kept = await writers.set_up_writer(S, first)
        gone = await writers.set_up_writer(S, second)
        assert writers.find_writer(S, first) is kept  # used
        await writers.set_up_writer(S, third)
        assert writers.find_writer(S, second) is None
        with pytest.raises(TransientError, match="forgotten"):
            gone.append_data(b"x", events=1, number=1)
        assert writers.find_writer(S, first) is kept
        assert (await writers.set_up_writer(S, second)).durable == ABSENT


@in_world
async def test_a_writer_with_appends_in_flight_is_not_forgotten__S2(made: World) -> None:
    async with writers_of(made, most=1) as writers:
        stored = (await writers.set_up_writer(S, UUID(int=1))).append_data(b"x", events=1, number=1)
        await writers.set_up_writer(S, UUID(int=2))
        assert await stored == 1


@in_world
async def test_while_a_set_up_is_under_way_nothing_is_appended_from_an_older_number__S2(
    made: World,
) -> None:
    async with writers_of(made) as writers:
        older = await writers.set_up_writer(S, W)
        asking = [asyncio.create_task(writers.set_up_writer(S, W)) for _ in range(5)]
        await asyncio.sleep(0)
        assert writers.find_writer(S, W) is None
        with pytest.raises(TransientError, match="was set up again"):
            older.append_data(b"x", events=1, number=1)
        with pytest.raises(NumberConflictError, match="being set up"):
            writers.begin_new_writer(S, W)
        *overtaken, last = await asyncio.gather(*asking)
        assert [writer.ended for writer in overtaken] == [True] * 4
        assert writers.find_writer(S, W) is last
        assert await last.append_data(b"x", events=1, number=1) == 1
