"""Appends queued batches to one S2 stream, each exactly once. See docs/adr/0025.

Every append says which sequence number its first record must get (`match_seq_num`), the first one
the tail and each further one the end of the append before it. So an append is done at one place of
the stream or not at all, whatever else is appended and however often it is sent.

Two numbers are all that is kept between sessions:

- *known*: all that this sink has in the stream below it is resolved; the next append goes there,
  unless another writer was faster.
- *doubt*: up to where an append can still arrive that was in flight when its session was lost: the
  place of the last one. None if there is none.

| what ends a session              | known                 | doubt                                 |
|----------------------------------|-----------------------|---------------------------------------|
| 412, the tail is elsewhere       | the tail, if no doubt | as it was: this session's are not in  |
| 412, another's fencing token     | as it was             | as it was                             |
| lost, or any other error         | as it was             | the place of the last one in flight   |
| the service is about to stop     | all was acknowledged  | none                                  |

With a doubt, the stream is read from *known* to its tail before anything else is sent. Batches
found there are durable; the others are sent again, in their order. The appends of the lost session
can still arrive after that look, one behind the other, and the first of them only at the tail: in a
session none is done without those before it. So either that one or what is sent again at the tail
is refused. A refusal while there is a doubt leads to another look; an acknowledgement ends the
doubt, and so does a tail behind *doubt*.
"""

import asyncio
import contextlib
from random import Random
from typing import Final

import structlog

from logdrive.errors import LogdriveError, TransientError
from logdrive.host.clock import Clock
from logdrive.net.retry import Backoff, FullJitter
from logdrive.services.outage import Outage
from logdrive.services.s2.batches import BatchQueue, PendingBatch
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.errors import S2UnavailableError
from logdrive.services.s2.client.sessions import AppendSession
from logdrive.services.s2.pace import Pace
from logdrive.wire.s2.errors import (
    FencingTokenMismatchError,
    RangeNotSatisfiableError,
    SeqNumMismatchError,
)
from logdrive.wire.s2.limits import READ_RECORDS
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendAck

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0  # seconds, the ceilings of what is drawn
_ACK_SECONDS: Final = 15.0  # without an acknowledgement, then the session counts as lost


class ExactlyOnceAppender:
    """The appends of one sink; `run` it in a task.

    *tail* is the stream's when the sink was opened.
    """

    def __init__(
        self,
        client: S2Client,
        stream: str,
        tail: int,
        *,
        clock: Clock,
        random: Random,
        outage: Outage,
    ) -> None:
        self._client = client
        self._stream = stream
        self._known = tail
        self._doubt: int | None = None
        self._must_look = False
        self._clock = clock
        self._outage = outage
        self._backoff = Backoff(FullJitter(_FIRST_WAIT, _LONGEST_WAIT, random))
        self._pace = Pace(random)
        self._wake = asyncio.Event()  # of the task that sends
        self._log = structlog.get_logger("logdrive.sinks").bind(stream=stream)
        self.queue = BatchQueue()

    def submit(self, batch: PendingBatch) -> None:
        """Queue *batch*; its future is done once it is durable."""
        self.queue.add(batch)
        self._wake.set()

    async def run(self) -> None:
        """Append, session after session, until cancelled."""
        while True:
            try:
                if self._must_look:
                    await self._look()
                await self._run_session()
            except SeqNumMismatchError as error:
                await self._clock.sleep(self._on_overtaken(error.seq_num))
            except LogdriveError as error:
                await self._clock.sleep(self._on_failure(error))

    # After a session -----------------------------------------------------------------------------

    def _on_overtaken(self, tail: int) -> float:
        """Note that another writer's records are where an append was to go; return the seconds to
        wait. Nothing of the session behind the last acknowledgement was done.
        """
        self.queue.recall_flight()
        self._must_look = self._doubt is not None
        if not self._must_look:
            self._go_to(tail)
        return self._pace.on_conflict(self._clock.monotonic())

    def _on_failure(self, error: LogdriveError) -> float:
        """Note what a failure leaves in doubt, and return the seconds to wait."""
        if isinstance(error, FencingTokenMismatchError):
            reason = (
                f"another writer has fenced the stream with the token {error.token!r}: stop it and "
                "remove the fence, or let the sink's uri name another stream"
            )
        else:
            reason = str(error)
            if self.queue.in_flight:
                self._doubt = max(self._doubt or 0, self.queue.last_in_flight.start)
        self._must_look = True
        self.queue.recall_flight()
        self._pace.on_lost()
        self._outage.report_failure(reason)
        asked = error.retry_after if isinstance(error, S2UnavailableError) else 0.0
        return max(asked, self._backoff.next_wait())

    async def _look(self) -> None:
        """Resolve the batches that the stream has behind *known*, up to its tail."""
        tail = (await self._client.ensure_stream(self._stream)).seq_num
        found = 0
        while self._doubt is not None and self._known < tail:
            found += await self._look_at(self._known, tail)
        if found:
            self._log.info("batches of a lost session are in the stream", batches=found)
        self._go_to(tail)
        if self._doubt is not None and tail > self._doubt:
            self._doubt = None
        self._must_look = False

    def _go_to(self, tail: int) -> None:
        """Append from *tail* on: nothing of what waits is below it."""
        if tail < self._known:
            self._log.error(
                "the stream is shorter than it was: it was made anew, or the service lost data",
                known=self._known,
                tail=tail,
            )
        self._known = tail

    async def _look_at(self, start: int, tail: int) -> int:
        """Read once from *start*; move *known* behind what was read, and return how many batches
        were found.
        """
        try:
            count = min(tail - start, READ_RECORDS)
            read = await self._client.read(self._stream, ReadQuery(seq_num=start, count=count))
        except RangeNotSatisfiableError:
            read = None
        if read is None or not read.records or read.records[0].seq_num != start:
            self._log.error(
                "records were removed before this receiver could look for its batches among them: "
                "batches may be stored twice",
                start=start,
            )
        if read is None or not read.records:
            self._known = tail
            return 0
        self._known = read.records[-1].seq_num + 1
        return self.queue.resolve_found(read.records)

    # A session -----------------------------------------------------------------------------------

    async def _run_session(self) -> None:
        """Append over one session until the service wants to end it and all is acknowledged.

        Raises `TransientError` and `S2Error`; what is in flight then stays in the queue.
        """
        async with await self._client.open_append_session(self._stream) as session:
            try:
                async with asyncio.timeout(None) as deadline:
                    await self._use_session(session, deadline)
            except TimeoutError:
                session.retire_connection()
                raise TransientError(
                    f"{self._client.where}: no acknowledgement for {_ACK_SECONDS:g} s"
                ) from None

    async def _use_session(self, session: AppendSession, deadline: asyncio.Timeout) -> None:
        """Send and collect; *deadline* is armed while something is in flight."""
        sending = asyncio.create_task(self._send(session, deadline), name="s2-sink-send")
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

    async def _send(self, session: AppendSession, deadline: asyncio.Timeout) -> None:
        """Send what waits, as the pace allows, until the service asks to move."""
        start = self._known
        loop = asyncio.get_running_loop()
        while not session.advised:
            queue, pace = self.queue, self._pace
            if pace.train_ended(self._clock.monotonic()):
                while queue.in_flight:
                    await self._woken()
                await self._clock.sleep(pace.rest_seconds(self._clock.monotonic()))
            elif not queue.waits or not pace.may_fly(queue.in_flight, queue.flight_bytes):
                await self._woken()
            else:
                if not queue.in_flight:
                    deadline.reschedule(loop.time() + _ACK_SECONDS)
                sent = queue.send_next(start)
                start = sent.end
                pace.on_sent(self._clock.monotonic())
                try:
                    await session.send(sent.append())
                except TransientError:  # the other task gets the reason
                    return
        with contextlib.suppress(TransientError):
            await session.end_sending()

    async def _woken(self) -> None:
        self._wake.clear()
        await self._wake.wait()

    async def _collect(self, session: AppendSession, deadline: asyncio.Timeout) -> None:
        """Take acknowledgements until the session ends."""
        loop = asyncio.get_running_loop()
        while (ack := await session.next_ack()) is not None:
            self._on_acknowledged(ack)
            deadline.reschedule(loop.time() + _ACK_SECONDS if self.queue.in_flight else None)
            self._wake.set()
        if self.queue.in_flight or not session.advised:
            raise TransientError(f"{self._client.where}: the service ended the session")

    def _on_acknowledged(self, ack: AppendAck) -> None:
        if not self.queue.in_flight:
            raise TransientError("an acknowledgement of an append that was not sent")
        sent = self.queue.first_in_flight
        if (ack.start.seq_num, ack.end.seq_num) != (sent.start, sent.end):
            raise TransientError(
                f"the append of [{sent.start}, {sent.end}) was acknowledged as "
                f"[{ack.start.seq_num}, {ack.end.seq_num})"
            )
        self.queue.acknowledge_first()
        self._known, self._doubt = sent.end, None
        self._backoff.reset()
        self._outage.report_success()
        self._pace.on_acknowledged(self.queue.in_flight)
