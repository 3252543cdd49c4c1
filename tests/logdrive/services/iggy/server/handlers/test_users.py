"""Logins, users, their permissions and tokens."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.permissions import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from logdrive.wire.iggy.replies import (
    LoggedIn,
    RawToken,
    StreamDetails,
    TokenInfo,
    UserDetails,
    UserInfo,
)
from logdrive.wire.iggy.requests import (
    ChangePassword,
    CreateToken,
    CreateTopic,
    CreateUser,
    DeleteToken,
    DeleteUser,
    GetClients,
    GetMe,
    GetStats,
    GetStream,
    GetStreams,
    GetTokens,
    GetTopic,
    GetUser,
    GetUsers,
    IggyCreateStream,
    IggyLogin,
    LoginWithToken,
    Logout,
    Ping,
    UpdatePermissions,
    UpdateUser,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.handlers.harness import (
    STREAM,
    TOPIC,
    Face,
    iggy_handlers,
    refused,
    users_file,
    with_iggy,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

EVE = CreateUser("eve", "secret")
WRITING = TopicPermissions(1, True, True, True, True)


@with_iggy
async def test_nothing_but_a_ping_without_a_login(face: Face) -> None:
    session = face.connect()
    await face.ask(session, Ping())
    for request in (GetMe(), GetStreams(), GetStats(), Logout()):
        with refused(Reason.UNAUTHENTICATED):
            await face.ask(session, request)
    for user, password in (("iggy", "wrong"), ("nobody", "iggy"), ("", "")):
        with refused(Reason.INVALID_CREDENTIALS):
            await face.ask(session, IggyLogin(user, password))
    assert await face.ask(session, IggyLogin("iggy", "iggy")) == LoggedIn(1)
    await face.ask(session, GetStreams(), Logout())
    with refused(Reason.UNAUTHENTICATED):
        await face.ask(session, GetStreams())


@with_iggy
async def test_users_are_created_changed_and_deleted(face: Face) -> None:
    root = await face.login()
    made = await face.ask(root, EVE)
    assert isinstance(made, UserDetails)
    assert (made.user.id, made.user.name, made.permissions) == (2, "eve", None)
    for request, reason in (
        (EVE, Reason.USER_EXISTS),
        (replace(EVE, name="ab"), Reason.INVALID_USER_NAME),
        (replace(EVE, name="other", password="12"), Reason.INVALID_PASSWORD),
        (DeleteUser("iggy"), Reason.CANNOT_DELETE_USER),
        (UpdatePermissions("iggy", None), Reason.CANNOT_CHANGE_PERMISSIONS),
        (DeleteUser(99), Reason.RESOURCE_NOT_FOUND),
    ):
        with refused(reason):
            await face.ask(root, request)
    eve = await face.login("eve", "secret")
    await face.ask(root, UpdateUser("eve", name="ada"))
    users = await face.ask(root, GetUsers())
    assert isinstance(users, tuple)
    assert [(user.id, user.name) for user in users if isinstance(user, UserInfo)] == [
        (1, "iggy"),
        (2, "ada"),
    ]
    # of herself she sees all, of others nothing
    assert isinstance(await face.ask(eve, GetUser("ada")), UserDetails)
    with refused(Reason.UNAUTHORIZED):
        await face.ask(eve, GetUser("iggy"))
    await face.ask(root, UpdateUser("ada", active=False))
    with refused(Reason.UNAUTHENTICATED):
        await face.ask(eve, GetMe())
    with refused(Reason.USER_INACTIVE):
        await face.login("ada", "secret")
    await face.ask(root, DeleteUser("ada"))
    assert await face.ask(root, GetUser("ada")) is None
    with refused(Reason.INVALID_CREDENTIALS):
        await face.login("ada", "secret")


@with_iggy
async def test_passwords_are_changed_by_who_knows_them(face: Face) -> None:
    root = await face.login()
    await face.ask(root, EVE)
    eve = await face.login("eve", "secret")
    with refused(Reason.INVALID_CREDENTIALS):
        await face.ask(eve, ChangePassword("eve", "wrong", "better"))
    with refused(Reason.UNAUTHORIZED):
        await face.ask(eve, ChangePassword("iggy", "iggy", "better"))
    await face.ask(eve, ChangePassword("eve", "secret", "better"))
    with refused(Reason.INVALID_CREDENTIALS):
        await face.login("eve", "secret")
    await face.login("eve", "better")
    await face.ask(root, ChangePassword("iggy", "iggy", "other"))
    with refused(Reason.INVALID_CREDENTIALS):
        await face.login()
    await face.login("iggy", "other")


async def allowed(face: Face, session: IggySession) -> set[str]:
    """Return which kinds of requests *session* may make on the topic."""
    found = set()
    requests = {
        "servers": GetClients(),
        "users": GetUsers(),
        "stream": GetStream(STREAM),
        "topic": GetTopic(STREAM, TOPIC),
        "create": IggyCreateStream("new"),
    }
    asked: dict[str, Awaitable[object]] = {
        name: face.ask(session, request) for name, request in requests.items()
    }
    asked |= {"send": face.send(session, "x", to=0), "poll": face.poll(session)}
    for name, answer in asked.items():
        if await reason_of(answer) is not Reason.UNAUTHORIZED:
            found.add(name)
    return found


async def reason_of(answer: Awaitable[object]) -> Reason | None:
    """Return why a request is refused; None if it is not."""
    try:
        await answer
    except IggyError as error:
        return error.reason
    return None


def everywhere(**given: bool) -> Permissions:
    return Permissions(GlobalPermissions(**given))


def in_stream(**given: Any) -> Permissions:
    return Permissions(streams=(replace(StreamPermissions(1), **given),))


def in_topic(topic: int = 1, **given: bool) -> Permissions:
    mine = replace(TopicPermissions(topic), **given)
    return Permissions(streams=(StreamPermissions(1, topics=(mine,)),))


PERMITTED = [
    (None, set()),
    (ALL_PERMISSIONS, {"servers", "users", "stream", "topic", "create", "send", "poll"}),
    (everywhere(read_servers=True), {"servers"}),
    (everywhere(manage_users=True), {"users"}),
    (everywhere(manage_streams=True), {"stream", "topic", "create", "send", "poll"}),
    (everywhere(read_streams=True), {"stream", "topic", "poll"}),
    (everywhere(manage_topics=True), {"topic", "send", "poll"}),
    (everywhere(read_topics=True), {"topic", "poll"}),
    (everywhere(poll_messages=True), {"poll"}),
    (everywhere(send_messages=True), {"send"}),
    (in_stream(manage_stream=True), {"stream", "topic", "send", "poll"}),
    (in_stream(read_stream=True), {"stream", "topic", "poll"}),
    (in_stream(send_messages=True), {"send"}),
    (in_topic(manage_topic=True), {"topic", "send", "poll"}),
    (in_topic(read_topic=True), {"topic", "poll"}),
    (in_topic(poll_messages=True), {"poll"}),
    (in_topic(2, manage_topic=True), set()),
]


@with_iggy
async def test_each_permission_allows_what_it_says_and_no_more(face: Face) -> None:
    root = await face.with_topic(1)
    await face.ask(root, EVE)
    eve = await face.login("eve", "secret")
    for permissions, expected in PERMITTED:
        await face.ask(root, UpdatePermissions("eve", permissions))
        assert await allowed(face, eve) == expected, permissions


@with_iggy
async def test_tokens_log_in_until_they_expire_or_are_deleted(face: Face) -> None:
    root = await face.login()
    made = await face.ask(root, CreateToken("tool", 60_000_000))
    assert isinstance(made, RawToken)
    assert len(made.token) == 67
    with refused(Reason.TOKEN_EXISTS):
        await face.ask(root, CreateToken("tool"))
    with refused(Reason.INVALID_TOKEN_NAME):
        await face.ask(root, CreateToken("ab"))
    session = face.connect()
    assert await face.ask(session, LoginWithToken(made.token)) == LoggedIn(1)
    tokens = await face.ask(session, GetTokens())
    assert isinstance(tokens, tuple)
    assert [token.name for token in tokens if isinstance(token, TokenInfo)] == ["tool"]
    with refused(Reason.RESOURCE_NOT_FOUND):
        await face.ask(face.connect(), LoginWithToken("x" * 67))
    with refused(Reason.INVALID_FORMAT):
        await face.ask(face.connect(), LoginWithToken(""))
    await face.clock.sleep(61)
    with refused(Reason.TOKEN_EXPIRED):
        await face.ask(face.connect(), LoginWithToken(made.token))
    again = await face.ask(root, CreateToken("tool"))
    assert isinstance(again, RawToken)
    await face.ask(root, DeleteToken("tool"))
    with refused(Reason.RESOURCE_NOT_FOUND):
        await face.ask(face.connect(), LoginWithToken(again.token))


def test_users_and_tokens_are_there_after_a_crash() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk, clean=False) as face:
            root = await face.login()
            await face.ask(root, replace(EVE, permissions=ALL_PERMISSIONS))
            eve = await face.login("eve", "secret")
            made = await face.ask(eve, CreateToken("tool"))
            assert isinstance(made, RawToken)
        async with iggy_handlers(disk.killed()) as face:
            session = face.connect()
            assert await face.ask(session, LoginWithToken(made.token)) == LoggedIn(2)
            await face.ask(session, GetUsers())

    run(main())


def test_with_a_users_file_its_users_log_in_with_their_grants_and_nobody_else() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk, clean=False) as face:
            root = await face.with_topic(1)
            await face.ask(root, EVE)
        users = users_file(
            {
                "admin": {"*": "READ_UPDATE"},
                "reader": {"logs/*": "READ"},
                "writer": {"logs/app": "READ_UPDATE"},
                "other": {"elsewhere/*": "READ_UPDATE"},
            }
        )
        async with iggy_handlers(disk.killed(), users=users) as face:
            with refused(Reason.INVALID_CREDENTIALS):
                await face.login()
            with pytest.raises(IggyError):
                await face.login("admin", "wrong")
            may = {
                name: await allowed(face, await face.login(name, "secret"))
                for name in ("admin", "reader", "writer", "other", "eve")
            }
            assert may == {
                "admin": {"servers", "users", "stream", "topic", "create", "send", "poll"},
                "reader": {"stream", "topic", "poll"},
                "writer": {"stream", "topic", "send", "poll"},
                "other": set(),
                "eve": set(),
            }
            admin = await face.login("admin", "secret")
            for name, expected in (
                ("admin", ALL_PERMISSIONS),
                ("writer", Permissions(streams=(StreamPermissions(1, topics=(WRITING,)),))),
                ("other", Permissions()),
            ):
                found = await face.ask(admin, GetUser(name))
                assert isinstance(found, UserDetails)
                assert found.permissions == expected
            with refused(Reason.USER_EXISTS):
                await face.ask(admin, CreateUser("reader", "secret"))
            with refused(Reason.CANNOT_DELETE_USER):
                await face.ask(admin, DeleteUser("reader"))
            nameless = face.connect(Revision.R0)
            face.handlers.admit_nameless(nameless)
            with refused(Reason.UNAUTHENTICATED):
                await face.ask(nameless, GetStreams())

    run(main())


@with_iggy
async def test_once_root_has_a_password_of_its_own_nobody_is_root_without_it(face: Face) -> None:
    root, before = await face.login(), face.connect(Revision.R0)
    face.handlers.admit_nameless(before)
    await face.ask(before, GetStreams())
    await face.ask(root, ChangePassword("iggy", "iggy", "secret"))
    nameless = face.connect(Revision.R0)
    face.handlers.admit_nameless(nameless)
    with refused(Reason.UNAUTHENTICATED):
        await face.ask(nameless, GetStreams())


def test_a_stream_shows_only_the_topics_that_a_user_may_read() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk, clean=False) as face:
            root = await face.with_topic(1)
            await face.ask(root, CreateTopic(STREAM, "secrets", 1))
        users = users_file({"reader": {f"{STREAM}/{TOPIC}": "READ"}})
        async with iggy_handlers(disk.killed(), users=users) as face:
            found = await face.ask(await face.login("reader", "secret"), GetStream(STREAM))
            assert isinstance(found, StreamDetails)
            assert [topic.name for topic in found.topics] == [TOPIC]
            assert found.stream.topics == 1

    run(main())
