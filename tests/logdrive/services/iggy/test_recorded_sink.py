"""What our sink sends in R2c and R3, held against what stock clients were recorded with.

The peer answers as the real servers of the recordings did. A frame of ours equals the stock
client's but for what is random (R3's client id), counts (request and session numbers) or is ours:
the name of the library, user headers, times.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from random import Random
from uuid import UUID

from logdrive.address import IggyAddress
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.services.iggy.batches import BATCH_HEADER, NUMBER_HEADER, SOURCE_HEADER
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.sink import IggySink
from logdrive.wire.iggy.messages.headers import decode_headers
from logdrive.wire.iggy.options import OptionScope
from logdrive.wire.iggy.replies import OptionDescription
from logdrive.wire.iggy.replies_codec import encode_reply
from logdrive.wire.iggy.requests import DescribeOptions
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.recorded_peer import (
    HEAD,
    NOT_UNDERSTOOD,
    Recorded,
    RecordedPeer,
    kind_of,
    recording,
    refused,
)
from tests.receiver.world import in_virtual_time
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import VirtualClock

PORT = 8090
STREAM, TOPIC = "py260211", "app"  # the names in the recordings
PAYLOADS = (b"hello", b"world", b"\x00\xff")
LOGIN, POLL, SEND, CREATE_STREAM, TOPIC_OF, CREATE_TOPIC = 38, 100, 101, 202, 300, 302
R2C = {code: (0, code) for code in (LOGIN, POLL, SEND, CREATE_STREAM, TOPIC_OF, CREATE_TOPIC)}
R3 = {
    LOGIN: (1, 0),
    POLL: (2, POLL),
    SEND: (160, 0),
    CREATE_STREAM: (128, 0),
    TOPIC_OF: (2, TOPIC_OF),
    CREATE_TOPIC: (132, 0),
}
STREAMS, TOPICS, CONSUMER_OFFSET = 201, 301, 120
VARYING = ((48, 52), (128, 144), (168, 176), (184, 192))
"""Of R3's heads: size, client id, request number, session."""
SUM = (144, 160)


class Replay:
    """Answers from *exchanges*: no topic until it is created, then one with messages in it."""

    def __init__(self, exchanges: Sequence[Recorded], kinds: dict[int, tuple[int, int]]) -> None:
        self.exchanges, self.kinds = exchanges, kinds
        self.created = False
        self.sends = 0

    def __call__(self, frame: bytes) -> bytes | None:
        """Return the recorded reply to the like of *frame*."""
        replicated = self.kinds is R3
        kind = kind_of(frame)
        # a frame of R3, and a consumer's offset asked for as in R1: so the revision is told
        if not replicated and (frame[:4] == bytes(4) or kind == (0, CONSUMER_OFFSET)):
            return NOT_UNDERSTOOD
        if kind == (2, 1):
            return self.named("ping").reply
        if kind == self.kinds[TOPIC_OF]:
            # missing; empty; and with what was sent meanwhile
            name = "topic" if self.created else "group"
            return self.named(name, -1 if self.sends else 0).reply
        if kind == self.kinds[SEND]:
            self.sends += 1
            if self.sends == 1:  # lost with its connection
                return None
        if kind == self.kinds[CREATE_TOPIC]:
            self.created = True
            return self.named("create topic", -1).reply
        if kind[1] in (STREAMS, TOPICS):
            return self.named("group").reply  # an answer without a body
        for code, other in self.kinds.items():
            if kind == other:
                return self.like(code).reply
        return refused(frame)

    def named(self, name: str, index: int = 0) -> Recorded:
        """Return the recorded exchange of that name, of several the one at *index*."""
        return [one for one in self.exchanges if one.name == name][index]

    def like(self, code: int) -> Recorded:
        """Return the stock client's request of this kind, and the reply of success."""
        names = {LOGIN: "login", POLL: "poll", SEND: "send", CREATE_STREAM: "create stream"}
        found = [one for one in self.exchanges if one.name == names[code]]
        return found[1 if code == LOGIN else 0]  # the first login has a wrong password


async def _frames_of_a_sink(peer: RecordedPeer) -> list[bytes]:
    """Let a sink create the topic, send a batch, lose it, look for it and send it again."""
    network = MemoryNetwork()
    await network.host("iggy").listen("iggy", PORT, None, peer.serve)
    sink = await IggySink.open_topic(
        network.host("receiver"),
        IggyTarget("iggy", PORT),
        IggyAddress("iggy", PORT, STREAM, TOPIC),
        partitions=1,
        store_id=UUID(int=9),
        clock=VirtualClock(),
        random=Random(1),
    )
    async with sink, asyncio.timeout(120):
        parts = [frame_event(payload) for payload in PAYLOADS]
        await sink.append_batch(sink.segments[0], UUID(int=7), parts, len(parts), ABSENT, 1)
    return peer.frames


def _of_kind(frames: Sequence[bytes], kind: tuple[int, int]) -> list[bytes]:
    found = [frame for frame in frames if kind_of(frame) == kind]
    assert found, f"no frame {kind}"
    return found


def _headless(frame: bytes) -> bytes:
    return frame[HEAD:] if frame[:4] == bytes(4) else frame[8:]


def _same_head(ours: bytes, theirs: bytes, *, summed_alike: bool) -> None:
    """Compare two heads: the size is that of the frame, and equal bodies have equal sums."""
    if ours[:4] != bytes(4):
        assert ours[4:8] == theirs[4:8]
        assert struct.unpack_from("<I", ours)[0] == len(ours) - 4
        return
    assert struct.unpack_from("<I", ours, 48)[0] == len(ours)
    one, other = bytearray(ours[:HEAD]), bytearray(theirs[:HEAD])
    for start, end in (*VARYING, *(() if summed_alike else (SUM,))):
        one[start:end] = other[start:end] = bytes(end - start)
    assert one.hex() == other.hex()


def _same(ours: bytes, theirs: bytes) -> None:
    assert _headless(ours).hex() == _headless(theirs).hex()
    _same_head(ours, theirs, summed_alike=True)


@in_virtual_time
async def test_frames_of_r2c_are_those_of_the_stock_client() -> None:
    replay = Replay(recording("server-0.8.0-log"), R2C)
    frames = await _frames_of_a_sink(RecordedPeer(replay))
    login = _of_kind(frames, R2C[LOGIN])[0]
    context = struct.pack("<I", 8) + b"logdrive"
    assert login.endswith(context)
    assert login[4 : -len(context)] == replay.like(LOGIN).request[4:-4]
    _same(_of_kind(frames, R2C[CREATE_STREAM])[0], replay.named("create stream").request)
    _same(_of_kind(frames, R2C[TOPIC_OF])[0], replay.named("topic").request)
    created = _of_kind(frames, R2C[CREATE_TOPIC])[0]
    # one partition, no expiry, no limit; the stock client asked for two and the server's defaults
    theirs = bytearray(replay.named("create topic", -1).request)
    at = 8 + 2 + len(STREAM)
    theirs[at : at + 4] = struct.pack("<I", 1)
    theirs[at + 5 : at + 21] = b"\xff" * 16
    _same_but_for_replication(created, bytes(theirs), at + 21)
    _same_poll(_of_kind(frames, R2C[POLL])[0], replay.like(POLL).request)
    for send in _of_kind(frames, R2C[SEND]):
        _same_send(send, replay.like(SEND).request, _cut_r2c)
    assert replay.sends == 2


def _same_but_for_replication(ours: bytes, theirs: bytes, at: int) -> None:
    assert (ours[:at], ours[at + 1 :]) == (theirs[:at], theirs[at + 1 :])


@in_virtual_time
async def test_frames_of_r3_are_those_of_the_stock_client() -> None:
    exchanges = recording("server-0.9.0-edge.5-log")
    replay = Replay(exchanges, R3)
    keys = ("durability", "enforce_fsync", "messages_required_to_save")
    told = tuple(OptionDescription(key, 2, b"", "") for key in keys)
    described = encode_reply(Revision.R3, DescribeOptions(OptionScope.TOPIC), told)

    def answer(frame: bytes) -> bytes | None:
        known = replay(frame)
        if known is None or kind_of(frame) != _DESCRIBE:
            return known
        body = described if isinstance(described, bytes) else b"".join(described)
        head = bytearray(refused(frame))
        struct.pack_into("<I", head, 48, HEAD + len(body))
        struct.pack_into("<I", head, 216, 0)
        return bytes(head) + body

    frames = await _frames_of_a_sink(RecordedPeer(answer))
    login, theirs = _of_kind(frames, R3[LOGIN])[0], replay.like(LOGIN).request
    _same_head(login, theirs, summed_alike=False)
    library = (b"\x08logdrive\x060.10.0", b"\x08rust-sdk\x060.11.0")
    assert login[HEAD:].replace(*library) == theirs[HEAD:]
    _same(_of_kind(frames, R3[CREATE_STREAM])[0], replay.named("create stream").request)
    _same(_of_kind(frames, R3[TOPIC_OF])[0], replay.named("topic").request)

    created = _of_kind(frames, R3[CREATE_TOPIC])[0]
    stock = recording("client-apache-iggy-0.9.0")
    opted = next(one for one in stock if one.name == "create topic opts").request
    _same_head(created, opted, summed_alike=False)
    named = b"".join([b"\x02\x08", STREAM.encode(), struct.pack("<I", 1), b"\x03app"])
    assert created[HEAD:].startswith(named)
    # the options, each as a stock client wrote it, or the server where none did; values are ours
    entries = (
        (_entry("durability", "02"), b"\x09\0\0\0persisted", opted),
        (_entry("enforce_fsync", "03 01000000"), b"\1", replay.named("topic").reply),
        (_entry("messages_required_to_save", "0b 04000000"), b"\1\0\0\0", opted),
    )
    left = created[HEAD + len(named) :]
    for entry, value, recorded in entries:
        assert entry in recorded
        assert left.count(entry + value) == 1
        left = left.replace(entry + value, b"")
    assert left == b""

    _same_poll(_of_kind(frames, R3[POLL])[0], replay.like(POLL).request)
    for send in _of_kind(frames, R3[SEND]):
        _same_send(send, replay.like(SEND).request, _cut_r3)
    assert replay.sends == 2


_DESCRIBE = kind_of(
    next(
        one for one in recording("client-apache-iggy-0.9.0") if one.name == "describe options"
    ).request
)


def _entry(key: str, kind: str) -> bytes:
    """Return an option up to its value."""
    return b"\x02" + struct.pack("<I", len(key)) + key.encode() + bytes.fromhex(kind)


def _same_poll(ours: bytes, theirs: bytes) -> None:
    """Compare polls from an offset; consumer, offset and count are each client's own."""
    _same_head(ours, theirs, summed_alike=True)
    names = b"".join([b"\x02\x08", STREAM.encode(), b"\x02\x03", TOPIC.encode()])
    (consumer, mine), (other, stock) = ours.split(names), theirs.split(names)
    assert _headless(consumer) == bytes.fromhex("01 0104 01000000")
    assert _headless(other)[:1] == b"\1"
    # partition, its flag, kind of the strategy; value and count; auto commit
    assert (mine[:5], len(mine), mine[-1]) == (stock[:5], len(stock), stock[-1])
    assert mine[5] == 1


Cut = Callable[[bytes], tuple[bytes, bytes, list[tuple[bytes, bytes, bytes]]]]
"""Returns of a send what is before the messages, as it must be equal, its index or head of the
batch without times and sums, and of each message its head likewise, user headers and payload."""


def _same_send(ours: bytes, theirs: bytes, cut: Cut) -> None:
    _same_head(ours, theirs, summed_alike=True)
    mine, stock = cut(_headless(ours)), cut(_headless(theirs))
    assert mine[:2] == stock[:2]
    assert [(head, payload) for head, _, payload in mine[2]] == [
        (head, payload) for head, _, payload in stock[2]
    ]
    assert [payload for _, _, payload in mine[2]] == list(PAYLOADS)
    first, *others = [headers for _, headers, _ in mine[2]]
    assert {key.value for key, _ in decode_headers(first)} == {
        SOURCE_HEADER,
        NUMBER_HEADER,
        BATCH_HEADER,
    }
    assert others == [b""] * 2


def _cut_r2c(body: bytes) -> tuple[bytes, bytes, list[tuple[bytes, bytes, bytes]]]:
    at = 4 + struct.unpack_from("<I", body)[0]
    count = struct.unpack_from("<I", body, at - 4)[0]
    index, start = body[at : at + 16 * count], at + 16 * count
    messages, place = [], start
    for number in range(count):
        head = bytearray(body[place : place + 64])
        more, size = struct.unpack_from("<II", head, 48)
        head[40:52] = bytes(12)  # the origin, and the length of user headers
        payload = place + 64
        end = payload + size + more
        messages.append((bytes(head), body[payload + size : end], body[payload : payload + size]))
        place = end
        # an entry: 0, where the message ends, 0
        assert struct.unpack_from("<IIQ", index, 16 * number) == (0, place - start, 0)
    assert place == len(body)
    return body[:at], b"", messages


def _cut_r3(body: bytes) -> tuple[bytes, bytes, list[tuple[bytes, bytes, bytes]]]:
    at = 4 + struct.unpack_from("<I", body)[0]
    head = bytearray(body[at : at + 256])
    assert struct.unpack_from("<Q", head, 32)[0] == len(body) - at
    head[24:48] = bytes(24)  # origin, length, checksum
    messages, place = [], at + 256
    while place < len(body):
        one = bytearray(body[place : place + 48])
        more, size = struct.unpack_from("<II", one, 32)
        # checksum, id, distance of the origin, length of user headers
        one[:24] = bytes(24)
        one[28:36] = bytes(8)
        payload = place + 48
        end = payload + size + more
        messages.append((bytes(one), body[payload + size : end], body[payload : payload + size]))
        place = end
    assert place == len(body)
    return body[:at], bytes(head), messages
