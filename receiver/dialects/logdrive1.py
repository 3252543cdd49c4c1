"""The dialect `logdrive/1`, receiving: sources in, P frames out; runs in, acknowledgements out."""

import asyncio
from collections.abc import Iterator, Sequence

from logdrive.errors import ProtocolError
from logdrive.packs.contents import opened_size
from logdrive.packs.pack import PackHead
from logdrive.wire.lumberjack.frames import CONNECTION, Frame, RefusalCode, SourceFrame
from logdrive.wire.lumberjack.limits import (
    LIVE_ATTRIBUTES_BYTES,
    REFUSED_SOURCES,
    SOURCE_BYTES,
    UNANSWERED_SOURCES,
    WINDOWS_IN_FLIGHT,
)
from logdrive.wire.lumberjack.run_reader import RunReader, RunReceived
from receiver.connection import ConnectionContext, Disconnect
from receiver.dialects import attributes
from receiver.dialects.registration import Registration


class Logdrive1Receiver:
    """Handles the frames of one `logdrive/1` connection. Costs work per run, never per event, but
    where packs are unpacked.
    """

    __slots__ = (
        "_attributes",
        "_link",
        "_opened_bytes",
        "_opening",
        "_peer",
        "_quota_logged",
        "_refused",
        "_runs",
        "_share",
        "_sources",
    )

    dialect = "logdrive/1"
    idle_after_seconds: float | None = None
    takes_keepalives = True

    def __init__(self, link: ConnectionContext) -> None:
        self._link = link
        self._runs = RunReader()
        self._peer = link.peer_header(self.dialect)
        self._sources: dict[int, Registration | None] = {}  # by index; None: refused at its S
        self._refused = 0  # how many of them are None
        self._opening: dict[int, asyncio.Task[None]] = {}  # by index: until their P is sent
        self._opened_bytes = 0  # of the pack that is being unpacked, and of its content
        self._attributes = 0  # bytes of the attributes of all sources
        self._share = link.services.source_quota.open_share()
        self._quota_logged = False  # that the quota is used up was logged

    @property
    def peer_waits(self) -> bool:
        """Whether the peer waits for a P or an acknowledgement, or has begun a window: on a slow
        link that takes minutes.
        """
        return (
            self._link.acks.unacknowledged > 0
            or bool(self._opening)
            or self._runs.window_unfinished
        )

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the unfinished run, and of the pack that is being unpacked."""
        return self._runs.unfinished_bytes + self._opened_bytes

    @property
    def window_unfinished(self) -> bool:
        """Whether a window has begun and is not complete."""
        return self._runs.window_unfinished

    def on_frames(self, frames: Sequence[Frame]) -> Iterator[None]:
        """Register sources, append runs and end windows; a step comes before a pack is opened, and
        after each run that is made of it. Raises `ProtocolError`.
        """
        packs_stay = self._link.services.unpack == "no"
        for item in self._runs.check_frames(frames, offset=self._link.offset):
            if isinstance(item, RunReceived):
                registration = self._sources[item.run.index]
                if registration is None:  # refused at its S: the E was sent, drop the run
                    pass
                elif item.pack is None or packs_stay:
                    registration.on_run(item)
                else:
                    yield from self._unpack(registration, item, item.pack)
            elif isinstance(item, SourceFrame):
                self._on_source(item)
            else:
                self._link.acks.end_window(item.last)
            if self._link.acks.unacknowledged > WINDOWS_IN_FLIGHT:
                raise self._limit(f"more than {WINDOWS_IN_FLIGHT} windows unacknowledged")

    def on_idle(self) -> None:
        """Do nothing: a `logdrive/1` writer ends its windows itself."""

    def send_reason(self, reason: Disconnect) -> None:
        """Send an E frame for the connection."""
        self._link.send_refusal(CONNECTION, reason.code, reason.text)

    def on_closed(self) -> None:
        """Free all sources, and the unfinished run."""
        self._runs = RunReader()
        for registration in self._sources.values():
            if registration is not None:
                registration.free_index()
        self._share.release_all()

    def _unpack(
        self, registration: Registration, received: RunReceived, head: PackHead
    ) -> Iterator[None]:
        """Append what *received* packs, a run at a time."""
        allocation = self._link.allocation
        allocation.opening = size = received.size + opened_size(head, received.run.events)
        yield
        allocation.opening, self._opened_bytes = 0, size
        try:
            for run in registration.open_pack(received):
                registration.on_run(run)
                yield
        finally:
            self._opened_bytes = 0

    def _on_source(self, frame: SourceFrame) -> None:
        # an S frees what its index named before; without attributes it does only that
        if frame.index in self._sources:
            self._forget(frame.index)
        if not frame.attributes:
            return

        # a refusal answers this source alone; a limit ends the connection
        try:
            parsed = attributes.parse_attributes(frame.attributes)
        except ValueError as error:
            self._refuse(frame.index, RefusalCode.BAD_ATTRIBUTES, str(error))
            return
        if not self._share.reserve(SOURCE_BYTES + len(frame.attributes)):
            self._refuse(frame.index, RefusalCode.TRY_LATER, self._quota_exceeded())
            return

        registration = Registration(self._link, frame, parsed, self._peer)
        self._sources[frame.index] = registration
        self._attributes += registration.weight
        if self._attributes > LIVE_ATTRIBUTES_BYTES:
            raise self._limit(
                f"more than {LIVE_ATTRIBUTES_BYTES} bytes of attributes of live sources"
            )
        if len(self._opening) >= UNANSWERED_SOURCES:
            raise self._limit(f"more than {UNANSWERED_SOURCES} sources wait for their P")

        self._opening[frame.index] = self._link.start_task(self._open(registration))
        self._link.services.counters.sources_registered += 1

    def _forget(self, index: int) -> None:
        """Free *index*, and the source that it names."""
        registration = self._sources.pop(index)
        if registration is None:
            self._refused -= 1
            return

        registration.free_index()
        self._attributes -= registration.weight
        self._share.release_bytes(SOURCE_BYTES + registration.weight)
        if (task := self._opening.pop(index, None)) is not None:
            task.cancel()

    def _refuse(self, index: int, code: RefusalCode, text: str) -> None:
        """Refuse a source; the others of the connection go on."""
        self._sources[index] = None
        self._refused += 1
        self._link.send_refusal(index, code, text)
        if self._refused > REFUSED_SOURCES:
            raise self._limit(
                f"more than {REFUSED_SOURCES} indices of refused sources that were not freed"
            )

    def _quota_exceeded(self) -> str:
        """Return why there is no room for a source; it is logged once a connection."""
        quota = self._link.services.source_quota
        text = (
            f"the sources of all connections take {quota.used} bytes of {quota.total}, "
            f"those of this one {self._share.used}"
        )
        if not self._quota_logged:
            self._quota_logged = True
            self._link.log.warning(
                "sources refused",
                reason=text,
                remedy="raise sources_bytes in [limits], or add a receiver",
            )
        return text

    async def _open(self, registration: Registration) -> None:
        await registration.read_first_number()
        self._opening.pop(registration.index, None)

    def _limit(self, reason: str) -> ProtocolError:
        return ProtocolError(reason, offset=self._link.offset, code=RefusalCode.LIMIT)
