"""A topic in memory that answers a reader's requests in any revision, and can lose messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from logdrive.model.framing import split_events
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.services.iggy.batches import BATCH_HEADER
from logdrive.services.iggy.reader.polling import Partition
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import PollingKind
from logdrive.wire.iggy.messages.envelope import StoredMessage, encode_event
from logdrive.wire.iggy.messages.headers import encode_headers, header
from logdrive.wire.iggy.messages.polled import StoredEvents, encode_polled
from logdrive.wire.iggy.replies import PartitionInfo, Polled, TopicDetails, TopicInfo
from logdrive.wire.iggy.replies_codec import decode_reply, encode_reply
from logdrive.wire.iggy.requests import GetTopic, IggyRequestFor, PollMessages
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.pipeline.segments import Segment

R = TypeVar("R")

STREAM, TOPIC = "logs", "app"
PARTITION = Partition(STREAM, TOPIC, 0)
_TIME_US = 1_700_000_000_123_456
_POLL_BYTES = 1 << 26


def as_sent(segment: Segment) -> list[StoredMessage]:
    """Return the batches of *segment* as a sink sends them: the first message of each is marked."""
    data, messages = bytes(segment.data), list[StoredMessage]()
    for number, batch in enumerate(walk_batches(segment.name, 0, data)):
        marks = encode_headers([header(BATCH_HEADER, f"{number:032x}")])
        messages.append(StoredMessage(batch.payload, marks))
        messages += map(StoredMessage, split_events(data, batch.body, batch.next))
    return messages


@dataclass
class MemoryTopic:
    """Answers `GetTopic` and `PollMessages`; `partitions` are messages by offset, None if lost."""

    revision: Revision = Revision.R2C
    partitions: list[list[StoredMessage | None]] = field(default_factory=lambda: [[]])
    """Of each partition; an offset that is None is lost."""
    first: int = 0
    """Offset of the first message that retention has left in the first partition."""
    knows_first: bool = True
    """False: a poll of the first message looks for offset 0, as the first servers do."""
    late: int = 0
    """So many polls do not find `late_offset` yet."""
    late_offset: int = -1
    scrambled: bool = False
    """True: a poll brings its messages backwards, and some twice."""
    polls: list[PollMessages] = field(default_factory=list)

    def send(self, messages: Sequence[StoredMessage], partition: int = 0) -> None:
        """Add *messages*."""
        self.partitions[partition] += messages

    async def request(self, request: IggyRequestFor[R]) -> R:
        """Answer through the codec, as a server's bytes would."""
        asked: IggyRequestFor[R] = request  # not narrowed below
        match request:
            case GetTopic(stream=stream, topic=topic):
                found: Any = self._topic() if (stream, topic) == (STREAM, TOPIC) else None
            case PollMessages():
                self.polls.append(request)
                found = self._poll(request)
            case _:
                raise AssertionError(f"a reader asks {request}")
        payload = encode_reply(self.revision, request, found)
        return decode_reply(self.revision, asked, payload)

    def _kept(self, partition: int) -> dict[int, StoredMessage]:
        first = self.first if partition == 0 else 0
        messages = enumerate(self.partitions[partition])
        return {at: one for at, one in messages if one is not None and at >= first}

    def _topic(self) -> TopicDetails:
        infos = []
        for index, messages in enumerate(self.partitions):
            newest = max(0, len(messages) - 1)
            infos.append(PartitionInfo(index, 0, 1, newest, 0, len(self._kept(index))))
        return TopicDetails(TopicInfo(1, 0, len(infos), 0, 0, TOPIC), tuple(infos))

    def _poll(self, request: PollMessages) -> Polled:
        assert request.partition is not None
        if request.partition >= len(self.partitions):
            raise IggyError(Reason.PARTITION_NOT_FOUND, "no such partition")
        kept = self._kept(request.partition)
        if self.late and self.late_offset in kept and request.count > 1:
            self.late -= 1
            del kept[self.late_offset]
        match request.strategy.kind:
            case PollingKind.OFFSET:
                wanted = [at for at in kept if at >= request.strategy.value][: request.count]
            case PollingKind.FIRST:
                wanted = list(kept)[: request.count] if self.knows_first or 0 in kept else []
            case PollingKind.LAST:
                wanted = list(kept)[-request.count :]
            case other:
                raise AssertionError(f"a reader polls {other}")
        parts: list[bytes] = []
        for at in wanted:
            events = StoredEvents(encode_event(kept[at]), at, _TIME_US)
            encoded = encode_polled(
                self.revision,
                [events],
                partition=request.partition,
                id_seed=b"01234567",
                most=1,
                limit=_POLL_BYTES,
                foreign=lambda _: None,
            )
            parts += encoded.batches
        if self.scrambled:
            parts = [*parts[::-1], *parts[::3]]
        newest = max(0, len(self.partitions[request.partition]) - 1)
        return Polled(request.partition, newest, len(wanted), b"".join(parts))
