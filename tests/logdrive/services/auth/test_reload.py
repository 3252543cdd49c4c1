"""The users are reloaded when their file has changed; a file that can't be used changes nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest
from structlog.testing import capture_logs

from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.open import open_access
from logdrive.services.auth.passwords import hash_password
from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.reload import CHECK_SECONDS
from logdrive.services.auth.users import UnknownUserError, Users
from tests.logdrive.services.auth.test_users import basic
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run

PATH, SECRET = "/etc/users.toml", "/etc/secret"
HASHES = {name: str(hash_password(name.upper(), b"0123456789abcdef")) for name in ("ann", "bob")}


def table(name: str, password: str | None = None, level: str = "READ") -> str:
    return (
        f'[[user]]\nname = "{name}"\npassword = "{HASHES[password or name]}"\nmay = {{ "*" = '
        f'"{level}" }}\n'
    )


def write(disk: MemoryDisk, text: str, path: str = PATH) -> None:
    with contextlib.suppress(FileNotFoundError):
        disk.remove(path)
    file = disk.open(path, write=True, create=True)
    file.append([text.encode()])
    file.close()


@contextlib.asynccontextmanager
async def asking(disk: MemoryDisk, executor: InlineExecutor) -> AsyncIterator[Users]:
    config = AuthConfig(users=PATH, token_secret=SECRET)
    write(disk, "s" * 64, SECRET)
    async with open_access(
        config, disk=disk, clock=VirtualClock(), random=Random(1), executors=lambda _: executor
    ) as access:
        assert access is not None
        yield access.users


async def allowed(users: Users, name: str, password: str | None = None) -> Permission | None:
    try:
        return (
            await users.authenticate(basic(f"{name}:{(password or name).upper()}"))
        ).grants.stream_permission("logs", "app")
    except UnknownUserError:
        return None


async def looked_twice() -> None:
    await asyncio.sleep(2.5 * CHECK_SECONDS)


def test_added_removed_and_changed_users_need_no_restart() -> None:
    async def main() -> None:
        disk, executor = MemoryDisk(["/etc"]), InlineExecutor()
        write(disk, table("ann"))
        async with asking(disk, executor) as users:
            assert (await allowed(users, "ann"), await allowed(users, "bob")) == (
                Permission.READ,
                None,
            )
            write(disk, table("ann") + table("bob", level="READ_UPDATE"))
            await looked_twice()
            compared = executor.calls
            assert await allowed(users, "ann") == Permission.READ
            assert executor.calls == compared, "who is as before need not be compared again"
            assert await allowed(users, "bob") == Permission.READ_UPDATE
            write(disk, table("ann", password="bob") + table("bob"))
            await looked_twice()
            assert (await allowed(users, "ann"), await allowed(users, "ann", "bob")) == (
                None,
                Permission.READ,
            )
            assert await allowed(users, "bob") == Permission.READ
            write(disk, table("bob"))
            await looked_twice()
            assert (await allowed(users, "ann", "bob"), await allowed(users, "bob")) == (
                None,
                Permission.READ,
            )

    run(main())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (table("ann") + table("ann"), "two are called 'ann'"),
        (table("bob")[:60], "this is not TOML"),
        (table("bob").replace("READ", "WRITE"), 'write "READ" or "READ_UPDATE"'),
        ("", "this key is missing"),
        (None, "No such file"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing_and_is_logged_once(
    text: str | None, told: str
) -> None:
    async def main() -> None:
        disk = MemoryDisk(["/etc"])
        write(disk, table("ann"))
        async with asking(disk, InlineExecutor()) as users:
            if text is None:
                disk.remove(PATH)
            else:
                write(disk, text)
            with capture_logs() as said:
                await asyncio.sleep(10 * CHECK_SECONDS)
                assert await allowed(users, "ann") == Permission.READ
            (line,) = said
            assert (line["event"], line["log_level"]) == (
                "the changed users file can't be used, the former users stay in force",
                "error",
            )
            assert (line["file"], told in line["reason"]) == (PATH, True), line
            write(disk, table("bob"))
            await looked_twice()
            assert (await allowed(users, "ann"), await allowed(users, "bob")) == (
                None,
                Permission.READ,
            )

    run(main())


def test_a_file_that_is_being_written_is_read_only_once_it_is_complete() -> None:
    async def main() -> None:
        disk = MemoryDisk(["/etc"])
        write(disk, table("ann"))
        async with asking(disk, InlineExecutor()) as users:
            text = ""
            with capture_logs() as said:
                for part in (table("bob"), table("ann")[:20], table("ann")[20:]):
                    text += part
                    write(disk, text)
                    await asyncio.sleep(CHECK_SECONDS)
                    assert await allowed(users, "ann") == Permission.READ
                await looked_twice()
            assert [line["event"] for line in said] == ["users were reloaded"]
            assert await allowed(users, "bob") == Permission.READ

    run(main())


def test_a_login_compared_while_its_user_is_removed_is_not_cached() -> None:
    async def main() -> None:
        disk = MemoryDisk(["/etc"])
        write(disk, table("ann"))
        async with asking(disk, InlineExecutor(10 * CHECK_SECONDS)) as users:
            asked = asyncio.create_task(allowed(users, "ann"))
            await asyncio.sleep(0)
            write(disk, table("bob"))
            assert await asked == Permission.READ, "it came before"
            assert await allowed(users, "ann") is None

    run(main())
