"""One source on one connection, from its S frame until it is freed, refused for good, or the
connection ends (rules D2, D3, S2).

    OPENING ──number read: P──▶ LIVE ──a run does not follow, or fails──▶ ASKING
                                  ▲                                         │
                                  │                                  number read: P
                                  │                                         ▼
                                  └────────── a run that follows ──────  REFUSING
    any ──E, freed, taken over──▶ DEAD

What becomes of the source's next run:

| state    | the run follows | the run does not follow                                     |
|----------|-----------------|-------------------------------------------------------------|
| OPENING  | protocol error  | protocol error                                              |
| LIVE     | appended        | dropped, its window held: ASKING                            |
| ASKING   | dropped, its window held                                                      |
| REFUSING | appended: LIVE  | dropped; ASKING again if the peer must have got the last P  |
| DEAD     | dropped                                                                       |

A window with a dropped run is acknowledged only after the P, or E, that tells the peer so. While
REFUSING, runs that the peer sent before it got that P are dropped and nothing more.
"""

import asyncio
from collections.abc import Iterator
from enum import Enum, auto
from functools import partial
from uuid import UUID

import msgspec

from logdrive.errors import ProtocolError, StorageError, TransientError
from logdrive.host import faults
from logdrive.model.identity import source_id
from logdrive.model.numbers import position_of
from logdrive.packs.pack import PackError
from logdrive.services.sink import NotOpenError, NumberConflictError
from logdrive.wire.lumberjack.frames import (
    PositionFrame,
    RefusalCode,
    RunFrame,
    SourceFrame,
)
from logdrive.wire.lumberjack.limits import WINDOWS_IN_FLIGHT
from logdrive.wire.lumberjack.run_reader import RunReceived
from receiver.acks import OpenWindow
from receiver.batch import SourceBatches
from receiver.connection import ConnectionContext, Disconnect
from receiver.dialects.attributes import WriterAttributes
from receiver.dialects.unpacking.unpack import unpack_run
from receiver.router import RouteKey

_CORRECTIONS = 3
"""Limit on P frames in a row without an accepted run; after them the source is refused (E 6, or E 3
if the sink failed meanwhile).
"""


class RegistrationState(Enum):
    """State of a registration; the table is above."""

    OPENING = auto()  # the number is being read for the first P
    LIVE = auto()  # runs are appended
    ASKING = auto()  # a run was dropped, the number is being read for a P
    REFUSING = auto()  # that P was sent, no run that follows has come yet
    DEAD = auto()  # freed, or refused for good


class Registration:
    """Appends the runs of one source while each follows the one before."""

    def __init__(
        self,
        link: ConnectionContext,
        frame: SourceFrame,
        attributes: WriterAttributes,
        peer: msgspec.Raw,
    ) -> None:
        services = link.services
        self._link = link
        self.index = frame.index
        self.origin = frame.origin
        self._attributes = frame.attributes
        self.weight = len(frame.attributes)  # bytes that it takes beside `SOURCE_BYTES`
        self.source: UUID = source_id(frame.origin, link.identity)

        key = RouteKey(link.identity, services.listen.name, attributes.fields, attributes.tags)
        sink = services.router.sink_for(key)
        self._batches = SourceBatches(
            self.source, frame.origin, frame.attributes, peer, services.store
        )
        self._writer = services.writers.claim_writer(sink, self.source, self)

        self._corrections = 0  # P frames since the last run that became durable
        self._failure: str | None = None  # the sink's last one since then, None without any
        # grows with each dropped run: appends submitted before it tell nothing new by failing
        self._era = 0
        self._answered_in = 0  # the window in which the last P was sent
        self._unanswered: list[OpenWindow] = []  # windows held until the next P or E is sent
        self._freed = False
        self._damage_logged = False  # a pack that can't be unpacked was logged
        self.state = RegistrationState.OPENING

    async def read_first_number(self) -> None:
        """Read the durable number and answer with P (rules D2, S2)."""
        if (
            number := await self._read_number()
        ) is not None and self.state is RegistrationState.OPENING:
            self.state = RegistrationState.LIVE
            self._send_position(number)

    def on_run(self, received: RunReceived) -> None:
        """Append a run, or drop it; see the table above.

        Raises `ProtocolError` for a run before the P of its source, and for a gap or end without
        its record.
        """
        if self.state is RegistrationState.OPENING:
            raise ProtocolError(
                f"a run of the index {self.index} before its P", offset=self._link.offset
            )
        if self._would_append(received):
            self.state = RegistrationState.LIVE
            self._append(received)
            return

        # a run that does not follow; DEAD drops it and holds no window
        self._link.services.counters.runs_refused += 1
        if self.state is RegistrationState.LIVE or (
            self.state is RegistrationState.REFUSING and self._peer_must_have_position()
        ):
            self._refuse(self._link.acks.hold_window())
        elif self.state is RegistrationState.ASKING:
            self._unanswered.append(self._link.acks.hold_window())

    def open_pack(self, received: RunReceived) -> Iterator[RunReceived]:
        """Return runs with what *received* packs, for `on_run` one after the other; *received*
        itself if it is to be dropped, or can't be unpacked: who reads the pack finds out again.
        """
        if not self._would_append(received):
            return iter((received,))
        services = self._link.services
        try:
            runs = unpack_run(received, services.unpack, self._attributes, self.origin)
        except PackError as error:
            services.counters.packs_damaged += 1
            self._log_damaged(received.run, error)
            return iter((received,))
        services.counters.packs_unpacked += 1
        return runs

    def _would_append(self, received: RunReceived) -> bool:
        taking = self.state in (RegistrationState.LIVE, RegistrationState.REFUSING)
        return taking and self._writer.follows(received.run.previous)

    def _log_damaged(self, run: RunFrame, error: PackError) -> None:
        """Log the first pack of this registration that could not be unpacked."""
        if not self._damage_logged:
            self._damage_logged = True
            self._link.log.error(
                "a pack can't be unpacked, and is stored as it came",
                source=str(self.source),
                start=position_of(run.previous),
                end=position_of(run.number),
                reason=str(error),
                remedy="find out what its client sends: the audit lists all such intervals",
            )

    def free_index(self) -> None:
        """Free the index. Appends that were submitted go on."""
        if self.state is not RegistrationState.DEAD:
            self._freed = True
            self._end()

    def on_fenced(self) -> None:
        """Refuse the source, since another registration has taken it over (rule S2)."""
        if self.state is not RegistrationState.DEAD:  # it may have been refused for good before
            self._link.services.counters.sources_fenced += 1
        self._refuse_for_good(
            RefusalCode.REGISTERED_LATER,
            "the source was registered again, here or on another connection",
        )

    # Appending -----------------------------------------------------------------------------------

    def _append(self, received: RunReceived) -> None:
        link, run = self._link, received.run
        faults.reach("receiver.window.before_append")
        try:
            batch = self._batches.run_batch(
                run, received.parts, received.size, link.services.clock.now_ms(), received.pack
            )
        except ValueError as error:
            raise ProtocolError(str(error), offset=link.offset) from error
        window = link.acks.hold_window()
        try:
            future = self._writer.append_run(self, batch, run.records + 1, run.previous, run.number)
        except (NotOpenError, TransientError) as error:
            self._note_failure(error)
            self._refuse(window)
            return
        except NumberConflictError:
            self._refuse(window)
            return
        except StorageError as error:
            link.services.failure.set_error(error)
            return  # the receiver ends: the window stays held

        batch_bytes = len(batch[0]) + received.size
        link.allocation.add_submitted(batch_bytes)
        link.services.counters.count_batch(run.records, run.events, received.size)
        if received.pack is not None:
            link.services.counters.packs += 1
        future.add_done_callback(partial(self._on_settled, window, batch_bytes, self._era))

    def _on_settled(
        self, window: OpenWindow, batch_bytes: int, era: int, future: "asyncio.Future[None]"
    ) -> None:
        error = self._link.on_append_settled(batch_bytes, future)
        if error is None:
            self._corrections, self._failure = 0, None
            self._link.acks.release_window(window)
            return
        if isinstance(error, StorageError):
            return  # the receiver ends, and the window is never acknowledged
        # in any state: a run behind it may have been dropped before this call
        self._note_failure(error)
        # the first append of this era that fails; those behind it fail with it
        if self.state is RegistrationState.LIVE and era == self._era:
            self._refuse(window)
        elif self.state is RegistrationState.ASKING:
            self._unanswered.append(window)
        # no P or E can name a freed index: the peer learns it by losing the connection
        elif self._freed:
            text = f"a run of the freed index {self.index} failed in the sink"
            self._link.disconnect(Disconnect(RefusalCode.TRY_LATER, text, logged=True))
        else:
            self._link.acks.release_window(window)  # a P or E was sent for it

    # Refusing ------------------------------------------------------------------------------------

    def _note_failure(self, error: BaseException) -> None:
        # as text, since the error itself keeps the run that failed in memory
        self._failure = str(error)

    def _refuse(self, window: OpenWindow) -> None:
        """Hold *window*, which has a dropped run, until a P with the durable number is sent."""
        self.state = RegistrationState.ASKING
        self._era += 1
        self._unanswered.append(window)
        self._link.start_task(self._correct())

    async def _correct(self) -> None:
        if (
            number := await self._read_number()
        ) is None or self.state is not RegistrationState.ASKING:
            return
        self.state = RegistrationState.REFUSING
        self._corrections += 1
        self._answered_in = self._link.acks.windows_begun
        self._link.services.counters.positions_corrected += 1
        self._send_position(number)

        # P by P without progress: a sink that fails, or a peer that does not heed them
        if self._corrections >= _CORRECTIONS and self._failure is not None:
            self._refuse_for_good(RefusalCode.TRY_LATER, f"the sink fails: {self._failure}")
        elif self._corrections >= _CORRECTIONS:
            self._refuse_for_good(
                RefusalCode.NO_PROGRESS,
                f"no run was accepted after {_CORRECTIONS} positions were sent",
            )
        self._release_unanswered()

    def _peer_must_have_position(self) -> bool:
        """Return whether the peer must have got the last P before it sent the current window.

        P was sent before the acknowledgement of its window, and at most `WINDOWS_IN_FLIGHT` windows
        may be unacknowledged.
        """
        return self._link.acks.current_window.number >= self._answered_in + WINDOWS_IN_FLIGHT

    async def _read_number(self) -> int | None:
        """Return the durable number, None if the source, or the receiver, can't go on."""
        try:
            return await self._writer.read_durable_number(self)
        except TransientError as error:
            self._refuse_for_good(RefusalCode.TRY_LATER, f"the sink does not answer: {error}")
        except StorageError as error:
            self._link.services.failure.set_error(error)
        return None

    def _send_position(self, number: int) -> None:
        self._link.outbox.enqueue(
            PositionFrame(self.index, number, self._link.services.sink.store_id).encode()
        )

    # Ending --------------------------------------------------------------------------------------

    def _refuse_for_good(self, code: RefusalCode, text: str) -> None:
        if self.state is not RegistrationState.DEAD:
            self._link.send_refusal(self.index, code, text)
            self._end()

    def _end(self) -> None:
        self.state = RegistrationState.DEAD
        self._link.services.writers.release_writer(self._writer, self)
        self._release_unanswered()

    def _release_unanswered(self) -> None:
        unanswered, self._unanswered = self._unanswered, []
        for window in unanswered:
            self._link.acks.release_window(window)
