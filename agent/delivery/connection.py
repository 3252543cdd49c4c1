"""Connector: keeps one connection to one of its receivers. It chooses the host and the dialect
(rule D8); `ReconnectPolicy` says how long to wait after a failure.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from agent.config.output import OutputTable
from agent.delivery.connection_counts import ConnectionCounts
from agent.delivery.dialect import (
    GivenUpError,
    ReceiverRefusedError,
    RetiredError,
    SendingDialect,
    SessionServices,
)
from agent.delivery.dialect_choice import (
    NOT_LOGDRIVE,
    DialectChoice,
    choose_dialect,
    offered_protocols,
)
from agent.delivery.encoders import Encoders, EncodingForm, native_form
from agent.delivery.logdrive1 import Logdrive1Sender
from agent.delivery.lumberjack import LumberjackSender
from agent.delivery.recast import recast
from agent.delivery.reconnect import ReconnectPolicy, is_draining
from agent.delivery.session import SenderSession
from logdrive.address import host_port
from logdrive.errors import ConfigError, LogdriveError, ProtocolError, RejectedError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.host.transport import ByteStream, ClientTls, Peer, Transport
from logdrive.net.retry import retry_async
from logdrive.records.run_pack import PackOverflowError
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import VERSION_1, RefusalCode
from logdrive.wire.lumberjack.limits import NATIVE

_PLAIN_FORMS: Final[dict[str, EncodingForm]] = {"lumberjack/2": "beats", "lumberjack/1": "pairs"}
_WITHOUT_PACKS_SECONDS: Final = 600.0
"""A host that seems to refuse packs gets none for this time: perhaps it was only restarted."""
_YOUNGEST: Final = 0.8
"""A connection is closed at a random age from this part of the limit on: agents that came back at
once would all come again at once.
"""


class Connector:
    """Connects, serves the connection, and connects again, with *hosts* in turn.

    `run` ends when it is cancelled, or with `finish`. With *patient* false, it also ends with the
    first failure that only a change of settings can mend. With *reloaded*, certificates that can't
    be used do not end it. *counts* are counted in; *changed* is set where `is_settled` or `problem`
    may have changed.
    """

    def __init__(
        self,
        services: SessionServices,
        hosts: Sequence[str],
        transport: Transport,
        encoders: Encoders,
        *,
        counts: ConnectionCounts,
        changed: asyncio.Event,
        patient: bool = True,
        reloaded: bool = False,
    ) -> None:
        self._services = services
        self._transport = transport
        self._encoders = encoders
        self._patient = patient  # goes on after failures that only other settings can mend
        self._reloaded = reloaded  # goes on without certificates, too, until they are there

        self.hosts = hosts  # host:port of each receiver
        # The host that is next is number `_turn`, counted round.
        self._turn = services.random.randrange(len(hosts))
        self._policy = ReconnectPolicy(services.settings.backoff, len(hosts), services.random)
        # Set when no further connection is to be made.
        self._finished = asyncio.Event()
        # The dialect spoken last.
        self._choice: DialectChoice | None = None
        # Hosts that answered lumberjack/2 in version 1.
        self._answer_in_1: set[str] = set()
        # Hosts that refused packs, and when to send them again (monotonic seconds).
        self._without_packs: dict[str, float] = {}
        # Whether runs have to be made anew: a pack was too large.
        self._recasts = False

        self._changed = changed

        # The session on the connection there is.
        self.session: SenderSession | None = None
        # The host that we are connected to, "" for none.
        self.host = ""
        # The host of the last session, "" before the first.
        self._last_host = ""
        # Why the last connection failed, or was not made, for people; "" once one is made.
        self._failure = ""
        self._counts = counts
        # The receiver took its leave (E 0) of the last connection with nothing in flight.
        self._left_idle = False

    @property
    def is_settled(self) -> bool:
        """Whether no window is in flight and no answer awaited."""
        return self.session is None or self.session.is_settled

    @property
    def problem(self) -> str:
        """What went wrong last, for people; "" for nothing."""
        return self._failure or (self.session.problem if self.session is not None else "")

    def retire(self, reason: str) -> None:
        """Make the connection anew for *reason*, once nothing is in flight on the one there is."""
        if self.session is not None:
            self.session.retire(reason)

    def finish(self, reason: str) -> None:
        """Let `run` end for *reason*, once nothing is in flight."""
        self._finished.set()
        self._services.spread.on_closing(self._services.send_queue)
        self._services.send_queue.wake()
        self.retire(reason)

    async def run(self) -> None:
        """Keep a connection until cancelled, or until `finish`.

        Raises `ConfigError` for settings that can't be used, and `LogdriveError` if not *patient*.
        """
        while_patient = retry_async(
            (TransientError, ProtocolError),
            sleep=self._wait_to_reconnect,
            wait=self._policy.seconds_after,
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
        return self.hosts[self._turn % len(self.hosts)]

    async def _serve_next(self) -> None:
        """Serve one connection. Returns only after `finish`."""
        if self._finished.is_set():
            return
        try:
            await self._serve(self._next_host)
        except (TransientError, ProtocolError):
            raise_if_cancelled()
            if not self._finished.is_set():
                raise

    def _is_final(self, error: BaseException) -> bool:
        """Return whether to give up: only other settings help, and we are not *patient*."""
        permanent = isinstance(error, LogdriveError) and self._policy.is_permanent(error)
        return permanent and not self._patient

    async def _serve(self, host: str) -> None:
        """Connect to *host* and serve the connection; its end is always an exception."""
        self._left_idle = False
        stream = await self._connect(host)
        session: SenderSession | None = None
        try:
            if self._finished.is_set():
                raise RetiredError("other settings came while it was made")
            choice = self._choose(host, stream.peer)
            dialect = self._open_dialect(choice)
            session = self._open_session(host, choice, dialect, stream)
            self.session, self.host, self._failure = session, host, ""
            self._counts.made += 1
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

        except PackOverflowError:
            self._encoders.keep_packs_small()
            self._recasts = True
            raise

        except TransientError as error:
            self._left_idle = is_draining(error) and session is not None and session.ended_settled
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
            self._changed.set()
            # A receiver that accepts a connection and answers nothing, or takes nothing, is no
            # success.
            if session is not None and session.progress and not session.problem:
                self._policy.on_progress()
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
        except ConfigError as error:
            if not self._reloaded:
                raise
            raise TransientError(str(error)) from error

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
            raise RejectedError(NOT_LOGDRIVE)
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
        if self._encoders.set_form(form) or self._recasts:
            self._recasts = False
            for source in services.sources():
                recast(source, self._encoders.encoder_for(source))
        if choice.dialect == NATIVE:
            return Logdrive1Sender(services, _codec(settings))
        return LumberjackSender(services, "zlib" if _codec(settings) else None, choice)

    def _open_session(
        self, host: str, choice: DialectChoice, dialect: SendingDialect, stream: ByteStream
    ) -> SenderSession:
        """Return the session of a new connection to *host*, which gets its sources."""
        if host != self._last_host:
            self._services.send_queue.on_other_receiver()
            self._last_host = host
        services, oldest = self._services, self._services.settings.max_connection_seconds
        spread, queue = services.spread, services.send_queue
        spread.on_up(queue, failed_before=self._policy.has_failed)
        retire_at = None
        if oldest is not None:
            age = oldest * services.random.uniform(_YOUNGEST, 1.0)
            retire_at = services.clock.monotonic() + age
        return SenderSession(
            services,
            dialect,
            stream,
            on_idle=self._changed.set,
            on_lasting=self._announce(host, choice),
            on_proved=lambda: spread.on_proved(queue),
            retire_at=retire_at,
        )

    def _announce(self, host: str, choice: DialectChoice) -> Callable[[], None]:
        """Log the dialect and the reason, or return what does so once the connection lasts.

        After a failure it waits for that: a receiver that ends each connection at once, such as for
        want of a certificate under TLS 1.3, would be told of with each. The first time the agent
        falls back is a warning, and does not wait.
        """
        log, anew = self._services.log, choice.fell_back and choice != self._choice
        self._choice = choice
        tell = partial(
            log.warning if anew else log.info,
            "connected",
            host=host,
            dialect=choice.dialect,
            because=choice.reason,
        )
        if self._policy.has_failed and not anew:
            return tell
        tell()
        return lambda: None

    def _describe_culprit(self) -> str:
        """Return what a peer that breaks the protocol most likely is, for an error message."""
        if self._choice is None or self._choice.dialect == NATIVE:
            return "no logdrive receiver"
        return f"no reader of {self._choice.dialect}"

    def _on_failure(self, error: BaseException, seconds: float) -> None:
        """Log *error*; the next host's turn comes, unless this one closed an idle connection."""
        services, host = self._services, self._next_host
        log = services.log
        if isinstance(error, RetiredError):
            log.info("connection closed, to be made anew", host=host, reason=str(error))
            # others may be up that were not when this one was chosen
            self._turn = services.random.randrange(len(self.hosts))
            return
        self._failure = str(error)
        self._changed.set()
        if self._policy.closed_idle:
            log.info("connection closed by the receiver while idle", host=host)
            return

        self._turn += 1
        services.spread.on_down(services.send_queue)
        if self._left_idle:
            # it stops, or lets go of those who say nothing for long: every quiet host sees that
            log.info("connection ended by the receiver while idle", host=host, reason=str(error))
            return
        self._counts.failed += 1
        # An impatient caller reports the failure itself.
        tell = log.warning if self._patient else log.info
        tell("connection failed", host=host, reason=str(error), again_in=round(seconds, 2))

    async def _wait_to_reconnect(self, seconds: float) -> None:
        """Wait for *seconds*; after an idle connection only until there is work."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if self._policy.closed_idle:
                    await self._wait_for_work()
                else:
                    await self._finished.wait()

    async def _wait_for_work(self) -> None:
        """Wait until a source has something to send, or a refused one may be asked for again."""
        send_queue, clock = self._services.send_queue, self._services.clock
        while not self._finished.is_set():
            send_queue.clear_wake()
            retry_at = send_queue.retry_paused(clock.monotonic())
            if send_queue:
                return
            seconds = None if retry_at is None else retry_at - clock.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await send_queue.wait_for_wake()


def _codec(settings: OutputTable) -> Codec | None:
    return None if settings.compression == "none" else settings.compression
