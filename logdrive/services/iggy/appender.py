"""Sends queued batches to the partitions of one topic, each exactly once. See docs/adr/0027.

Iggy has no condition on a send, and keeps nothing by which a repeated one is told. What it has is
an order: a server carries out the requests of a connection one after the other, and shows a client
in its list until the last one is done. So after a lost session:

1. A new session is opened, which sends nothing yet.
2. It waits until the server's list has none of the clients whose sends were in flight (*ghosts*).
   From then on nothing of theirs can be stored any more.
3. It reads each partition from *known* to its end. Batches that are there whole are durable, the
   others are sent again, in their order.

*known* is, for each partition, an offset below which all that this sink has there is resolved:

| what happens                          | known                                        |
|---------------------------------------|----------------------------------------------|
| a session is opened, all is looked at | the end of the partition                     |
| a send of n messages is acknowledged  | n more; others' messages make it too low,    |
|                                       | which costs reading and nothing else         |
| R3 tells where the send was stored    | the end of the send                          |
| the topic is described, in its turn   | the end of the partition, also of one that   |
|                                       | is shorter: it was purged, or made anew      |

Requests and replies have one order: all that was sent before a description and is answered before
it lies below the ends that it tells, and what was sent behind it does not.
"""

import asyncio
from random import Random
from typing import Final

import structlog

from logdrive.address import IggyAddress
from logdrive.errors import LogdriveError, TransientError
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.model.units import MIB
from logdrive.net.retry import Backoff, FullJitter
from logdrive.services.iggy.batches import IggySend, IggySendQueue, PendingSend
from logdrive.services.iggy.client.errors import IggyUnavailableError, explain_refusal
from logdrive.services.iggy.client.session import IggyClientSession, IggyOutcome
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.tail import end_of, find_stored
from logdrive.services.iggy.topics import ensure_topic, kept_name
from logdrive.services.outage import Outage
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import ToPartition
from logdrive.wire.iggy.replies import ClientInfo, SendConfirmation, TopicDetails
from logdrive.wire.iggy.requests import GetClients, GetMe, GetTopic, IggyRequest, SendMessages
from logdrive.wire.iggy.revision import Revision

FLIGHT_SENDS: Final = 16  # in flight at most
FLIGHT_BYTES: Final = 8 * MIB  # in flight at most
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0  # seconds, the ceilings of what is drawn
_ANSWER_SECONDS: Final = 20.0  # without an answer that is due, then the session counts as lost
_DESCRIBE_SECONDS: Final = 10.0  # between two descriptions of the topic, also while nothing is sent
_GHOST_SECONDS: Final = 60.0  # the longest wait for a client that the server still lists
_BLIND_SECONDS: Final = 10.0  # the wait where the server does not show its list
_GHOST_WAITS = (0.02, 1.0)  # seconds between two looks at the list, the first and the longest


class IggyAppender:
    """The sends of one sink; `run` it in a task.

    *session* is open, and *details* describe the topic as it was when nothing was sent yet.
    """

    def __init__(
        self,
        transport: Transport,
        target: IggyTarget,
        address: IggyAddress,
        session: IggyClientSession,
        details: TopicDetails,
        *,
        clock: Clock,
        random: Random,
        outage: Outage,
    ) -> None:
        self._transport = transport
        self._target = target
        self._clock = clock
        self._random = random
        self._outage = outage
        self._scope, self._stream = address.scope, address.stream
        # open, and not used yet
        self._opened: IggyClientSession | None = session
        self._revision = session.revision
        self._me: ClientInfo | None = None  # of the session that is used
        self._ghosts: list[ClientInfo] = []
        self._blind = False  # True: a ghost's number is not known
        self._known = [end_of(one) for one in details.partitions]
        # partitions that take nothing any more, in the order in which that was noticed
        self.closed: dict[int, None] = {}
        self._backoff = Backoff(FullJitter(_FIRST_WAIT, _LONGEST_WAIT, random))
        self._wake = asyncio.Event()  # of the task that sends
        self._log = structlog.get_logger("logdrive.sinks").bind(stream=address.uri)
        self.queue = IggySendQueue()

    @property
    def partitions(self) -> list[int]:
        """The partitions that can be sent to; all of them if none can be."""
        known = range(len(self._known))
        return [index for index in known if index not in self.closed] or list(known)

    def submit(self, batch: PendingSend) -> None:
        """Queue *batch*; its future is done once it is durable."""
        self.queue.add(batch)
        self._wake.set()

    async def run(self) -> None:
        """Send, session after session, until cancelled."""
        try:
            while True:
                try:
                    session, self._opened = self._opened, None
                    if session is None:
                        session = await open_session(
                            self._transport,
                            self._target,
                            random=self._random,
                            known=self._revision,
                        )
                    await self._use(session)
                except LogdriveError as error:
                    await self._clock.sleep(self._on_failure(error))
        finally:
            if self._opened is not None:
                self._opened.abort()

    # A session's end -----------------------------------------------------------------------------

    def _on_failure(self, error: LogdriveError) -> float:
        """Note what a lost session leaves in doubt; return the seconds to wait."""
        if self.queue.in_flight:
            if self._me is not None:
                self._ghosts.append(self._me)
            else:
                self._blind = True
        self._me = None
        self.queue.recall_flight()
        self._outage.report_failure(self._reason(error))
        return self._backoff.next_wait()

    def _reason(self, error: LogdriveError) -> str:
        """Return *error*'s text, with what can be done about it where a service refuses."""
        if isinstance(error, IggyUnavailableError):
            error = error.error
        return (
            explain_refusal(self._target.where, error)
            if isinstance(error, IggyError)
            else str(error)
        )

    # A session's beginning -----------------------------------------------------------------------

    async def _begin(self, session: IggyClientSession) -> None:
        """Resolve what earlier sessions left in doubt."""
        self._revision = session.revision
        partitions = len(self._known)
        details = await ensure_topic(session, self._scope, self._stream, partitions)
        self._me = await _own_client(session)
        if self._ghosts or self._blind:
            await self._ghosts_gone(session)
            details = await ensure_topic(session, self._scope, self._stream, partitions)
        if len(details.partitions) < partitions:
            raise TransientError(
                f"{session.where}: the topic has {len(details.partitions)} partitions, and had "
                f"{partitions}: add the missing ones, or start the receiver again"
            )
        self._known += [end_of(one) for one in details.partitions[partitions:]]
        found = 0
        doubt = self.queue.in_doubt()
        for index in range(partitions):
            found += await self._look(session, details, index, doubt.get(index, []))
        for index in self.closed:
            self.queue.fail_waiting(index, closed_error(session.where, index))
        if found:
            self._log.info("batches of a lost session are in the partition", batches=found)

    async def _look(
        self,
        session: IggyClientSession,
        details: TopicDetails,
        index: int,
        doubt: list[PendingSend],
    ) -> int:
        """Resolve those of the batches in *doubt* that are stored; return how many."""
        start, end = self._known[index], end_of(details.partitions[index])
        if end < start:
            self._report_shorter(index, end)
            # stored since then, with as many messages of others between
            start = max(0, end - 2 * sum(batch.messages for batch in doubt))
        stored: list[PendingSend] = []
        if doubt and start < end:
            stored = await find_stored(
                session,
                *self._names(session.revision),
                index,
                doubt,
                start,
                end,
            )
            self.queue.resolve_found(stored)
        self._known[index] = end
        return len(stored)

    def _report_shorter(self, index: int, end: int) -> None:
        self._log.error(
            "the partition is shorter than it was: it was made anew, or the service lost what it "
            "had acknowledged",
            partition=index,
            known=self._known[index],
            end=end,
        )

    async def _ghosts_gone(self, session: IggyClientSession) -> None:
        """Wait until the server has let go all clients of lost sessions."""
        until = self._clock.monotonic() + _GHOST_SECONDS
        pause, longest = _GHOST_WAITS
        ghosts = {(one.id, one.address) for one in self._ghosts}
        blind = self._blind
        while ghosts and not blind:
            try:
                clients = await session.request(GetClients())
            except IggyError:  # the user may not see them
                blind = True
                break
            ghosts &= {(one.id, one.address) for one in clients}
            if ghosts and self._clock.monotonic() > until:
                self._log.warning(
                    "the service still lists a client whose connection was lost: what it sent may "
                    "be stored late, and then be there twice",
                    clients=sorted(address for _, address in ghosts),
                )
                break
            if ghosts:
                await self._clock.sleep(pause)
                pause = min(longest, 2 * pause)
        if blind:
            await self._clock.sleep(_BLIND_SECONDS)
        self._ghosts, self._blind = [], False

    # A session -----------------------------------------------------------------------------------

    async def _use(self, session: IggyClientSession) -> None:
        """Send over *session* until it is lost. Raises `TransientError` and `IggyError`."""
        try:
            await self._begin(session)
            if not self.queue.waits:  # else it is not known yet whether the service takes it
                self._outage.report_success()
            async with asyncio.timeout(None) as deadline:
                await self._send_and_collect(session, deadline)
        except TimeoutError:
            raise TransientError(f"{session.where}: no answer for {_ANSWER_SECONDS:g} s") from None
        finally:
            session.abort()  # so that nothing is carried to the server any more

    async def _send_and_collect(
        self, session: IggyClientSession, deadline: asyncio.Timeout
    ) -> None:
        """Send and collect; *deadline* is armed while an answer is due."""
        sending = asyncio.create_task(self._send(session, deadline), name="iggy-sink-send")
        sending.add_done_callback(
            lambda sent: None if sent.cancelled() or not sent.exception() else session.abort()
        )
        try:
            await self._collect(session, deadline)
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            if not sending.cancelled() and (bug := sending.exception()) is not None:
                raise bug

    async def _send(self, session: IggyClientSession, deadline: asyncio.Timeout) -> None:
        """Send what waits, and now and then ask for a description of the topic.

        No local variable keeps what was sent while nothing is to do.
        """
        loop = asyncio.get_running_loop()
        describe_at = loop.time() + _DESCRIBE_SECONDS
        try:
            while True:
                if loop.time() >= describe_at:
                    describe_at = loop.time() + _DESCRIBE_SECONDS
                    await self._send_one(session, deadline, self._description(session))
                elif self._may_send:
                    await self._send_one(session, deadline, self._next_send(session))
                else:
                    await self._woken(describe_at - loop.time())
        except TransientError:  # the other task gets the reason
            return

    @property
    def _may_send(self) -> bool:
        queue = self.queue
        return queue.waits and queue.in_flight < FLIGHT_SENDS and queue.flight_bytes < FLIGHT_BYTES

    async def _send_one(
        self, session: IggyClientSession, deadline: asyncio.Timeout, request: IggyRequest
    ) -> None:
        if not session.under_way:
            deadline.reschedule(asyncio.get_running_loop().time() + _ANSWER_SECONDS)
        await session.send(request)

    def _description(self, session: IggyClientSession) -> GetTopic:
        return GetTopic(*self._names(session.revision))

    def _next_send(self, session: IggyClientSession) -> SendMessages:
        now_us = self._clock.now_ms() * 1000
        sent = self.queue.send_next()
        return sent.request(session.revision, *self._names(session.revision), origin_us=now_us)

    def _names(self, revision: Revision) -> tuple[str, str]:
        return kept_name(revision, self._scope), kept_name(revision, self._stream)

    async def _woken(self, seconds: float) -> None:
        """Wait for something to do, at most so many seconds."""
        self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _collect(self, session: IggyClientSession, deadline: asyncio.Timeout) -> None:
        """Take the outcomes of what is sent, until the session ends with an error."""
        loop = asyncio.get_running_loop()
        while True:
            self._on_outcome(session, await session.receive())
            deadline.reschedule(loop.time() + _ANSWER_SECONDS if session.under_way else None)
            self._wake.set()

    def _on_outcome(self, session: IggyClientSession, outcome: IggyOutcome) -> None:
        if outcome.error is not None:
            self._note_closed(outcome.request, outcome.error)
            raise IggyUnavailableError(session.where, outcome.error)
        if isinstance(outcome.request, SendMessages):
            self._on_acknowledged(outcome)
        else:
            self._on_described(session, outcome.reply)

    def _note_closed(self, request: IggyRequest, error: IggyError) -> None:
        """Send no more to a partition of ours that was sealed, as when its stream is scaled."""
        if error.reason is Reason.SEGMENT_CLOSED and isinstance(request, SendMessages):
            assert isinstance(request.partitioning, ToPartition), "as all of our sends"
            self.closed[request.partitioning.index] = None

    def _on_acknowledged(self, outcome: IggyOutcome) -> None:
        sent = self.queue.acknowledge_first()
        self._known[sent.index] = self._end_of_send(sent, outcome.reply)
        self._backoff.reset()
        self._outage.report_success()

    def _end_of_send(self, sent: IggySend, reply: object) -> int:
        """Return the offset behind a send, the least that it can be if it is not told."""
        if isinstance(reply, tuple):
            for told in reply:
                if isinstance(told, SendConfirmation) and told.partition == sent.index:
                    return told.first_offset + sent.messages
        return self._known[sent.index] + sent.messages

    def _on_described(self, session: IggyClientSession, reply: object) -> None:
        if not isinstance(reply, TopicDetails):
            raise TransientError(f"{session.where}: the topic is not there any more")
        for one in reply.partitions:
            if one.index < len(self._known):
                end = end_of(one)
                if end < self._known[one.index]:
                    self._report_shorter(one.index, end)
                self._known[one.index] = end


def closed_error(where: str, index: int) -> TransientError:
    """Return the error of a batch for a partition that takes nothing any more."""
    return TransientError(f"{where}: the partition {index} is sealed: the stream was scaled")


async def _own_client(session: IggyClientSession) -> ClientInfo | None:
    """Return the session's client as the server lists it, None if the server does not tell."""
    try:
        return (await session.request(GetMe())).client
    except IggyError:
        return None
