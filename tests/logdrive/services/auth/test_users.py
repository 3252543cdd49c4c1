"""Logins are checked against the users file; mistakes in it are reported with key and remedy."""

import asyncio
import base64
from pathlib import Path
from random import Random

import pytest

from logdrive.errors import ConfigError, TransientError
from logdrive.host.disk import SystemDisk
from logdrive.services.auth.passwords import hash_password
from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.users import UnknownUserError, Users, UsersConfig, read_users
from tests.support.inline import InlineExecutor

HASH = str(hash_password("a: secret", b"0123456789abcdef"))
TEXT = (
    f'[[user]]\nname = "fleet"\npassword = "{HASH}"\nmay = {{ "logs/*" = "READ_UPDATE", "*" = '
    f'"READ" }}\n'
)


def written(path: Path, text: str) -> UsersConfig:
    path.write_text(text)
    return read_users(SystemDisk(), str(path))


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_only_the_right_password_is_accepted(tmp_path: Path) -> None:
    users = Users(written(tmp_path / "users.toml", TEXT), InlineExecutor(), Random(1))

    async def main() -> None:
        for _ in range(2):
            user = await users.authenticate(basic("fleet:a: secret"))
            assert (user.name, user.grants.stream_permission("logs", "app")) == (
                "fleet",
                Permission.READ_UPDATE,
            )
        for wrong in (
            "fleet:a: secre",
            "fleet:",
            "Fleet:a: secret",
            ":a: secret",
            "nobody:a: secret",
        ):
            with pytest.raises(UnknownUserError, match="user or the password is wrong"):
                await users.authenticate(basic(wrong))
        for odd in (
            "Basic ???",
            basic("fleet"),
            "Bearer abc",
            "",
            f"Basic {'A' * 5000}",
            "Basic /w==",
        ):
            with pytest.raises(UnknownUserError, match=r"Basic"):
                await users.authenticate(odd)
        with pytest.raises(UnknownUserError, match="this controller needs a user"):
            await users.authenticate(None)

    asyncio.run(main())


def test_a_login_is_compared_once_and_too_many_unknown_ones_must_wait(
    tmp_path: Path,
) -> None:
    executor = InlineExecutor(0.001)
    users = Users(written(tmp_path / "users.toml", TEXT), executor, Random(1))

    async def main() -> None:
        asked = [users.authenticate(basic("fleet:a: secret")) for _ in range(60)]
        assert {user.name for user in await asyncio.gather(*asked)} == {"fleet"}
        assert executor.calls == 1
        strangers = [
            asyncio.ensure_future(users.authenticate(basic(f"stranger:{number}")))
            for number in range(70)
        ]
        await asyncio.wait(strangers, return_when=asyncio.FIRST_COMPLETED)
        busy = [
            one for one in strangers if one.done() and isinstance(one.exception(), TransientError)
        ]
        assert len(busy) == 6
        for one in strangers:
            one.cancel()
        await asyncio.wait(strangers)
        assert (await users.authenticate(basic("fleet:a: secret"))).name == "fleet"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "user: this key is missing"),
        (TEXT + TEXT, "two are called 'fleet'"),
        (
            TEXT.replace(HASH, "a secret"),
            "user[0].password: it is not a hash: `logdrive store user NAME` makes one",
        ),
        (TEXT.replace("logs/*", "logs"), "user[0].may"),
        (TEXT.replace("READ_UPDATE", "WRITE"), "user[0].may"),
        (TEXT.replace("fleet", "a:b"), "user[0].name"),
        (TEXT + "age = 3\n", "user[0].age = 3: there is no such key"),
        ("[[user]\n", "this is not TOML"),
    ],
)
def test_a_mistake_in_the_users_file_is_reported_with_file_key_and_remedy(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(ConfigError) as error:
        written(tmp_path / "users.toml", text)
    assert str(error.value).startswith(str(tmp_path / "users.toml"))
    assert told in str(error.value)


def test_a_missing_file_is_reported_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"users = .*no.toml: No such file") as error:
        read_users(SystemDisk(), str(tmp_path / "no.toml"))
    assert error.value.file == "listen"
