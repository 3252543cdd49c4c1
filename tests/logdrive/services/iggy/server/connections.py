"""Connections to an Iggy face whose requests a test answers itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

from logdrive.services.iggy.server.server import IggyServer
from logdrive.services.iggy.server.sessions import IggySession, IggySessions
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.frames import ReplyFrame, ReplyFrames, encode_request_frame
from logdrive.wire.iggy.identifiers import Balanced
from logdrive.wire.iggy.replies import IggyReply, IggyStreamInfo, LoggedIn, Polled
from logdrive.wire.iggy.requests import (
    GetClients,
    IggyCreateStream,
    IggyLogin,
    IggyRequest,
    LoginWithToken,
    Logout,
    Ping,
    PollMessages,
    SendMessages,
)
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision
from tests.support import virtual_time
from tests.support.memory.transport import MemoryNetwork, MemoryStream

PORT = 8090
USER = 7
LOGIN = IggyLogin("iggy", "iggy", "0.10.0", "")
SEND = SendMessages("s", "t", Balanced(), b"batch", 1)


class ScriptedAnswers:
    """`IggyAnswering`: knows a user, keeps what it is asked, and lets the test end each send."""

    def __init__(self, sessions: IggySessions) -> None:
        self.sessions = sessions
        self.asked: list[IggyRequest] = []
        self.revisions: list[Revision] = []
        self.sends: list[asyncio.Future[object]] = []
        self.refuse_send: IggyError | None = None
        self.failure: Exception | None = None
        self.nameless: list[IggySession] = []
        self.polled = Polled(0, 0, 0)

    async def handle(self, session: IggySession, request: IggyRequest) -> object:
        await asyncio.sleep(0)
        self.asked.append(request)
        self.revisions.append(session.revision)
        if self.failure is not None:
            raise self.failure
        if isinstance(request, PollMessages):
            await asyncio.sleep(0.01)  # as if others' messages were numbered first
            await session.wait_for_answer()
            return self.polled
        return self._reply(session, request)

    def _reply(self, session: IggySession, request: IggyRequest) -> IggyReply:
        match request:
            case IggyLogin(password="iggy"):
                session.log_in(USER)
                return LoggedIn(USER)
            case IggyLogin():
                raise IggyError(Reason.INVALID_CREDENTIALS)
            case LoginWithToken():
                raise IggyError(Reason.RESOURCE_NOT_FOUND)  # as tokens that are not known are told
            case Logout():
                session.log_out()
            case IggyCreateStream("taken"):
                raise IggyError(Reason.STREAM_NAME_EXISTS)
            case IggyCreateStream(name):
                return IggyStreamInfo(len(self.asked), 0, 0, 0, 0, name)
            case GetClients():
                return ()
        return None

    async def begin_send(
        self, session: IggySession, request: SendMessages
    ) -> "asyncio.Future[object]":
        self.asked.append(request)
        if self.refuse_send is not None:
            raise self.refuse_send
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.sends.append(answer)
        return answer

    def admit_nameless(self, session: IggySession) -> None:
        session.log_in(USER)
        self.nameless.append(session)


class Classic:
    """A classic client on *stream*, which speaks *revision*."""

    def __init__(self, stream: MemoryStream, revision: Revision = Revision.R2C) -> None:
        self.stream = stream
        self.revision = revision
        self._frames = ReplyFrames()

    async def ask(self, request: IggyRequest) -> ReplyFrame:
        await self.say(request)
        return await self.hear()

    async def say(self, *requests: IggyRequest) -> None:
        frames = [encode_request_frame(*encode_request(self.revision, each)) for each in requests]
        await self.stream.write([b"".join(frames)])

    async def hear(self) -> ReplyFrame:
        while (frame := self._frames.next_frame()) is None:
            data = await self.stream.read()
            assert data, "the server ended the connection"
            self._frames.receive(data)
        return frame


class ScriptedFace:
    """A face of scripted answers in a network in memory."""

    def __init__(
        self, fixed: Revision | None = None, nameless: bool = True, held_bytes: int = 2**28
    ) -> None:
        self.network = MemoryNetwork()
        self.sessions = IggySessions(Random(3))
        self.answers = ScriptedAnswers(self.sessions)
        self.server = IggyServer(
            self.answers, self.sessions, fixed=fixed, nameless=nameless, held_bytes=held_bytes
        )

    async def connect(self, host: str = "client") -> MemoryStream:
        return await self.network.host(host).connect("store", PORT, None)

    async def client(self, revision: Revision = Revision.R2C, login: bool = True) -> Classic:
        made = Classic(await self.connect(), revision)
        if login:
            assert (await made.ask(LOGIN)).status == 0
        return made

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        await asyncio.sleep(0.001)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["ScriptedFace"]:
        host = self.network.host("store")
        listener = await host.listen("store", PORT, None, self.server.serve_connection)
        try:
            yield self
        finally:
            await listener.close()
            for send in self.answers.sends:
                if not send.done():
                    send.cancel()
            await self.server.close()
            await self.network.close()
        assert not self.network.failures


def scripted(
    test: Callable[[ScriptedFace], Awaitable[None]],
    fixed: Revision | None = None,
    nameless: bool = True,
) -> None:
    """Run *test* with a face in virtual time."""

    async def main() -> None:
        async with ScriptedFace(fixed, nameless).listening() as face:
            await test(face)

    virtual_time.run(main())


async def ping(client: Classic) -> int:
    """Return the status of a ping."""
    return (await client.ask(Ping())).status
