"""A reader's position is kept at the service, on sealed segments too, and can be removed."""

from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.reader.position import reader_position, set_reader_position
from logdrive.store.readers import reader_key
from tests.support.pravega.peer import S, World, in_world


@in_world
async def test_a_position_is_told_set_and_forgotten(made: World) -> None:
    async with connect_segment_store(made.client, "server", made.port) as client:
        await client.create_segment(S)
        assert await reader_position(client, S, "pipeline") is None
        for offset in (5, 5, 9, 3):
            assert await set_reader_position(client, S, "pipeline", offset)
            assert await reader_position(client, S, "pipeline") == offset
        assert await reader_position(client, S, "other") is None
        await client.seal_segment(S)
        assert await set_reader_position(client, S, "pipeline", 12)
        assert made.store.attribute(S, reader_key("pipeline")) == 12
        assert await set_reader_position(client, S, "pipeline", None)
        assert made.store.attribute(S, reader_key("pipeline")) == ABSENT
