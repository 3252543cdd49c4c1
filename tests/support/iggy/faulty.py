"""An Iggy whose faults are those seen at real servers: it acknowledges what a crash loses, leaves
torn batches, stores a send twice, or in another order, and lists clients for longer than it should.

Its protocol is R1's or R2c's. It runs over any transport, in virtual time, too:

    iggy = FaultyIggy(Revision.R2C)
    await transport.listen("iggy", 8090, None, iggy.serve)
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.framing import frame_event, split_events
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.frames import RequestFrame, RequestFrames, encode_reply_frame
from logdrive.wire.iggy.identifiers import PollingKind, ToPartition
from logdrive.wire.iggy.messages.batches import frame_sent
from logdrive.wire.iggy.messages.polled import StoredEvents, encode_polled
from logdrive.wire.iggy.replies import (
    ClientDetails,
    ClientInfo,
    ClientTransport,
    IggyReply,
    IggyStreamInfo,
    LoggedIn,
    PartitionInfo,
    Polled,
    TopicDetails,
    TopicInfo,
)
from logdrive.wire.iggy.replies_codec import encode_reply
from logdrive.wire.iggy.requests import (
    CreateTopic,
    GetClients,
    GetMe,
    GetStreams,
    GetTopic,
    GetTopics,
    IggyCreateStream,
    IggyLogin,
    IggyRequest,
    PollMessages,
    SendMessages,
)
from logdrive.wire.iggy.requests_codec import decode_request
from logdrive.wire.iggy.revision import Revision

_POLL_BYTES = 1 << 24
_ZEROS = 4  # that an R3 frame begins with
_SEED = b"\1" * 8


@dataclass
class _Client:
    info: ClientInfo
    stream: ByteStream
    logged_in: bool = False


@dataclass
class FaultyIggy:
    """One server; its fields may be changed at any time. Faults are those of the topic *topic*."""

    revision: Revision
    partitions: int = 1
    """Of each topic."""
    topic: str = "events"
    store_seconds: float = 0.0
    """How long a send takes before it is stored, also after its connection is lost."""
    answers: bool = True
    """False: sends are stored, and their answers never leave."""
    doubles: int = 0
    """So many next sends are stored twice."""
    swaps: int = 0
    """So many next sends are stored behind the one that follows; both are acknowledged in turn."""
    closed: dict[int, None] = field(default_factory=dict)
    """Partitions that refuse every send."""
    full: bool = False
    """True: every send is refused, as by a full disk; the connection stays."""
    lists_clients: bool = True
    """False: the user may not see the clients."""

    stored: list[list[bytes]] = field(default_factory=list)
    """The events of each partition of the topic."""
    others: dict[str, list[list[bytes]]] = field(default_factory=dict)
    """The same of other topics, by name."""
    acknowledged: list[tuple[int, list[bytes]]] = field(default_factory=list)
    """Partition and events of each send that was answered, and of what was polled and then lost."""
    on_send: Callable[[], None] = lambda: None
    """Called when a send is there, before anything is done with it."""
    _clients: dict[int, _Client] = field(default_factory=dict)
    _topics: dict[str, list[list[bytes]]] = field(default_factory=dict)
    """Those that were created."""
    _polled: list[int] = field(default_factory=list)
    """The ends of what clients have seen of each partition."""
    _held: list[tuple[int, list[bytes]]] = field(default_factory=list)
    _next_client: int = 1

    def __post_init__(self) -> None:
        self.stored = [[] for _ in range(self.partitions)]
        self._polled = [0] * self.partitions

    def crash(self, keep: list[int]) -> None:
        """Reset all connections; of each partition only the first so many messages are left."""
        for client in self._clients.values():
            client.stream.abort()
        self._clients.clear()
        self._held.clear()
        for index, (events, count) in enumerate(zip(self.stored, keep, strict=True)):
            if self._polled[index] > count:
                self.acknowledged.append((index, events[: self._polled[index]]))
                self._polled[index] = count
            del events[count:]

    def release(self) -> None:
        """Store what is held to be stored behind a later send."""
        for index, held in self._held:
            self.stored[index] += held
        self._held.clear()

    def cut(self) -> None:
        """Reset all connections; what was sent is still carried out."""
        for client in self._clients.values():
            client.stream.abort()

    async def serve(self, stream: ByteStream) -> None:
        """Serve one connection."""
        frames, number = RequestFrames(), self._next_client
        self._next_client += 1
        info = ClientInfo(number, ClientTransport.TCP, f"{stream.peer.address}/{number}", 0, 1)
        self._clients[number] = _Client(info, stream)
        try:
            first = b""
            while data := await stream.read():
                if len(first) < _ZEROS:
                    first += data
                    if len(first) < _ZEROS:
                        continue
                    data = first
                    if first.startswith(bytes(_ZEROS)):  # a client of R3
                        await stream.write([encode_reply_frame(int(Reason.INVALID_COMMAND))])
                if first.startswith(bytes(_ZEROS)):
                    continue
                frames.receive(data)
                while (frame := frames.next_frame()) is not None:
                    await self._answer(stream, frame, info)
        except TransientError:
            pass
        finally:
            self._clients.pop(number, None)

    async def _answer(self, stream: ByteStream, frame: RequestFrame, info: ClientInfo) -> None:
        """Answer one request; a send is carried out though its client is gone."""
        try:
            request = decode_request(self.revision, frame.code, frame.payload)
            sent: tuple[int, list[bytes]] | None = None
            self._check_login(request, info)
            if isinstance(request, SendMessages):
                self.on_send()
                await asyncio.sleep(self.store_seconds)
                if info.id not in self._clients:
                    return  # a crash came before it was stored
                sent = self._store(request)
                if request.topic != self.topic:
                    sent = None
                if not self.answers:
                    return
                reply: IggyReply = None
            else:
                reply = self._reply(request, info)
            parts = encode_reply_frame(0, encode_reply(self.revision, request, reply))
        except IggyError as error:
            parts, sent = encode_reply_frame(error.code(self.revision)), None
        await stream.write([parts])
        if sent is not None:
            self.acknowledged.append(sent)

    def _check_login(self, request: IggyRequest, info: ClientInfo) -> None:
        """Refuse all but a login before it, as real servers do: so none is taken for one of R0."""
        client = self._clients.get(info.id)
        if client is not None and isinstance(request, IggyLogin):
            client.logged_in = True
        elif client is not None and not client.logged_in:
            raise IggyError(Reason.UNAUTHENTICATED)

    def _store(self, request: SendMessages) -> tuple[int, list[bytes]]:
        """Store a send, or hold it; return its partition and its events."""
        assert isinstance(request.partitioning, ToPartition)
        sent = frame_sent(self.revision, request.batch, request.count)
        events = [frame_event(payload) for payload in split_events(sent.events)]
        index = request.partitioning.index
        if self.full:
            raise IggyError(Reason.IO_ERROR)
        if request.topic != self.topic:
            self._events_of(str(request.topic))[index].extend(events)
            return index, events
        if index in self.closed:
            raise IggyError(Reason.SEGMENT_CLOSED)
        if self.swaps:
            self.swaps -= 1
            self._held.append((index, events))
            return index, events
        for _ in range(2 if self.doubles else 1):
            self.stored[index] += events
        self.doubles = max(0, self.doubles - 1)
        self.release()
        return index, events

    def _reply(self, request: IggyRequest, info: ClientInfo) -> IggyReply:
        match request:
            case IggyLogin():
                return LoggedIn(1)
            case GetMe():
                return ClientDetails(info)
            case GetClients():
                if not self.lists_clients:
                    raise IggyError(Reason.UNAUTHORIZED)
                return tuple(client.info for client in self._clients.values())
            case GetStreams():
                return ()
            case GetTopics():
                return ()
            case IggyCreateStream(name=name):
                return IggyStreamInfo(1, 0, 0, 0, 0, name)
            case CreateTopic(name=name):
                self._topics[name] = self._events_of(name)
                return self._details(name)
            case GetTopic(topic=topic):
                return self._details(str(topic)) if topic in self._topics else None
            case PollMessages():
                return self._poll(request)
            case _:
                raise IggyError(Reason.UNAUTHORIZED)

    def _events_of(self, topic: str) -> list[list[bytes]]:
        if topic == self.topic:
            return self.stored
        return self.others.setdefault(topic, [[] for _ in range(self.partitions)])

    def _details(self, topic: str) -> TopicDetails:
        infos = tuple(
            PartitionInfo(index, 0, 1, max(0, len(events) - 1), 0, len(events))
            for index, events in enumerate(self._events_of(topic))
        )
        return TopicDetails(TopicInfo(1, 0, self.partitions, 0, 0, topic), infos)

    def _poll(self, request: PollMessages) -> Polled:
        index = request.partition or 0
        events, at = self._events_of(str(request.topic))[index], request.strategy.value
        if request.strategy.kind is PollingKind.LAST:
            at = max(0, len(events) - request.count)
        poll = encode_polled(
            self.revision,
            [StoredEvents(b"".join(events[at : at + request.count]), at, 1)]
            if at < len(events)
            else [],
            partition=index,
            id_seed=_SEED,
            most=request.count,
            limit=_POLL_BYTES,
            foreign=lambda _: None,
        )
        if request.topic == self.topic:
            self._polled[index] = max(self._polled[index], min(at + poll.count, len(events)))
        return Polled(index, max(0, len(events) - 1), poll.count, poll.batches)
