"""What is sent to Iggy's places alike, and polled back: messages as long as those of a log in JSON,
in sends of several sizes.
"""

import contextlib
import os
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from bench.iggy.client import IggySocket
from bench.iggy.places import STREAM, TOPIC, IggyPlace
from bench.measure import Sample, percentile
from bench.processes import BenchmarkError
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
from logdrive.wire.iggy.replies import Polled
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import (
    CreateGroup,
    JoinGroup,
    PollMessages,
    SendMessages,
    SyncGroup,
)
from logdrive.wire.iggy.revision import Revision

MESSAGE_BYTES: Final = 365
POLLED: Final = 1000
"""Messages of a poll."""

MEMBERS: Final = 8
_POOL = 16  # different sends of one size
_GROUP = 7
_WAIT_SECONDS = 60.0  # for a group's first message, and between two
_CONSUMER = Consumer(ConsumerKind.CONSUMER, 1)


@dataclass(frozen=True, slots=True)
class IggyRun:
    """What a run took: seconds, CPU seconds of the server and of this process, and, of sends, how
    long each waited.
    """

    messages: int
    seconds: float
    server_cpu: float
    client_cpu: float
    waits: list[float]

    def samples(self) -> dict[str, Sample]:
        """The figures that every run has; bytes are those of the messages' payloads."""
        size = self.messages * MESSAGE_BYTES
        cpu = {"server_cpu": self.server_cpu, "client_cpu": self.client_cpu}
        return {
            "throughput": Sample(size / self.seconds / 1e6, "MB/s"),
            "messages": Sample(self.messages / self.seconds, "1/s"),
            **{name: Sample(used / size * 1e9, "s/GB") for name, used in cpu.items()},
        }

    def waits_samples(self) -> dict[str, Sample]:
        """How many sends a second there were, and how long their acknowledgements took."""
        return {
            "sends": Sample(len(self.waits) / self.seconds, "1/s"),
            "p50": Sample(percentile(self.waits, 0.5) * 1e3, "ms"),
            "p99": Sample(percentile(self.waits, 0.99) * 1e3, "ms"),
        }


@cache
def _payloads(count: int, number: int) -> Sequence[bytes]:
    """Return the messages of send *number* of so many; one of another number is another."""
    text = b64encode(os.urandom(count * MESSAGE_BYTES * 3 // 4 + 3))
    return [text[at * MESSAGE_BYTES : (at + 1) * MESSAGE_BYTES] for at in range(count)]


def _send_of(revision: Revision, count: int, number: int, partition: int) -> SendMessages:
    messages = map(StoredMessage, _payloads(count, number % _POOL))
    return SendMessages(
        STREAM, TOPIC, ToPartition(partition), encode_sent(revision, messages, origin_us=1), count
    )


def send(place: IggyPlace, sends: int, count: int, in_flight: int, partitions: int = 1) -> IggyRun:
    """Send *count* messages so many times, with *in_flight* sends that are not acknowledged.

    They go to the partitions in turn.
    """
    with contextlib.closing(place.connect()) as client:
        pool = [
            client.frame_of(_send_of(place.revision, count, number, number % partitions))
            for number in range(max(_POOL, partitions))
        ]
        waits: list[float] = []
        flying: deque[float] = deque()
        clock = _Clock(place)
        for number in range(sends + in_flight):
            if flying and (number >= in_flight or number >= sends):
                client.next_payload(SendMessages)
                waits.append(time.monotonic() - flying.popleft())
            if number < sends:
                flying.append(time.monotonic())
                client.send(pool[number % len(pool)])
        return clock.run(sends * count, waits)


def poll(place: IggyPlace, sends: int, count: int) -> IggyRun:
    """Poll by 1000s what `send` has sent to the only partition, and compare it afterwards."""
    messages, arrived = sends * count, list[bytes | memoryview]()
    with contextlib.closing(place.connect()) as client:
        polls = [_poll_at(offset) for offset in range(0, messages, POLLED)]
        frames = [client.frame_of(one) for one in polls]
        clock = _Clock(place)
        for frame in frames:
            client.send(frame)
            arrived.append(client.next_payload(PollMessages))
        run = clock.run(messages, [])
        found = (
            message
            for one, payload in zip(polls, arrived, strict=True)
            for message in _messages(client, one, payload)
        )
        _compare(found, messages, count)
    return run


def poll_group(place: IggyPlace, sends: int, count: int) -> IggyRun:
    """Poll what `send` has sent to 8 partitions, as a group of 8, each with its connection.

    Each poll stores its offset. Every message must come once.
    """
    messages, seen = sends * count, set[tuple[int, int]]()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(place.connect())) for _ in range(MEMBERS)]
        group = _join(clients)
        polls = [_group_poll(client, group) for client in clients]
        frames = [client.frame_of(one) for client, one in zip(clients, polls, strict=True)]
        clock, arrived, last = _Clock(place), list[Polled](), time.monotonic()
        found = 0
        while found < messages:
            for client, frame in zip(clients, frames, strict=True):
                client.send(frame)
            for client, one in zip(clients, polls, strict=True):
                payload = client.next_payload(PollMessages)
                polled = decode_reply(place.revision, one, payload)
                if polled.count:
                    arrived.append(polled)
                    found, last = found + polled.count, time.monotonic()
            if time.monotonic() - last > _WAIT_SECONDS:
                raise BenchmarkError(f"{found} of {messages} messages came to the group")
        run = clock.run(messages, [])
    for polled in arrived:
        assert not isinstance(polled.batches, tuple)
        seen.update(
            (polled.partition, message.offset)
            for message in decode_polled(place.revision, polled.batches)
        )
    if found != messages or len(seen) != messages:
        raise BenchmarkError(f"{found} messages came, {len(seen)} of them once, not {messages}")
    return run


def _join(clients: Sequence[IggySocket]) -> int | str:
    revision = clients[0].revision
    group: int | str = _GROUP if revision is Revision.R0 else "bench"
    clients[0].call(
        CreateGroup(STREAM, TOPIC, None, _GROUP)
        if revision is Revision.R0
        else CreateGroup(STREAM, TOPIC, "bench")
    )
    for client in clients:
        client.call(JoinGroup(STREAM, TOPIC, group))
    return group


def _group_poll(client: IggySocket, group: int | str) -> PollMessages:
    partition = None
    if client.revision is Revision.R3:  # its members say which of theirs they poll
        assignment = client.call(SyncGroup(STREAM, TOPIC, group))
        if assignment is None or len(assignment.partitions) != 1:
            raise BenchmarkError(f"a member of 8 has not one partition of 8: {assignment}")
        (partition,) = assignment.partitions
    return PollMessages(
        Consumer(ConsumerKind.GROUP, group),
        STREAM,
        TOPIC,
        partition,
        PollingStrategy(PollingKind.NEXT),
        POLLED,
        auto_commit=True,
    )


def _poll_at(offset: int) -> PollMessages:
    strategy = PollingStrategy(PollingKind.OFFSET, offset)
    return PollMessages(_CONSUMER, STREAM, TOPIC, 0, strategy, POLLED)


class _Clock:
    """Begins to measure when it is made."""

    def __init__(self, place: IggyPlace) -> None:
        self._place = place
        self._began, self._client_cpu = time.monotonic(), time.process_time()
        self._server_cpu = place.cpu_seconds()

    def run(self, messages: int, waits: list[float]) -> IggyRun:
        """Return what was measured so far."""
        seconds = time.monotonic() - self._began
        server, client = self._place.cpu_seconds(), time.process_time()
        return IggyRun(
            messages, seconds, server - self._server_cpu, client - self._client_cpu, waits
        )


def _messages(
    client: IggySocket, request: PollMessages, payload: bytes | memoryview
) -> Iterator[tuple[int, bytes]]:
    polled = decode_reply(client.revision, request, payload)
    assert not isinstance(polled.batches, tuple)
    for message in decode_polled(client.revision, polled.batches):
        yield message.offset, message.payload


def _compare(found: Iterator[tuple[int, bytes]], messages: int, count: int) -> None:
    """Raise `BenchmarkError` unless *found* are the messages of sends of *count* each."""
    expected = 0
    for offset, payload in found:
        if (
            offset != expected
            or payload != _payloads(count, expected // count % _POOL)[expected % count]
        ):
            raise BenchmarkError(f"message {expected} is not what was sent")
        expected += 1
    if expected != messages:
        raise BenchmarkError(f"{expected} of {messages} messages came back")
