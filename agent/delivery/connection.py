"""Keeps one connection to one of the receivers: which host, which dialect, and how long to wait
after a failure (rule D8).
"""

import asyncio
import contextlib
from typing import Final

from agent.config import OutputTable
from agent.delivery.dialect import EndedError, ReceiverRefusedError, SendingDialect, SessionServices
from agent.delivery.dialect_choice import NATIVE, Choice, choose, offered
from agent.delivery.encoders import Encoders, EncodingForm
from agent.delivery.logdrive1 import Logdrive1Sender
from agent.delivery.lumberjack import LumberjackSender
from agent.delivery.session import SenderSession
from agent.sources.recast import recast
from logdrive.address import host_port
from logdrive.errors import LogdriveError, ProtocolError, RejectedError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.net.retry import Backoff, FullJitter, retry_async
from logdrive.net.stream import ByteStream, ClientTls, Peer, Transport
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import VERSION_1, RefusalCode

_PLAIN_FORMS: Final[dict[str, EncodingForm]] = {"lumberjack/2": "beats", "lumberjack/1": "pairs"}
_LONG_PAUSE_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 60.0
"""A connection that ended while it rested is made again when there is something to send, or after
this.
"""
_TOO_OFTEN: Final = 3
"""So many connections in a row that end before the peer has said a word are no restart."""
_NOT_SOON: Final = (
    RefusalCode.PROTOCOL,
    RefusalCode.LIMIT,
    RefusalCode.NOT_ALLOWED,
    RefusalCode.NO_ROUTE,
    RefusalCode.NO_PROGRESS,
    RefusalCode.BAD_ATTRIBUTES,
)


class Connector:
    """One task: connect, serve, fail, wait, again, with the hosts in turn.

    Only being cancelled ends it; not *patient*, a failure does that will stay until somebody
    changes a setting.

    *host* and *problem* are for people: whom we are connected to, and what went wrong last.
    """

    def __init__(
        self,
        services: SessionServices,
        transport: Transport,
        encoders: Encoders,
        *,
        patient: bool = True,
    ) -> None:
        self._services, self._transport, self._encoders = services, transport, encoders
        settings = services.settings
        self._hosts = settings.hosts
        self._turn = services.random.randrange(len(self._hosts))
        self._backoff = Backoff(
            FullJitter(
                settings.backoff.initial_seconds, settings.backoff.max_seconds, services.random
            )
        )
        self._patient, self._doubtful = patient, 0
        self._idle = False  # whether the last connection ended while it rested
        self._choice: Choice | None = None
        self._answer_in_1: set[str] = set()
        self.session: SenderSession | None = None
        self.host = ""
        self.problem = ""

    @property
    def settled(self) -> bool:
        """Whether nothing is in flight or awaited."""
        return self.session is None or self.session.settled

    async def run(self) -> None:
        """Keep a connection for as long as the agent runs."""
        while_patient = retry_async(
            (TransientError, ProtocolError),
            sleep=self._sleep,
            wait=self._seconds_after,
            unless=self._is_final,
            on_failure=self._note,
        )
        try:
            await while_patient(self._serve_next)
        except ProtocolError as error:
            raise RejectedError(
                f"{self._next_host}: {error}: {self._whom()}, or a broken one"
            ) from error

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
        """Return whether to give up: we are not patient, and only other settings would help."""
        return isinstance(error, LogdriveError) and self._stays(error) and not self._patient

    async def _serve(self, host: str) -> None:
        """Serve one connection to its end, which is an exception."""
        stream = await self._connect(host)
        session: SenderSession | None = None
        try:
            choice = self._choose(host, stream.peer)
            talk = self._talk(choice)
            session = self.session = SenderSession(self._services, talk, stream)
            self.host, self.problem = host, ""
            self._tell(host, choice)
            await session.run()
        except ProtocolError as error:
            if (
                not choice.fell_back
                or choice.version == VERSION_1
                or talk.reader.version != VERSION_1
            ):
                raise
            self._answer_in_1.add(host)
            raise TransientError(f"{error}; it is spoken to in version 1 from now on") from error
        except TransientError as error:
            if (
                session is None
                or session.heard
                or session.settled
                or isinstance(error, RejectedError)
            ):
                raise
            more = "" if choice.dialect == NATIVE else f", and does it speak {choice.dialect}"
            asked = f"is TLS on at both ends{more}? can it store anything now? its log says more"
            raise RejectedError(f"{error}; it said nothing at all: {asked}", sure=False) from error
        finally:
            self.session, self.host = None, ""
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
        return settings.tls.settings(offered(settings.dialect))

    def _choose(self, host: str, peer: Peer) -> Choice:
        """Return the dialect for this peer.

        Raises `RejectedError` where there is none that may be spoken.
        """
        choice = choose(
            self._services.settings.dialect, peer, answers_in_1=host in self._answer_in_1
        )
        if choice is None:
            raise RejectedError(
                "the other side does not speak logdrive/1: connect to a logdrive "
                'receiver, or set dialect = "auto"'
            )
        return choice

    def _talk(self, choice: Choice) -> SendingDialect:
        """Begin to speak a dialect: what was read for another one is made anew where that has no
        place for it.
        """
        services, settings = self._services, self._services.settings
        form = settings.records if choice.dialect == NATIVE else _PLAIN_FORMS[choice.dialect]
        if self._encoders.change(form):
            for source in services.book.sources:
                recast(source, self._encoders.of(source))
        if choice.dialect == NATIVE:
            return Logdrive1Sender(services, _codec(settings))
        return LumberjackSender(services, "zlib" if _codec(settings) else None, choice)

    def _tell(self, host: str, choice: Choice) -> None:
        """Say what is spoken and why, as a warning where that is news, and less than was hoped
        for.
        """
        log = self._services.log
        tell = log.warning if choice.fell_back and choice != self._choice else log.info
        self._choice = choice
        tell("connected", host=host, dialect=choice.dialect, because=choice.reason)

    def _whom(self) -> str:
        """Return what a peer is not that breaks the protocol."""
        if self._choice is None or self._choice.dialect == NATIVE:
            return "no logdrive receiver"
        return f"no reader of {self._choice.dialect}"

    def _stays(self, error: LogdriveError) -> bool:
        """Tell whether only a change of settings would help."""
        if isinstance(error, RejectedError) and not error.sure:
            self._doubtful += 1
            return self._doubtful >= _TOO_OFTEN
        self._doubtful = 0
        return isinstance(error, RejectedError | ProtocolError) or (
            isinstance(error, ReceiverRefusedError) and error.code in _NOT_SOON
        )

    def _seconds_after(self, error: BaseException) -> float:
        """Return how long to wait after *error*. That an idle connection was closed is no
        failure.
        """
        self._idle = isinstance(error, EndedError) and error.idle
        if self._idle:
            return _IDLE_SECONDS
        seconds = self._backoff.next_wait()
        if (
            isinstance(error, ReceiverRefusedError)
            and error.code == RefusalCode.DRAINING
            and len(self._hosts) > 1
        ):
            return 0.0
        if self._backoff.failures < len(self._hosts):
            return 0.0  # the others were not tried yet
        if isinstance(error, ProtocolError) or (
            isinstance(error, ReceiverRefusedError) and error.code in _NOT_SOON
        ):
            return seconds + _LONG_PAUSE_SECONDS
        return seconds

    def _note(self, error: BaseException, seconds: float) -> None:
        """Log *error*, and turn to the next host, unless this one only closed an idle
        connection.
        """
        log, host = self._services.log, self._next_host
        self.problem = str(error)
        if self._idle:
            log.info("connection closed by the receiver while idle", host=host)
            return
        self._turn += 1
        tell = log.warning if self._patient else log.info
        tell("connection failed", host=host, reason=str(error), again_in=round(seconds, 2))

    async def _sleep(self, seconds: float) -> None:
        """Wait for *seconds*; after an idle connection only until there is something to send."""
        if not self._idle:
            await self._services.clock.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted()

    async def _wanted(self) -> None:
        demand = self._services.demand
        while not demand:
            demand.changed.clear()
            await demand.changed.wait()


def _codec(settings: OutputTable) -> Codec | None:
    return None if settings.compression == "none" else settings.compression
