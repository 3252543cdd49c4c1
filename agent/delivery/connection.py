"""Keeps one connection to one of the receivers: which host, which dialect, and how long to wait
after a failure (rule D8).
"""

import asyncio
import contextlib
from typing import Final

from agent.config import OutputTable
from agent.delivery.dialect import EndedError, ReceiverRefusedError, SendingDialect, SessionServices
from agent.delivery.dialect_choice import NATIVE, DialectChoice, choose_dialect, offered_protocols
from agent.delivery.encoders import Encoders, EncodingForm
from agent.delivery.logdrive1 import Logdrive1Sender
from agent.delivery.lumberjack import LumberjackSender
from agent.delivery.session import SenderSession
from agent.sources.recast import recast
from logdrive.address import host_port
from logdrive.errors import ConfigError, LogdriveError, ProtocolError, RejectedError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.net.backoff import Backoff
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
            settings.backoff.initial_seconds, settings.backoff.max_seconds, services.random
        )
        self._patient, self._doubtful = patient, 0
        self._choice: DialectChoice | None = None
        self._answer_in_1: set[str] = set()
        self.session: SenderSession | None = None
        self.host = ""
        self.problem = ""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is in flight or awaited."""
        return self.session is None or self.session.is_settled

    async def run(self) -> None:
        """Keep a connection for as long as the agent runs."""
        while True:
            host = self._hosts[self._turn % len(self._hosts)]
            try:
                await self._serve(host)
            except ConfigError:
                raise
            except (TransientError, ProtocolError) as error:
                raise_if_cancelled()
                if self._stays(error) and not self._patient:
                    if isinstance(error, ProtocolError):
                        raise RejectedError(
                            f"{host}: {error}: {self._whom()}, or a broken one"
                        ) from error
                    raise
                await self._wait(host, error)

    async def _serve(self, host: str) -> None:
        """Serve one connection to its end, which is an exception."""
        stream = await self._connect(host)
        session: SenderSession | None = None
        try:
            choice = self._choose(host, stream.peer)
            talk = self._talk(choice)
            session = self.session = SenderSession(self._services, talk, stream)
            self.host, self.problem = host, ""
            self._tell(host, stream.peer, choice)
            await session.run()
        except ProtocolError as error:
            if (
                not choice.fell_back
                or choice.version == VERSION_1
                or talk.frame_reader.version != VERSION_1
            ):
                raise
            self._answer_in_1.add(host)
            raise TransientError(f"{error}; it is spoken to in version 1 from now on") from error
        except TransientError as error:
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
        """Return the dialect for this peer.

        Raises `RejectedError` where there is none that may be spoken.
        """
        choice = choose_dialect(
            self._services.settings.dialect, peer, answers_in_1=host in self._answer_in_1
        )
        if choice is None:
            raise RejectedError(
                "the other side does not speak logdrive/1: connect to a logdrive "
                'receiver, or set dialect = "auto"'
            )
        return choice

    def _talk(self, choice: DialectChoice) -> SendingDialect:
        """Begin to speak a dialect: what was read for another one is made anew where that has no
        place for it.
        """
        services, settings = self._services, self._services.settings
        form = settings.records if choice.dialect == NATIVE else _PLAIN_FORMS[choice.dialect]
        if self._encoders.set_form(form):
            for source in services.registry.sources:
                recast(source, self._encoders.encoder_for(source))
        if choice.dialect == NATIVE:
            return Logdrive1Sender(services, _codec(settings))
        return LumberjackSender(services, "zlib" if _codec(settings) else None, choice)

    def _tell(self, host: str, peer: Peer, choice: DialectChoice) -> None:
        """Say what is spoken and why, as a warning where that is news, and less than was hoped
        for.
        """
        log = self._services.log
        tell = log.warning if choice.fell_back and choice != self._choice else log.info
        self._choice = choice
        tell(
            "connected",
            host=host,
            peer=peer.identity,
            dialect=choice.dialect,
            because=choice.reason,
        )

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

    async def _wait(self, host: str, error: LogdriveError) -> None:
        """Wait as long as *error* asks for; the next host is tried first, unless this one only
        closed an idle connection.
        """
        services = self._services
        self.problem = str(error)
        if isinstance(error, EndedError) and error.idle:
            services.log.info("connection closed by the receiver while idle", host=host)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._wanted()
            return
        self._turn += 1
        seconds = self._backoff.next()
        if (
            isinstance(error, ReceiverRefusedError)
            and error.code == RefusalCode.DRAINING
            and len(self._hosts) > 1
        ):
            seconds = 0.0
        elif self._backoff.failures < len(self._hosts):
            seconds = 0.0  # the others were not tried yet
        elif isinstance(error, ProtocolError) or (
            isinstance(error, ReceiverRefusedError) and error.code in _NOT_SOON
        ):
            seconds += _LONG_PAUSE_SECONDS
        tell = services.log.warning if self._patient else services.log.info
        tell("connection failed", host=host, reason=str(error), again_in=round(seconds, 2))
        await services.clock.sleep(seconds)

    async def _wanted(self) -> None:
        demand = self._services.send_queue
        while not demand:
            demand.changed.clear()
            await demand.changed.wait()


def _codec(settings: OutputTable) -> Codec | None:
    return None if settings.compression == "none" else settings.compression
