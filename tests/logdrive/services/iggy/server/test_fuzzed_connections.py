"""Frames that were damaged on the way: an answer or the end of one connection, and no more."""

import asyncio
from random import Random

import pytest
from structlog.testing import capture_logs

from logdrive.errors import TransientError
from logdrive.wire.iggy.frames import encode_request_frame
from logdrive.wire.iggy.identifiers import Consumer, ConsumerKind, PollingKind, PollingStrategy
from logdrive.wire.iggy.requests import (
    CreateTopic,
    GetTopics,
    IggyCreateStream,
    IggyRequest,
    Ping,
    PollMessages,
    StoreConsumerOffset,
)
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.iggy.vsr.frames import encode_vsr_request
from logdrive.wire.iggy.vsr.headers import RequestHeader
from logdrive.wire.iggy.vsr.register import encode_register
from tests.logdrive.services.iggy.server.connections import (
    LOGIN,
    SEND,
    ScriptedFace,
    ping,
    scripted,
)
from tests.logdrive.services.iggy.server.test_vsr_dialog import CLIENT, REGISTRATION
from tests.support.memory.transport import MemoryStream

STREAMS = 40
CONSUMER = Consumer(ConsumerKind.CONSUMER, 1)
REQUESTS: tuple[IggyRequest, ...] = (
    Ping(),
    IggyCreateStream("s"),
    CreateTopic("s", "t", 3),
    SEND,
    PollMessages(CONSUMER, "s", "t", 0, PollingStrategy(PollingKind.FIRST), 10),
    StoreConsumerOffset(CONSUMER, "s", "t", 0, 3),
    GetTopics("s"),
)


def _classic(random: Random) -> bytes:
    requests = [LOGIN, *random.sample(REQUESTS, 5)]
    encoded = [encode_request(Revision.R2C, request) for request in requests]
    return b"".join(encode_request_frame(code, payload) for code, payload in encoded)


def _replicated(random: Random) -> bytes:
    body = encode_register(REGISTRATION)
    frames = [RequestHeader(CLIENT, 1, len(body)).encode() + body]
    for number, request in enumerate(random.sample(REQUESTS, 5), 1):
        code, payload = encode_request(Revision.R3, request)
        frames.append(encode_vsr_request(code, payload, client=CLIENT, number=number))
    return b"".join(frames)


def _damaged(data: bytes, random: Random) -> bytes:
    """Return *data* with some bytes changed, left out or doubled."""
    damaged = bytearray(data)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(damaged))
        match random.randrange(3):
            case 0:
                damaged[at] = random.randrange(256)
            case 1:
                del damaged[at : at + random.randint(1, 8)]
            case 2:
                damaged[at:at] = damaged[at : at + random.randint(1, 8)]
    return bytes(damaged)


async def _send_all(stream: MemoryStream, data: bytes, random: Random) -> None:
    """Send *data* in pieces and read what is answered until nothing more comes."""
    try:
        for at in range(0, len(data), 97):
            await stream.write([data[at : at + 97]])
            if random.random() < 0.5:
                await asyncio.sleep(0.001)
        async with asyncio.timeout(1):
            while await stream.read():
                pass
    except (TransientError, TimeoutError):
        pass
    await stream.close()


@pytest.mark.parametrize("make", [_classic, _replicated])
@pytest.mark.parametrize("seed", range(5))
def test_damaged_frames_end_nothing_but_their_own_connection(seed: int, make: object) -> None:
    assert callable(make)
    random = Random(seed)

    async def main(face: ScriptedFace) -> None:
        bystander = await face.client()
        for _ in range(STREAMS):
            data = _damaged(make(random), random)
            await _send_all(await face.connect(), data, random)
        for send in face.answers.sends:
            send.cancel()
        assert await ping(bystander) == 0
        await face.settle()
        assert len(face.sessions) == 1
        assert face.server._memory.used == 0

    with capture_logs() as logs:
        scripted(main)
    assert not [entry for entry in logs if entry["log_level"] == "error"]
