"""`logdrive.services.iggy.server.classic_dialog`: how a classic client's revision is told."""

import pytest

from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.frames import encode_request_frame
from logdrive.wire.iggy.requests import (
    GetClients,
    GetStream,
    IggyCreateStream,
    IggyLogin,
    LoginWithToken,
)
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.connections import (
    LOGIN,
    USER,
    Classic,
    ScriptedFace,
    ping,
    scripted,
)


@pytest.mark.parametrize(
    ("version", "revision"),
    [
        (None, Revision.R0B),
        ("0.6.202", Revision.R1),
        ("0.7.0", Revision.R2A),
        ("0.8.0", Revision.R2B),
        ("0.9.0", Revision.R2C),
        ("0.10.0", Revision.R2C),
        ("1.2.3", Revision.R2C),  # a library in another language
        ("", Revision.R2C),
    ],
)
def test_a_login_tells_the_revision(version: str | None, revision: Revision) -> None:
    async def main(face: ScriptedFace) -> None:
        spoken = Revision.R0B if version is None else Revision.R1
        context = None if version is None else ""
        client = Classic(await face.connect(), spoken)
        assert await ping(client) == 0
        assert (await client.ask(IggyLogin("iggy", "iggy", version, context))).status == 0
        assert await ping(client) == 0
        assert face.answers.revisions[1:] == [revision, revision]

    scripted(main)


def test_a_first_request_of_any_other_kind_is_one_of_R0_which_has_no_login() -> None:
    async def main(face: ScriptedFace) -> None:
        client = Classic(await face.connect(), Revision.R0)
        assert (await client.ask(IggyCreateStream("s", 1))).status == 0
        assert (await client.ask(GetClients())).status == 0
        assert await ping(client) == 0
        assert face.answers.revisions == [Revision.R0] * 3
        assert [session.user_id for session in face.answers.nameless] == [USER]

    scripted(main)


def test_what_R0_does_not_find_is_an_error() -> None:
    async def main(face: ScriptedFace) -> None:
        client = Classic(await face.connect(), Revision.R0)
        assert (await client.ask(GetStream(3))).status == 1009

    scripted(main)


def test_where_logins_are_asked_for_nobody_is_let_in_without() -> None:
    async def main(face: ScriptedFace) -> None:
        client = Classic(await face.connect(), Revision.R0)
        assert (await client.ask(IggyCreateStream("s", 1))).status == 40
        assert not face.answers.asked

    scripted(main, nameless=False)


def test_who_pinged_first_has_to_log_in() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client(login=False)
        assert await ping(client) == 0
        assert (await client.ask(GetClients())).status == 40
        assert (await client.ask(LOGIN)).status == 0
        assert (await client.ask(GetClients())).status == 0

    scripted(main)


def test_a_failed_login_lets_nobody_in() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client(login=False)
        wrong = IggyLogin("iggy", "wrong", "0.10.0", "")
        assert (await client.ask(wrong)).status == 42
        assert (await client.ask(GetClients())).status == 40

    scripted(main)


def test_a_login_with_a_token_is_of_the_likeliest_revision() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client(login=False)
        await client.ask(LoginWithToken("token"))
        assert face.answers.revisions == [Revision.R2C]

    scripted(main)


def test_a_fixed_revision_holds_whatever_a_login_tells() -> None:
    async def main(face: ScriptedFace) -> None:
        client = Classic(await face.connect(), Revision.R1)
        assert (await client.ask(IggyLogin("iggy", "iggy", "0.10.0", ""))).status == 0
        assert face.answers.revisions == [Revision.R1]

    scripted(main, fixed=Revision.R1)


def test_a_fixed_R0_lets_clients_in_after_a_ping() -> None:
    async def main(face: ScriptedFace) -> None:
        client = Classic(await face.connect(), Revision.R0)
        assert await ping(client) == 0
        assert (await client.ask(IggyCreateStream("s", 1))).status == 0

    scripted(main, fixed=Revision.R0)


@pytest.mark.parametrize("frame", [(9999, b""), (202, b"\xff"), (38, b"\x04ig")])
def test_what_can_not_be_read_is_refused_and_the_connection_goes_on(
    frame: tuple[int, bytes],
) -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.stream.write([encode_request_frame(*frame)])
        assert (await client.hear()).status == IggyError(Reason.INVALID_COMMAND).code(Revision.R2C)
        assert await ping(client) == 0

    scripted(main)


def test_errors_have_the_codes_of_the_clients_revision() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        code, payload = encode_request(client.revision, IggyCreateStream("taken"))
        await client.stream.write([encode_request_frame(code, payload)])
        assert (await client.hear()).status == 1012

    scripted(main)


def test_a_fixed_R0_knows_no_login() -> None:
    async def main(face: ScriptedFace) -> None:
        client = Classic(await face.connect(), Revision.R0B)
        assert (await client.ask(IggyLogin("iggy", "iggy"))).status == 3
        client.revision = Revision.R0
        assert (await client.ask(IggyCreateStream("s", 1))).status == 0
        assert face.answers.revisions == [Revision.R0]

    scripted(main, fixed=Revision.R0)
