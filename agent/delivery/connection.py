"""Connector: keeps one connection to one of the receivers. It chooses the host and the dialect, and
how long to wait after a failure (rule D8).
"""

import asyncio
import contextlib
from typing import Final

from agent.config.output import OutputTable
from agent.delivery.dialect import (
    EndedError,
    GivenUpError,
    ReceiverRefusedError,
    SendingDialect,
    SessionServices,
)
from agent.delivery.dialect_choice import DialectChoice, choose_dialect, offered_protocols
from agent.delivery.encoders import Encoders, EncodingForm, native_form
from agent.delivery.logdrive1 import Logdrive1Sender
from agent.delivery.lumberjack import LumberjackSender
from agent.delivery.session import SenderSession
from agent.sources.recast import recast
from logdrive.address import host_port
from logdrive.errors import LogdriveError, ProtocolError, RejectedError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.host.transport import ByteStream, ClientTls, Peer, Transport
from logdrive.net.retry import Backoff, FullJitter, retry_async
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import VERSION_1, RefusalCode
from logdrive.wire.lumberjack.limits import NATIVE

_PLAIN_FORMS: Final[dict[str, EncodingForm]] = {"lumberjack/2": "beats", "lumberjack/1": "pairs"}
_LONG_PAUSE_SECONDS: Final = 60.0
"""Added to the pause after an error that will not pass soon."""
_IDLE_SECONDS: Final = 60.0
"""A connection that the receiver closed while idle is made again after this time, or as soon as
there is something to send.
"""
_WITHOUT_PACKS_SECONDS: Final = 600.0
"""A host that seems to refuse packs gets none for this time: perhaps it was only restarted."""
_TOO_OFTEN: Final = 3
"""After this many connections in a row that ended before the first frame, it is no restart of the
receiver but a wrong setting.
"""
_NOT_SOON: Final = (
    RefusalCode.PROTOCOL,
    RefusalCode.LIMIT,
    RefusalCode.NOT_ALLOWED,
    RefusalCode.NO_ROUTE,
    RefusalCode.NO_PROGRESS,
    RefusalCode.BAD_ATTRIBUTES,
)
"""Reasons of refusals that will not pass soon."""


class Connector:
    """Connects, serves the connection, and connects again, with the hosts in turn.

    `run` ends when it is cancelled. With *patient* false, it also ends with the first failure that
    only a change of settings can mend.
    """

    def __init__(
        self,
        services: SessionServices,
        transport: Transport,
        encoders: Encoders,
        *,
        patient: bool = True,
    ) -> None:
        self._services = services
        self._transport = transport
        self._encoders = encoders
        self._patient = patient  # goes on after failures that only other settings can mend

        settings = services.settings
        self._hosts = settings.hosts  # host:port of each receiver
        # The host that is next is number `_turn`, counted round.
        self._turn = services.random.randrange(len(self._hosts))
        # Pauses between attempts; an acknowledgement makes them short again.
        self._backoff = Backoff(
            FullJitter(
                settings.backoff.initial_seconds, settings.backoff.max_seconds, services.random
            )
        )
        # The receiver closed the last connection while it was idle.
        self._closed_idle = False
        # Connections in a row that ended before the first frame.
        self._silent_ends = 0
        # The dialect spoken last.
        self._choice: DialectChoice | None = None
        # Hosts that answered lumberjack/2 in version 1.
        self._answer_in_1: set[str] = set()
        # Hosts that refused packs, and when to send them again (monotonic seconds).
        self._without_packs: dict[str, float] = {}

        # Set where `is_settled` or `problem` may have changed.
        self._changed = asyncio.Event()

        # The session on the connection there is.
        self.session: SenderSession | None = None
        # The host that we are connected to, "" for none.
        self.host = ""
        # What went wrong last, for people; "" for nothing.
        self.problem = ""

    @property
    def is_settled(self) -> bool:
        """Whether no window is in flight and no answer awaited."""
        return self.session is None or self.session.is_settled

    async def wait_for_change(self, seconds: float) -> None:
        """Wait, at most *seconds*, until the session has done all that it can do for now, or ends.

        Call it without awaiting anything between it and the look at what has to change.
        """
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def note_change(self) -> None:
        """End `wait_for_change`."""
        self._changed.set()

    async def run(self) -> None:
        """Keep a connection until cancelled.

        Raises `ConfigError` for settings that can't be used, and `LogdriveError` if not *patient*.
        """
        while_patient = retry_async(
            (TransientError, ProtocolError),
            sleep=self._wait_to_reconnect,
            wait=self._seconds_after,
            unless=self._is_final,
            on_failure=self._on_failure,
        )
        try:
            await while_patient(self._serve_next)
        except ProtocolError as error:
            reason = f"{error}: {self._describe_culprit()}, or a broken one"
            raise RejectedError(f"{self._next_host}: {reason}") from error

    @property
    def _next_host(self) -> str:
        return self._hosts[self._turn % len(self._hosts)]

    async def _serve_next(self) -> None:
        try:
            await self._serve(self._next_host)
        except (TransientError, ProtocolError):
            raise_if_cancelled()
            raise

    def _is_final(self, error: BaseException) -> bool:
        """Return whether to give up: only other settings help, and we are not *patient*."""
        return isinstance(error, LogdriveError) and self._is_permanent(error) and not self._patient

    async def _serve(self, host: str) -> None:
        """Connect to *host* and serve the connection; its end is always an exception."""
        stream = await self._connect(host)
        session: SenderSession | None = None
        try:
            choice = self._choose(host, stream.peer)
            dialect = self._open_dialect(choice)
            session = SenderSession(self._services, dialect, stream, on_idle=self.note_change)
            self.session, self.host, self.problem = session, host, ""
            self._log_connected(host, choice)
            await session.run()

        except ProtocolError as error:
            # A reader of version 1 answers version 2 in its own version: speak that next time.
            if (
                not choice.fell_back
                or choice.version == VERSION_1
                or dialect.frame_reader.version != VERSION_1
            ):
                raise
            self._answer_in_1.add(host)
            raise TransientError(f"{error}; it is spoken to in version 1 from now on") from error

        except TransientError as error:
            if session is not None and self._refuses_packs(choice, dialect, session, error):
                now = self._services.clock.monotonic()
                self._without_packs[host] = now + _WITHOUT_PACKS_SECONDS
                raise TransientError(f"{error}; it gets no packs for now") from error

            # A connection that ended before the first frame of a peer that owed one: most often
            # the peer expects something else.
            if (
                session is None
                or session.frame_received
                or session.is_settled
                or isinstance(error, RejectedError)
            ):
                raise
            more = "" if choice.dialect == NATIVE else f", and does it speak {choice.dialect}"
            asked = f"is TLS on at both ends{more}? can it store anything now? its log says more"
            raise RejectedError(f"{error}; it said nothing at all: {asked}", sure=False) from error

        finally:
            self.session, self.host = None, ""
            self.note_change()
            # A receiver that accepts a connection and answers nothing is no success.
            if session is not None and session.progress:
                self._backoff.reset()
            await self._close(stream)

    async def _connect(self, host: str) -> ByteStream:
        name, port = host_port(host)
        try:
            async with asyncio.timeout(self._services.settings.connect_seconds):
                return await self._transport.connect(name, port, self._tls())
        except TimeoutError:
            raise TransientError(
                f"no connection within {self._services.settings.connect_seconds:g} s"
            ) from None

    async def _close(self, stream: ByteStream) -> None:
        with contextlib.suppress(LogdriveError):
            await stream.close()

    def _tls(self) -> ClientTls | None:
        settings = self._services.settings
        if settings.tls == "off":
            return None
        return settings.tls.settings(offered_protocols(settings.dialect))

    def _choose(self, host: str, peer: Peer) -> DialectChoice:
        """Return the dialect for *peer*. Raises `RejectedError` if it speaks none that may be."""
        choice = choose_dialect(
            self._services.settings.dialect,
            peer,
            answers_in_1=host in self._answer_in_1,
            refused_packs=self._services.clock.monotonic() < self._without_packs.get(host, 0.0),
        )
        if choice is None:
            raise RejectedError(
                "the other side does not speak logdrive/1: connect to a logdrive "
                'receiver, or set dialect = "auto"'
            )
        return choice

    def _refuses_packs(
        self,
        choice: DialectChoice,
        dialect: SendingDialect,
        session: SenderSession,
        error: TransientError,
    ) -> bool:
        """Return whether *error* is how a peer of an earlier version ends a connection with packs.

        It calls a Z frame a broken protocol, or just closes. One that agreed on them knows them.
        """
        if choice.agreed or session.acknowledged:
            return False
        if not isinstance(dialect, Logdrive1Sender) or not dialect.packs_sent:
            return False
        if isinstance(error, ReceiverRefusedError):
            return error.code == RefusalCode.PROTOCOL
        return not isinstance(error, GivenUpError)

    def _open_dialect(self, choice: DialectChoice) -> SendingDialect:
        """Return the dialect of *choice*, after re-encoding runs that it can't carry."""
        services, settings = self._services, self._services.settings
        form = (
            native_form(settings.records, packs=choice.packs)
            if choice.dialect == NATIVE
            else _PLAIN_FORMS[choice.dialect]
        )
        # Runs of the connection before may have a form that this dialect can't carry.
        if self._encoders.set_form(form):
            for source in services.registry.sources:
                recast(source, self._encoders.encoder_for(source))
        if choice.dialect == NATIVE:
            return Logdrive1Sender(services, _codec(settings))
        return LumberjackSender(services, "zlib" if _codec(settings) else None, choice)

    def _log_connected(self, host: str, choice: DialectChoice) -> None:
        """Log the dialect and the reason: as a warning the first time the agent fell back."""
        log = self._services.log
        tell = log.warning if choice.fell_back and choice != self._choice else log.info
        self._choice = choice
        tell("connected", host=host, dialect=choice.dialect, because=choice.reason)

    def _describe_culprit(self) -> str:
        """Return what a peer that breaks the protocol most likely is, for an error message."""
        if self._choice is None or self._choice.dialect == NATIVE:
            return "no logdrive receiver"
        return f"no reader of {self._choice.dialect}"

    def _is_permanent(self, error: LogdriveError) -> bool:
        """Return whether only a change of settings would mend *error*."""
        # A restart of the receiver looks the same: only several in a row count.
        if isinstance(error, RejectedError) and not error.sure:
            self._silent_ends += 1
            return self._silent_ends >= _TOO_OFTEN
        self._silent_ends = 0
        return isinstance(error, RejectedError | ProtocolError) or (
            isinstance(error, ReceiverRefusedError) and error.code in _NOT_SOON
        )

    def _seconds_after(self, error: BaseException) -> float:
        """Return the seconds to wait after *error*; closing an idle connection is no failure."""
        self._closed_idle = isinstance(error, EndedError) and error.idle
        if self._closed_idle:
            return _IDLE_SECONDS

        seconds = self._backoff.next_wait()
        drains = isinstance(error, ReceiverRefusedError) and error.code == RefusalCode.DRAINING
        # It is going away, and another host is there.
        if drains and len(self._hosts) > 1:
            return 0.0
        # Not all hosts were tried yet.
        if self._backoff.failures < len(self._hosts):
            return 0.0
        # Nothing changes before an operator acts.
        if isinstance(error, ProtocolError) or (
            isinstance(error, ReceiverRefusedError) and error.code in _NOT_SOON
        ):
            return seconds + _LONG_PAUSE_SECONDS
        return seconds

    def _on_failure(self, error: BaseException, seconds: float) -> None:
        """Log *error*; the next host's turn comes, unless this one closed an idle connection."""
        log, host = self._services.log, self._next_host
        self.problem = str(error)
        self.note_change()
        if self._closed_idle:
            log.info("connection closed by the receiver while idle", host=host)
            return

        self._turn += 1
        # An impatient caller reports the failure itself.
        tell = log.warning if self._patient else log.info
        tell("connection failed", host=host, reason=str(error), again_in=round(seconds, 2))

    async def _wait_to_reconnect(self, seconds: float) -> None:
        """Wait for *seconds*; after an idle connection only until there is something to send."""
        if not self._closed_idle:
            await self._services.clock.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        """Wait until a source has something to send."""
        send_queue = self._services.send_queue
        while not send_queue:
            send_queue.clear_wake()
            await send_queue.wait_for_wake()


def _codec(settings: OutputTable) -> Codec | None:
    return None if settings.compression == "none" else settings.compression
