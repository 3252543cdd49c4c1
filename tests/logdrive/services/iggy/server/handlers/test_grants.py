"""What the users file grants, where streams and topics are made, renamed and deleted over Iggy."""

from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.requests import (
    CreateTopic,
    DeleteStream,
    GetStats,
    GetStreams,
    IggyCreateStream,
    PurgeStream,
    UpdateStream,
    UpdateTopic,
)
from tests.logdrive.services.iggy.server.handlers.harness import (
    STREAM,
    Face,
    iggy_handlers,
    refused,
    users_file,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def _with_grants(test: Callable[[Face, IggySession], Awaitable[None]], may: dict[str, str]) -> None:
    """Run *test* with the session of a user with the grants *may*, over a store with `logs`."""

    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk, clean=False) as face:
            await face.with_topic(1)
        users = users_file({"owner": may, "admin": {"*": "READ_UPDATE"}})
        async with iggy_handlers(disk.killed(), users=users) as face:
            await test(face, await face.login("owner", "secret"))

    run(main())


def test_a_grant_on_all_of_a_stream_is_enough_to_make_change_and_delete_it() -> None:
    async def owner_of_app(face: Face, owner: IggySession) -> None:
        assert await face.ask(owner, GetStreams()) == (), "as before what is made first"
        await face.ask(owner, IggyCreateStream("app"), CreateTopic("app", "events", 1))
        await face.ask(owner, UpdateStream("app", "app.old"), UpdateStream("app.old", "app"))
        await face.ask(owner, PurgeStream("app"), DeleteStream("app"))
        for request in (
            IggyCreateStream("other"),
            IggyCreateStream("a name that is in no grant"),
            UpdateStream(STREAM, "app"),
            DeleteStream(STREAM),
            CreateTopic(STREAM, "events", 1),
        ):
            with refused(Reason.UNAUTHORIZED):
                await face.ask(owner, request)

    _with_grants(owner_of_app, {"app*/*": "READ_UPDATE"})


def test_what_is_granted_gets_no_name_that_is_not() -> None:
    async def owner_of_app(face: Face, owner: IggySession) -> None:
        admin = await face.login("admin", "secret")
        await face.ask(admin, IggyCreateStream("app"), CreateTopic(STREAM, "mine", 1))
        for request in (
            UpdateStream("app", "other"),
            UpdateStream("app", "no grant"),
            UpdateTopic(STREAM, "mine", "other"),
            UpdateTopic(STREAM, "mine", "no grant"),
        ):
            with refused(Reason.UNAUTHORIZED):
                await face.ask(owner, request)
        await face.ask(owner, UpdateStream("app", "app"), UpdateTopic(STREAM, "mine", "mine"))

    _with_grants(owner_of_app, {"app/*": "READ_UPDATE", f"{STREAM}/mine": "READ_UPDATE"})


def test_a_grant_on_a_topic_is_enough_to_make_it() -> None:
    async def owner_of_mine(face: Face, owner: IggySession) -> None:
        await face.ask(owner, CreateTopic(STREAM, "mine", 1))
        for request in (CreateTopic(STREAM, "not mine", 1), IggyCreateStream("app")):
            with refused(Reason.UNAUTHORIZED):
                await face.ask(owner, request)

    _with_grants(owner_of_mine, {f"{STREAM}/mine": "READ_UPDATE", "app/*": "READ"})


def test_who_was_refused_is_logged() -> None:
    async def owner_of_app(face: Face, owner: IggySession) -> None:
        with pytest.raises(IggyError):
            await face.login("owner", "wrong-secret")
        for request in (GetStats(), DeleteStream(STREAM), DeleteStream(STREAM)):
            with refused(Reason.UNAUTHORIZED):
                await face.ask(owner, request)
        with refused(Reason.UNAUTHORIZED):
            await face.send(owner, "x", to=0)

    with capture_logs() as logs:
        _with_grants(owner_of_app, {"app/*": "READ_UPDATE"})
    assert "wrong-secret" not in str(logs)
    lines = [line for line in logs if line["event"] == "a request was refused"]
    assert [(line["peer"], line["request"]) for line in lines] == [
        ("127.0.0.1:4000", "IggyLogin"),
        ("127.0.0.1:4000", "DeleteStream"),
    ]
