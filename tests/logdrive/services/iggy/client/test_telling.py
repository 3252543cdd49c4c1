"""Our client at our own face: the revision is told, and what an acknowledgement is worth."""

import asyncio
from random import Random
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from logdrive.address import IggyAddress
from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.net.tcp import SystemTransport
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.server.config import IggyFaceConfig
from logdrive.services.iggy.sink import IggySink
from logdrive.services.iggy.topics import ensure_topic, why_not_durable
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.frames import encode_reply_frame
from logdrive.wire.iggy.requests import GetMe
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.served import PORT, iggy_face
from tests.receiver.world import in_virtual_time
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import VirtualClock

TARGET = IggyTarget("store", PORT)


@pytest.mark.parametrize(
    ("fixed", "revision"),
    [
        ("auto", Revision.R3),
        ("R0", Revision.R0),
        ("R1", Revision.R1),
        ("R2c", Revision.R2C),
        ("R3", Revision.R3),
    ],
)
@in_virtual_time
async def test_the_revision_of_a_face_is_told(fixed: str, revision: Revision) -> None:
    config = IggyFaceConfig(address=f"127.0.0.1:{PORT}", revision=fixed)  # type: ignore[arg-type]
    async with iggy_face(config=config) as face:
        session = await open_session(face.transport, TARGET, random=Random(1))
        assert session.revision is revision
        details = await ensure_topic(session, "logs", "events", 2)
        assert len(details.partitions) == 2
        assert bool(await why_not_durable(session, details)) is (revision is Revision.R0)
        await session.close()


@in_virtual_time
async def test_a_service_that_was_stopped_during_the_login_is_not_taken_for_r0() -> None:
    """R0 needs no login, and keeps names in small letters: what is sent would go elsewhere."""
    connections = 0

    async def serve(stream: ByteStream) -> None:
        nonlocal connections
        connections += 1
        await stream.read()
        if connections == 1:  # the ping of R3
            await stream.write([encode_reply_frame(int(Reason.INVALID_COMMAND))])
        elif connections == 3:  # it runs again, and answers a request for its streams
            await stream.write([encode_reply_frame(0)])
        await stream.read()

    network = MemoryNetwork()
    await network.host("store").listen("store", PORT, None, serve)
    with pytest.raises(TransientError, match="does not answer"):
        await open_session(network.host("client"), TARGET, random=Random(1))
    assert connections == 2


@in_virtual_time
async def test_a_wrong_password_is_refused_and_a_server_that_is_away_is_not() -> None:
    async with iggy_face() as face:
        wrong = IggyTarget("store", PORT, None, "iggy", "wrong")
        with pytest.raises(IggyError) as refused:
            await open_session(face.transport, wrong, random=Random(1))
        assert refused.value.reason is Reason.INVALID_CREDENTIALS
    with pytest.raises(TransientError):
        await open_session(MemoryNetwork().host("client"), TARGET, random=Random(1))


@in_virtual_time
async def test_requests_are_answered_in_their_order_and_silence_is_an_error() -> None:
    async with iggy_face() as face:
        session = await open_session(face.transport, TARGET, random=Random(1), request_seconds=2)
        for _ in range(3):
            await session.send(GetMe())
        outcomes = [await session.receive() for _ in range(3)]
        assert [outcome.error for outcome in outcomes] == [None] * 3
        assert len({str(outcome.reply) for outcome in outcomes}) == 1
        face.network.swallow("client", "store", frozenset({"client", "store"}))
        with pytest.raises(TransientError, match="does not answer within 2 s"):
            await session.request(GetMe())
        session.abort()


@in_virtual_time
async def test_our_store_is_not_warned_of() -> None:
    async with iggy_face() as face:
        with capture_logs() as log:
            sink = await IggySink.open_topic(
                face.transport,
                TARGET,
                IggyAddress("store", PORT, "logs", "events"),
                partitions=3,
                store_id=UUID(int=1),
                clock=VirtualClock(),
                random=Random(1),
            )
            async with sink:
                segment = sink.segment_for(UUID(int=5).hex)
                assert segment in sink.segments
                batch = [frame_event(b"header"), frame_event(b"record")]
                async with asyncio.timeout(5):
                    await sink.append_batch(segment, UUID(int=5), batch, 2, ABSENT, 1)
        assert not [entry for entry in log if entry["log_level"] == "warning"]


def test_a_service_that_ends_plain_connections_is_said_to_want_tls_perhaps() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(end, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(TransientError, match="does it speak TLS"):
                await open_session(SystemTransport(), IggyTarget("127.0.0.1", port))

    asyncio.run(main())
