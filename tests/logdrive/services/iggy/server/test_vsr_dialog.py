"""`logdrive.services.iggy.server.vsr_dialog`: sessions, evictions, changes that are made once."""

import asyncio
from dataclasses import replace

import pytest

from logdrive.services.iggy.server.vsr_dialog import SILENCE_SECONDS
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.replies import IggyStreamInfo, SendConfirmation
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import (
    GetClients,
    IggyCreateStream,
    IggyLogin,
    IggyRequest,
    LoginWithToken,
    Logout,
    Ping,
    SendMessages,
)
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.iggy.vsr.frames import VsrReplies, VsrReply, encode_vsr_request
from logdrive.wire.iggy.vsr.headers import Eviction, EvictionReason, RequestHeader
from logdrive.wire.iggy.vsr.register import (
    CURRENT_PROTOCOL,
    IggyRegistration,
    decode_registered,
    encode_register,
)
from logdrive.wire.iggy.vsr.results import unframe_result
from tests.logdrive.services.iggy.server.connections import SEND, ScriptedFace, scripted
from tests.support.memory.transport import MemoryStream
from tests.support.virtual_time import VirtualClock

CLIENT = bytes(range(16))
REGISTRATION = IggyRegistration(CURRENT_PROTOCOL, "rust-sdk", "0.11.0", IggyLogin("iggy", "iggy"))


class Vsr:
    """A client of R3."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self.session = 0
        self.client = CLIENT
        self._replies = VsrReplies()

    async def register(self, registration: IggyRegistration = REGISTRATION) -> VsrReply | Eviction:
        body = encode_register(registration)
        await self.stream.write([RequestHeader(self.client, 1, len(body)).encode(), body])
        reply = await self.hear()
        if isinstance(reply, VsrReply) and not reply.header.status:
            self.session = decode_registered(unframe_result(1, reply.body)).session
        return reply

    async def say(self, request: IggyRequest, number: int = 1) -> None:
        code, payload = encode_request(Revision.R3, request)
        frame = encode_vsr_request(
            code, payload, client=self.client, number=number, session=self.session
        )
        await self.stream.write([frame])

    async def hear(self) -> VsrReply | Eviction:
        while (reply := self._replies.next_reply()) is None:
            data = await self.stream.read()
            assert data, "the server ended the connection"
            self._replies.receive(data)
        return reply

    async def ask(self, request: IggyRequest, number: int = 1) -> VsrReply:
        await self.say(request, number)
        reply = await self.hear()
        assert isinstance(reply, VsrReply), reply
        return reply

    async def evicted(self) -> EvictionReason:
        """Return why the session is ended; nothing comes behind the eviction."""
        reply = await self.hear()
        assert isinstance(reply, Eviction), reply
        assert await self.stream.read() == b""
        return EvictionReason(reply.reason)


async def connected(face: ScriptedFace, *, login: bool = True) -> Vsr:
    client = Vsr(await face.connect())
    if login:
        await client.register()
    return client


def test_a_ping_needs_no_login_and_everything_else_does() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face, login=False)
        assert (await client.ask(Ping())).header.status == 0
        for request in (GetClients(), IggyCreateStream("s"), SEND):
            reply = await client.ask(request)
            assert (reply.header.status, len(reply.body)) == (40, 0)
        assert not face.answers.sends

    scripted(main)


def test_a_login_begins_a_session_and_tells_the_servers_version() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face, login=False)
        reply = await client.register()
        assert isinstance(reply, VsrReply)
        told = decode_registered(unframe_result(1, reply.body))
        assert (told.user_id, told.protocol) == (7, CURRENT_PROTOCOL)
        assert told.session > 0
        assert (await client.ask(GetClients())).header.status == 0
        assert face.answers.revisions[-1] is Revision.R3

    scripted(main)


@pytest.mark.parametrize(
    ("registration", "reason"),
    [
        (
            replace(REGISTRATION, login=IggyLogin("iggy", "wrong")),
            EvictionReason.BAD_CREDENTIALS,
        ),
        (replace(REGISTRATION, login=LoginWithToken("unknown")), EvictionReason.BAD_TOKEN),
        (replace(REGISTRATION, protocol=12 << 10), EvictionReason.INCOMPATIBLE_PROTOCOL),
        (replace(REGISTRATION, protocol=10 << 10), EvictionReason.INCOMPATIBLE_PROTOCOL),
    ],
)
def test_a_login_that_is_refused_ends_with_an_eviction(
    registration: IggyRegistration, reason: EvictionReason
) -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face, login=False)
        reply = await client.register(registration)
        assert isinstance(reply, Eviction)
        assert (reply.reason, reply.client) == (reason, CLIENT)
        window = (CURRENT_PROTOCOL,) * 2
        told = reason is EvictionReason.INCOMPATIBLE_PROTOCOL
        assert (reply.newest, reply.oldest) == (window if told else (0, 0))
        assert await client.stream.read() == b""

    scripted(main)


def test_a_login_that_is_none_ends_with_an_eviction() -> None:
    async def main(face: ScriptedFace) -> None:
        for frame in (
            RequestHeader(CLIENT, 1, 3).encode() + b"abc",
            RequestHeader(CLIENT, 2, code=38).encode(),
        ):
            client = await connected(face, login=False)
            await client.stream.write([frame])
            assert await client.evicted() is EvictionReason.MALFORMED_LOGIN

    scripted(main)


def test_a_change_that_is_repeated_is_answered_again_and_made_once() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        made = IggyCreateStream("s")
        first = await client.ask(made, 5)
        again = await client.ask(made, 5)
        assert bytes(first.body) == bytes(again.body)
        assert face.answers.asked.count(made) == 1
        payload = unframe_result(128, first.body)
        found = decode_reply(Revision.R3, made, payload)
        assert isinstance(found, IggyStreamInfo)
        assert found.name == "s"

    scripted(main)


def test_a_number_that_was_used_for_another_change_is_refused() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        await client.ask(IggyCreateStream("s"), 5)
        assert (await client.ask(IggyCreateStream("other"), 5)).header.status == 59
        assert (await client.ask(IggyCreateStream("other"), 4)).header.status == 59
        assert (await client.ask(IggyCreateStream("other"), 0)).header.status == 3
        assert (await client.ask(IggyCreateStream("other"), 9)).header.status == 0

    scripted(main)


def test_a_change_that_fails_is_told_in_the_body_and_not_tried_again() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        for _ in range(2):
            reply = await client.ask(IggyCreateStream("taken"), 2)
            assert reply.header.status == 0
            with pytest.raises(IggyError) as told:
                unframe_result(128, reply.body)
            assert told.value.reason is Reason.STREAM_NAME_EXISTS
        assert face.answers.asked.count(IggyCreateStream("taken")) == 1

    scripted(main)


def test_a_change_that_is_not_begun_is_told_in_the_head_and_may_be_tried_again() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        face.answers.failure = IggyError(Reason.UNAUTHORIZED)
        assert (await client.ask(IggyCreateStream("s"), 2)).header.status == 41
        face.answers.failure = None
        assert unframe_result(128, (await client.ask(IggyCreateStream("s"), 2)).body)

    scripted(main)


def test_a_body_with_a_wrong_checksum_is_refused() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        _, body = encode_request(Revision.R3, IggyCreateStream("s"))
        wrong = RequestHeader(CLIENT, 128, len(body), 1, client.session, checksum=b"x" * 16)
        none = replace(wrong, checksum=bytes(16))
        await client.stream.write([wrong.encode(), body, none.encode(), body])
        told = [await client.hear() for _ in range(2)]
        assert [each.header.status for each in told if isinstance(each, VsrReply)] == [4027, 0]

    scripted(main)


def test_sends_are_pipelined_and_told_in_the_head() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        for number in range(1, 4):
            await client.say(SEND, number)
        await face.settle()
        assert len(face.answers.sends) == 3
        face.answers.sends[2].set_result((SendConfirmation(1, 2, 3, 4),))
        face.answers.sends[1].set_exception(IggyError(Reason.PARTITION_NOT_FOUND))
        face.answers.sends[0].set_result(())
        replies = [await client.hear() for _ in range(3)]
        found = [each for each in replies if isinstance(each, VsrReply)]
        assert [each.header.status for each in found] == [0, 20, 0]
        assert [each.header.number for each in found] == [1, 2, 3]
        confirmed = decode_reply(Revision.R3, SEND, found[2].body)
        assert confirmed == (SendConfirmation(1, 2, 3, 4),)

    scripted(main)


def test_another_clients_session_is_no_session() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        client.session += 1
        await client.say(GetClients())
        assert await client.evicted() is EvictionReason.NO_SESSION

    scripted(main)


def test_a_logout_ends_the_session_and_the_next_login_begins_another() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        before = client.session
        reply = await client.ask(Logout())
        assert (reply.header.status, len(reply.body)) == (0, 0)
        assert (await client.ask(GetClients())).header.status == 40
        client.client = bytes(range(1, 17))
        await client.register()
        assert client.session != before
        assert (await client.ask(IggyCreateStream("s"), 1)).header.status == 0
        assert len(face.sessions) == 1

    scripted(main)


@pytest.mark.parametrize(("operation", "code"), [(0, 0), (100, 0), (2, 999), (2, 202), (250, 0)])
def test_operations_that_are_none_of_a_client_are_refused(operation: int, code: int) -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        header = RequestHeader(CLIENT, operation, 0, 1, client.session, code)
        await client.stream.write([header.encode()])
        reply = await client.hear()
        assert isinstance(reply, VsrReply)
        assert reply.header.status == 3

    scripted(main)


def test_a_client_that_is_silent_for_too_long_is_evicted() -> None:
    async def main(face: ScriptedFace) -> None:
        silent, talking = await connected(face), await connected(face)
        looking = asyncio.create_task(face.server.evict_silent_clients(VirtualClock()))
        for _ in range(int(SILENCE_SECONDS / 5) + 5):
            await asyncio.sleep(5)
            assert (await talking.ask(Ping())).header.status == 0
        assert await silent.evicted() is EvictionReason.STALE_CLIENT
        assert len(face.sessions) == 1
        looking.cancel()

    scripted(main)


def test_a_classic_client_may_be_silent_for_ever() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        looking = asyncio.create_task(face.server.evict_silent_clients(VirtualClock()))
        await asyncio.sleep(100_000)
        assert (await client.ask(Ping())).status == 0
        looking.cancel()

    scripted(main)


def test_a_frame_that_is_no_request_ends_the_connection() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        await client.stream.write([bytes(256)])
        assert await client.stream.read() == b""

    scripted(main)


def test_where_a_classic_revision_is_fixed_R3_is_told_so() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face, login=False)
        await client.say(Ping())
        assert await client.stream.read() == bytes.fromhex("0300000000000000")
        assert await client.stream.read() == b""

    scripted(main, fixed=Revision.R1)


def test_the_same_send_may_come_twice_for_no_number_is_looked_at() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await connected(face)
        send = SendMessages("s", "t", SEND.partitioning, b"batch", 1)
        await client.say(send, 1)
        await client.say(send, 1)
        await face.settle()
        assert len(face.answers.sends) == 2

    scripted(main)
