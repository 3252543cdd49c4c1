"""[listen.iggy] of a store: durable before it is acknowledged, drained at the end, refused at the
start where something is missing.
"""

import asyncio
import subprocess
import sys
from random import Random

from logdrive.errors import TransientError
from logdrive.wire.iggy.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from logdrive.wire.iggy.messages.decode import decode_polled
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.messages.sending import encode_sent
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import (
    CreateTopic,
    GetClients,
    IggyCreateStream,
    PollMessages,
    SendMessages,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.connections import Classic
from tests.logdrive.services.iggy.server.served import ServedFace, iggy_face, with_iggy_face
from tests.support import virtual_time
from tests.support.memory.disk import MemoryDisk

CONSUMER = Consumer(ConsumerKind.CONSUMER, 1)
SENDS = 20


def _send(number: int, revision: Revision = Revision.R2C) -> SendMessages:
    batch = encode_sent(revision, [StoredMessage(b"message %d" % number)])
    return SendMessages("s", "t", ToPartition(0), batch, 1)


async def _make_topic(client: Classic) -> None:
    assert (await client.ask(IggyCreateStream("s"))).status == 0
    assert (await client.ask(CreateTopic("s", "t", 1))).status == 0


async def _stored(client: Classic) -> list[bytes]:
    """Return the payloads of all messages."""
    first = PollingStrategy(PollingKind.FIRST)
    poll = PollMessages(CONSUMER, "s", "t", 0, first, 10_000)
    reply = await client.ask(poll)
    assert reply.status == 0
    polled = decode_reply(client.revision, poll, reply.payload)
    batches = polled.batches
    assert not isinstance(batches, tuple)
    return [message.payload for message in decode_polled(client.revision, batches)]


async def _hear_all(client: Classic) -> int:
    """Return how many successes come before the connection ends."""
    heard = 0
    try:
        while True:
            heard += (await client.hear()).status == 0
    except (AssertionError, TransientError):
        return heard


def test_sends_under_way_are_answered_when_the_face_closes_and_nothing_of_them_is_lost() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_face(disk) as face:
            client = await face.client()
            await _make_topic(client)
            await client.say(*map(_send, range(SENDS)))
            await asyncio.sleep(0)
            await face.stop()
            acknowledged = await _hear_all(client)
        async with iggy_face(disk) as face:
            stored = await _stored(await face.client())
        assert stored == [b"message %d" % number for number in range(len(stored))]
        assert acknowledged == len(stored)

    virtual_time.run(main())


def test_what_was_acknowledged_outlives_a_crash() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_face(disk, clean=False) as face:
            client = await face.client()
            await _make_topic(client)
            await client.say(*map(_send, range(SENDS)))
            for _ in range(SENDS // 2):
                assert (await client.hear()).status == 0
        disk.crash(Random(5))
        async with iggy_face(disk) as face:
            stored = await _stored(await face.client())
        assert len(stored) >= SENDS // 2
        assert stored == [b"message %d" % number for number in range(len(stored))]

    virtual_time.run(main())


def test_a_poll_sees_the_sends_before_it() -> None:
    async def main(face: ServedFace) -> None:
        client = await face.client()
        await _make_topic(client)
        await client.say(*map(_send, range(SENDS)))
        for _ in range(SENDS):
            assert (await client.hear()).status == 0
        assert len(await _stored(client)) == SENDS

    with_iggy_face(main)


def test_a_session_ends_with_its_connection() -> None:
    async def main(face: ServedFace) -> None:
        client, other = await face.client(), await face.client()

        async def clients() -> int:
            reply = await client.ask(GetClients())
            found = decode_reply(client.revision, GetClients(), reply.payload)
            assert isinstance(found, tuple)
            return len(found)

        assert await clients() == 2
        await other.stream.close()
        await asyncio.sleep(1)
        assert await clients() == 1

    with_iggy_face(main)


def test_a_missing_library_is_told_with_what_to_install() -> None:
    # importing the listener needs no library
    listener = (
        "import sys\n"
        "for name in ('xxhash', 'mmh3', 'google', 'google.protobuf'): sys.modules[name] = None\n"
        "import logdrive.services.serve\n"
        "from logdrive.services.iggy.server.listen import require_iggy\n"
        "try: require_iggy('127.0.0.1')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", listener], capture_output=True, timeout=60, check=True
    )
    assert b"ConfigError" in done.stdout
    assert b"pip install 'logdrive[iggy]'" in done.stdout


def test_the_listener_needs_no_protobuf() -> None:
    script = (
        "import sys\n"
        "for name in ('google', 'google.protobuf', 'grpc', 'h2'): sys.modules[name] = None\n"
        "from logdrive.services.iggy.server.listen import require_iggy\n"
        "require_iggy('127.0.0.1')\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
