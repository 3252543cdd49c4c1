"""Basin and stream of a sink are created when they are missing, to keep records until trimmed."""

from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import Endpoint, S2Target
from tests.logdrive.services.s2.server.served import BASIN, PORT, Face, with_face

SERVICE = Endpoint("store", PORT, None)
TARGET = S2Target(SERVICE, SERVICE, BASIN, basin_in_header=True, token="any")


@with_face
async def test_a_stream_that_a_sink_creates_keeps_its_records_until_they_are_trimmed(
    face: Face,
) -> None:
    async with S2Client(face.transport, TARGET) as client:
        assert (await client.ensure_stream("events")).seq_num == 0
    config = (await face.ask("GET", "/v1/streams/events")).json
    assert config["retention_policy"] == {"infinite": {}}


@with_face
async def test_a_stream_that_exists_keeps_the_retention_that_it_has(face: Face) -> None:
    await face.make("events", config={"retention_policy": {"age": 60}})
    async with S2Client(face.transport, TARGET) as client:
        await client.ensure_stream("events")
    config = (await face.ask("GET", "/v1/streams/events")).json
    assert config["retention_policy"] == {"age": 60}
