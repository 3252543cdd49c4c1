"""One connection of an Iggy client: reads its requests and answers them, in their order.

Theory of operation:

- All requests but sends are carried out one after another, each when those before it are answered:
  a poll sees what was sent before it.
- Sends are pipelined. `begin_send` submits each to the store as it comes; the *writing* task
  answers them in their order as they become durable. It exists from the first send on, so an idle
  connection is one task that waits for its socket.
- No more is read while the answer to a request is not taken by the peer, or `PIPELINED_SENDS` are
  under way. What a connection holds in memory is counted in the face's budget.
- `stop` ends the reading. What was begun is answered, and then the connection ends.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import structlog

from logdrive.errors import LogdriveError
from logdrive.host.transport import ByteStream
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.net.turns import Portion, Turns
from logdrive.services.face_memory import FaceMemoryBudget
from logdrive.services.iggy.server.answering import IggyAnswering
from logdrive.services.iggy.server.dialog import IggyDialog, IggyExchange
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.requests import IggyRequest, PollMessages, SendMessages

PIPELINED_SENDS: Final = 256
"""Limit on the sends of one connection that are not answered."""
_PORTION_STEPS: Final = 256
"""Limit on the requests of one connection until others have their turn."""
_LARGE_BYTES: Final = 64 * KIB
"""Answers smaller than this are not counted as memory."""
_log = structlog.get_logger("logdrive.store.iggy")

_T = TypeVar("_T")
_Outcome = asyncio.Future[object] | IggyError
"""What a send ends with: its reply later, or why it was refused."""


class _EndedError(Exception):
    """`stop` or `abort` was called."""


class IggyConnection:
    """Serves one connection: `run` once; `stop`, `expire`, `abort` or `abandon` end it."""

    def __init__(
        self,
        stream: ByteStream,
        dialog: IggyDialog,
        answering: IggyAnswering,
        *,
        memory: FaceMemoryBudget,
        turns: Turns,
    ) -> None:
        self._stream = stream
        self._dialog = dialog
        self._answering = answering
        self._memory = memory.open_allocation(self._evict)
        self._turns = turns

        # sends under way, the oldest first, and their bytes
        self._sends: deque[tuple[IggyExchange, IggyRequest, _Outcome]] = deque()
        self._sending_bytes = 0
        # set when a send is begun; when some, and when all were answered
        self._begun, self._some, self._none = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._none.set()

        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._stopping = False
        # set once nothing that the store does is waited for
        self._abandoned = asyncio.Event()
        # whether the task waits for what `stop` need not wait for
        self._waiting = False
        # since when the client has sent nothing while it could (s on the loop's clock)
        self._silent_since: float | None = None

    # Ending --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Read no further: what was begun is answered, then the connection ends."""
        self._stopping = True
        if self._waiting and self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """End the connection at once, without answering what is under way."""
        self._stream.abort()
        self.stop()
        if self._writing is not None:
            self._writing.cancel()

    def abandon(self) -> None:
        """End the connection as `abort` does, and don't wait for the store: the face closes."""
        self._abandoned.set()
        self.abort()

    def is_stale(self, now: float) -> bool:
        """Return whether the client has sent nothing, though it could, for longer than it may."""
        limit, since = self._dialog.silence_seconds, self._silent_since
        return limit is not None and since is not None and now - since >= limit

    async def expire(self) -> None:
        """End the connection of a client that was silent for too long: it is told so."""
        if self._sends:  # it does not read our answers either
            self.abort()
            return
        with contextlib.suppress(LogdriveError):
            await self._stream.write(self._dialog.end_stale_session())
        self.stop()

    def _evict(self, reason: str) -> None:
        _log.info("connection closed", peer=self._stream.peer.address, reason=reason)
        self.abort()

    # Reading -------------------------------------------------------------------------------------

    async def run(self, first: bytes) -> None:
        """Serve until either side ends the connection; the client's errors are logged."""
        self._task = asyncio.current_task()
        try:
            with contextlib.suppress(_EndedError):
                await self._serve_all(first)
                while not self._dialog.over and (data := await self._read()):
                    await self._serve_all(data)
            with contextlib.suppress(_EndedError):
                await self._sends_answered()
        except LogdriveError as error:
            _log.info("connection ended", peer=self._stream.peer.address, reason=str(error))
        except Exception:
            _log.exception("a connection failed", peer=self._stream.peer.address)
        finally:
            await self._release()

    async def _read(self) -> bytes:
        """Return the next bytes; b"" at the stream's end. Raises `_EndedError`."""
        await self._unless_ended(self._memory.wait_until_admitted())
        self._memory.on_read_started()
        self._silent_since = asyncio.get_running_loop().time()
        try:
            return await self._unless_ended(self._stream.read())
        finally:
            self._silent_since = None
            self._memory.on_read_ended()

    async def _unless_ended(self, work: Coroutine[object, object, _T]) -> _T:
        """Return the result of *work*; raise `_EndedError` once `stop` is called."""
        self._waiting = True
        try:
            if self._stopping:
                work.close()
                raise _EndedError
            return await work
        except asyncio.CancelledError:
            if not self._stopping or self._task is None:
                raise
            self._task.uncancel()
            raise _EndedError from None
        finally:
            self._waiting = False

    async def _serve_all(self, data: bytes) -> None:
        """Serve the requests that *data* completes. Raises `_EndedError`."""
        self._dialog.receive_data(data)
        portion = Portion(self._turns, _PORTION_STEPS)
        while not self._dialog.over and (exchange := self._dialog.next_exchange()) is not None:
            if self._stopping:
                raise _EndedError
            if exchange.size >= _LARGE_BYTES:
                self._count_memory(exchange.size)
            await self._serve(exchange)
            await portion.end_step()
        self._count_memory(0)

    def _count_memory(self, serving: int) -> None:
        """Count what is held while a request of *serving* bytes is carried out."""
        self._memory.set_unfinished(self._dialog.buffered, busy=self._sending_bytes + serving)

    async def _serve(self, exchange: IggyExchange) -> None:
        """Carry out one request; return when it is answered, or a send is under way."""
        try:
            request = exchange.decode()
            if isinstance(request, SendMessages):
                await self._send(exchange, request)
                return
        except IggyError as error:
            await self._sends_answered()
            await self._write(exchange.refuse(error))
            return
        await self._sends_answered()
        if not isinstance(request, IggyRequest):
            await self._write(request)
            return
        await self._write(await self._answer(exchange, request))

    async def _answer(self, exchange: IggyExchange, request: IggyRequest) -> Sequence[Part]:
        """Return the answer to any request but a send."""
        if isinstance(request, PollMessages):
            # its answer may be megabytes
            await self._unless_ended(self._memory.wait_until_admitted())
        try:
            reply = await self._answering.handle(self._dialog.session, request)
        except IggyError as error:
            return exchange.refuse(error)
        except (LogdriveError, _EndedError):
            raise
        except Exception:
            return exchange.refuse(self._fault(request))
        return exchange.accept(request, reply)

    def _fault(self, request: IggyRequest) -> IggyError:
        """Log a bug that was met in *request*; return what its client is told."""
        peer, kind = self._stream.peer.address, type(request).__name__
        _log.exception("a request failed", peer=peer, request=kind)
        return IggyError(Reason.ERROR, "internal error")

    # Sends ---------------------------------------------------------------------------------------

    async def _send(self, exchange: IggyExchange, request: SendMessages) -> None:
        """Begin a send, once not too many are under way."""
        while len(self._sends) >= PIPELINED_SENDS:
            self._some.clear()
            await self._until(self._some)
        outcome: _Outcome
        try:
            outcome = await self._answering.begin_send(self._dialog.session, request)
        except IggyError as error:
            outcome = error
        # the bytes of the messages are the store's matter now
        self._sends.append((exchange, replace(request, batch=b""), outcome))
        self._sending_bytes += exchange.size
        self._none.clear()
        self._begun.set()
        if self._writing is None:
            self._writing = asyncio.create_task(self._answer_sends(), name="iggy-acknowledge")

    async def _sends_answered(self) -> None:
        """Return once all sends under way are answered."""
        if self._sends or not self._none.is_set():
            await self._until(self._none)

    async def _until(self, event: asyncio.Event) -> None:
        """Wait for *event*; raise what ended the writing task, `_EndedError` after `abort`."""
        assert self._writing is not None
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait((waiting, self._writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self._check_writing()

    def _check_writing(self) -> None:
        """Raise what ended the writing task, if it has ended."""
        if self._writing is not None and self._writing.done():
            if self._writing.cancelled():
                raise _EndedError
            self._writing.result()

    async def _answer_sends(self) -> None:
        """Answer sends in their order as they become durable, until cancelled."""
        try:
            while True:
                while self._sends:
                    await self._answer_oldest()
                self._none.set()
                self._begun.clear()
                await self._begun.wait()
        except Exception:
            self.stop()  # `run` then raises the error
            raise

    async def _answer_oldest(self) -> None:
        """Answer the oldest send when it is durable, and those behind it that are, too."""
        parts: list[Part] = []
        answered = size = 0
        for exchange, request, outcome in list(self._sends):
            if parts and isinstance(outcome, asyncio.Future) and not outcome.done():
                break
            parts += await self._outcome_of(exchange, request, outcome)
            answered += 1
            size += exchange.size
        await self._write(parts)
        for _ in range(answered):
            self._sends.popleft()
        self._sending_bytes -= size
        self._memory.set_unfinished(self._dialog.buffered, busy=self._sending_bytes)
        self._some.set()

    async def _outcome_of(
        self, exchange: IggyExchange, request: IggyRequest, outcome: _Outcome
    ) -> Sequence[Part]:
        if isinstance(outcome, IggyError):
            return exchange.refuse(outcome)
        try:
            # shielded: what ends this task does not end the send
            reply = await (outcome if outcome.done() else asyncio.shield(outcome))
        except IggyError as error:
            return exchange.refuse(error)
        return exchange.accept(request, reply)

    # Writing -------------------------------------------------------------------------------------

    async def _write(self, parts: Sequence[Part]) -> None:
        size = sum(map(len, parts))
        with self._memory.hold_answer(size if size >= _LARGE_BYTES else 0):
            await self._stream.write(parts)

    async def _release(self) -> None:
        """Free what the connection holds, for whatever reason it has ended.

        Waits for what the store still does for it: until then its client is listed, so that another
        client can tell when nothing of it can appear any more (docs/adr/0027).
        """
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        begun = [one for _, _, one in self._sends if isinstance(one, asyncio.Future)]
        for outcome in begun:
            outcome.add_done_callback(_forget)
        self._sends.clear()
        self._memory.release_all()
        self._task = self._writing = None
        await self._stream.close()
        if begun:
            abandoned = asyncio.ensure_future(self._abandoned.wait())
            settled = asyncio.gather(*begun, return_exceptions=True)
            await asyncio.wait((settled, abandoned), return_when=asyncio.FIRST_COMPLETED)
            abandoned.cancel()


def _forget(outcome: asyncio.Future[object]) -> None:
    """Take note of how a send ended whose client has left."""
    if not outcome.cancelled():
        outcome.exception()
