"""Opens a session with a service of any revision, which is recognized by its answers.

Iggy's protocol has no version in it, and its revisions are not compatible. So the client probes:

| what is sent                        | answered as            | the service speaks             |
|-------------------------------------|------------------------|--------------------------------|
| ping with R3's head                 | R3's head              | R3                             |
| login with a version                | closed, or status 3    | R0, which knows no logins      |
| get offset, in the form of R1       | status 3               | R2B or R2C                     |
|                                     | anything else          | R1 or R2A                      |

Between the two, the version in the service's statistics decides. Where these are not allowed, or
have no version of Iggy's, it is R2C, or R1.
"""

import asyncio
import re
from random import Random, SystemRandom
from typing import Final

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream, Transport
from logdrive.services.iggy.client.errors import IggySilentError, IggyUnavailableError
from logdrive.services.iggy.client.framing import CLIENT_VERSION, ClassicFraming, VsrFraming
from logdrive.services.iggy.client.session import REQUEST_SECONDS, IggyClientSession
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import Consumer, ConsumerKind
from logdrive.wire.iggy.requests import (
    GetConsumerOffset,
    GetStats,
    GetStreams,
    IggyLogin,
    Ping,
)
from logdrive.wire.iggy.revision import Revision

PROBE_SECONDS: Final = 5.0  # for the answer to the first ping
_CLASSIC_ERROR: Final = (3).to_bytes(8, "little")
"""A classic service's answer to what it can't read; R3's answers begin with a checksum."""
_CONTEXT: Final = "logdrive"
_VERSION: Final = re.compile(r"0\.(\d{1,3})\.")
_SERVERS: Final = {
    4: Revision.R1,
    5: Revision.R2A,
    6: Revision.R2B,
    7: Revision.R2C,
    8: Revision.R2C,
}
_NOBODY: Final = Consumer(ConsumerKind.CONSUMER, 1)
_NO_NAME: Final = "logdrive-which-revision"


async def open_session(
    transport: Transport,
    target: IggyTarget,
    *,
    random: Random | None = None,
    request_seconds: float = REQUEST_SECONDS,
    known: Revision | None = None,
) -> IggyClientSession:
    """Return a new session of *target*'s user; *random* draws R3's client id.

    *known* is the revision of an earlier session: a classic service is then not asked for R3.

    Raises `TransientError`, `IggyError` for a refusal (a wrong password), and `ConfigError` for
    certificates that can't be used.
    """
    probe = _RevisionProbe(transport, target, random or SystemRandom(), request_seconds)
    session = await probe.try_r3() if known in (None, Revision.R3) else None
    if session is None:
        session = await probe.try_login()
    if session is None:
        session = await probe.try_r0()
    return session


class _RevisionProbe:
    """Tries the ways to open a session; each uses a connection of its own."""

    def __init__(
        self, transport: Transport, target: IggyTarget, random: Random, request_seconds: float
    ) -> None:
        self._transport = transport
        self._target = target
        self._random = random
        self._seconds = request_seconds
        self._login = IggyLogin(target.user, target.password, CLIENT_VERSION, _CONTEXT)

    async def _connect(self) -> ByteStream:
        target = self._target
        return await self._transport.connect(target.host, target.port, target.tls)

    # R3 ------------------------------------------------------------------------------------------

    async def try_r3(self) -> IggyClientSession | None:
        """Return a session of R3; None if the service speaks another revision."""
        framing = VsrFraming(self._random)
        stream = await self._connect()
        session = IggyClientSession(
            stream, framing, self._target.where, request_seconds=self._seconds
        )
        try:
            await stream.write(framing.encode(Ping()))
            if not await self._answers_as_r3(stream, framing):
                session.abort()
                return None
            async with session.deadline():
                await session.receive_payload()  # of the ping
                await session.write(framing.encode_login(self._login))
                payload = await session.receive_payload()
            if isinstance(payload, IggyError):
                raise payload
            framing.log_in(payload)
        except BaseException:
            session.abort()
            raise
        return session

    async def _answers_as_r3(self, stream: ByteStream, framing: VsrFraming) -> bool:
        """Read the beginning of the answer to a ping; return whether it is R3's."""
        first = b""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                while len(first) < len(_CLASSIC_ERROR) and (data := await stream.read()):
                    first += data
        except (TimeoutError, TransientError):
            return False  # a classic service closes the connection, or waits for more
        framing.receive_data(first)
        return len(first) >= len(_CLASSIC_ERROR) and not first.startswith(_CLASSIC_ERROR)

    # R1 to R2C -----------------------------------------------------------------------------------

    async def try_login(self) -> IggyClientSession | None:
        """Return a session of R1 to R2C; None if the service knows no such login."""
        framing = ClassicFraming(Revision.R1)
        session = IggyClientSession(
            await self._connect(), framing, self._target.where, request_seconds=self._seconds
        )
        try:
            try:
                async with session.deadline():
                    await session.send(self._login)
                    outcome = await session.receive()
            except IggySilentError:  # which is not R0's answer, as one that was stopped gives none
                raise
            except TransientError:  # as R0 closes the connection
                session.abort()
                return None
            if outcome.error is not None:
                if outcome.error.reason is Reason.INVALID_COMMAND:
                    session.abort()
                    return None
                raise outcome.error
            framing.revision = await self._classic_revision(session, framing)
        except BaseException:
            session.abort()
            raise
        return session

    async def _classic_revision(
        self, session: IggyClientSession, framing: ClassicFraming
    ) -> Revision:
        """Return the revision of a service at which the session has logged in."""
        asked = GetConsumerOffset(_NOBODY, _NO_NAME, _NO_NAME, 0)
        newer = False
        try:
            await session.request(asked)
        except IggyError as error:
            newer = error.reason is Reason.INVALID_COMMAND
        found = await self._version_in_stats(session)
        if newer:
            return found if found in (Revision.R2B, Revision.R2C) else Revision.R2C
        return found if found in (Revision.R1, Revision.R2A) else Revision.R1

    async def _version_in_stats(self, session: IggyClientSession) -> Revision | None:
        """Return the revision of the version in the service's statistics; None if unknown."""
        try:
            stats = await session.request(GetStats())
        except (IggyError, IggyUnavailableError):
            return None
        version = _VERSION.match(stats.version)
        return _SERVERS.get(int(version[1])) if version else None

    # R0 ------------------------------------------------------------------------------------------

    async def try_r0(self) -> IggyClientSession:
        """Return a session of R0. Raises `TransientError` if the service does not speak it."""
        session = IggyClientSession(
            await self._connect(),
            ClassicFraming(Revision.R0),
            self._target.where,
            request_seconds=self._seconds,
        )
        try:
            await session.request(GetStreams())
        except IggyError as error:
            session.abort()
            raise TransientError(
                f"{self._target.where} refused the login, and does not speak a revision without "
                f"one: {error}"
            ) from error
        except IggyUnavailableError:
            session.abort()
            raise
        except TransientError as error:
            session.abort()
            if self._target.tls is not None:
                raise
            raise TransientError(f"{error}; does it speak TLS?") from error
        except BaseException:
            session.abort()
            raise
        return session
