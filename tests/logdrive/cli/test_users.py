"""`logdrive store user` prints entries that the store can read.

A mistake in the users file is reported with its file and key.
"""

import asyncio
import subprocess
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from logdrive.cli.main import cli
from logdrive.config.load import load_config
from logdrive.errors import ConfigError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.services.auth.open import open_access
from logdrive.services.auth.passwords import parse_hash
from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.users import read_users
from logdrive.services.config import StoreConfig
from tests.support.installation import command


def logdrive(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_entries_one_after_the_other_make_a_file_of_users(tmp_path: Path) -> None:
    password, users = tmp_path / "password", tmp_path / "users.toml"
    password.write_text("a secret: yes\n")
    made = [
        logdrive(
            "store",
            "user",
            "fleet",
            "--update",
            "logs/*",
            "--read",
            "*",
            "--password-file",
            str(password),
        ),
        logdrive("store", "user", "viewer", "--read", "logs/app", "--password-file", str(password)),
    ]
    assert [done.exit_code for done in made] == [0, 0], made
    users.write_text("".join(done.stdout for done in made))
    fleet, viewer = read_users(SystemDisk(), str(users)).user
    assert (fleet.name, viewer.name) == ("fleet", "viewer")
    assert parse_hash(fleet.password).matches_password("a secret: yes")
    assert fleet.password != viewer.password
    assert fleet.grants().stream_permission("logs", "app") == Permission.READ_UPDATE
    assert (
        viewer.grants().stream_permission("logs", "app"),
        viewer.grants().scope_permission("logs"),
    ) == (
        Permission.READ,
        Permission.NONE,
    )
    assert "a secret" not in users.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fleet",), "give --read or --update"),
        (("fl:eet", "--read", "*"), "not a valid user name"),
        (("fleet", "--read", "logs"), "write scope/stream"),
        (("fleet", "--read", "*", "--password-file", "{empty}"), "exactly one line"),
    ],
)
def test_what_would_make_no_entry_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    done = logdrive("store", "user", *(part.format(empty=empty) for part in arguments))
    assert done.exit_code == 2
    assert words in done.stderr
    assert not done.stdout


def test_a_store_does_not_start_with_a_secret_that_is_too_short_or_users_that_are_none(
    tmp_path: Path,
) -> None:
    config, users, secret = (tmp_path / name for name in ("store.toml", "users.toml", "secret"))
    config.write_text(
        f'[store]\npath = "{tmp_path}/store"\n[listen.pravega]\naddress = "127.0.0.1:0"\n'
        '[listen.controller]\naddress = "127.0.0.1:0"\n'
        f'[listen.auth]\nusers = "{users}"\ntoken_secret = "{secret}"\n'
    )
    store_run = command("store", "run", "--config", str(config))
    done = subprocess.run(store_run, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"logdrive: {config}: listen.auth.token_secret = {secret}: No such file or "
        f"directory: {secret}"
    )
    secret.write_text("short\n")
    assert refused(config, "token_secret", str(secret)).startswith(
        "it has 5 bytes, and at least 64 are needed: openssl rand"
    )
    secret.write_text("s" * 64)
    assert refused(config, "users", str(users)).startswith("No such file")
    users.write_text("x = 1\n")
    assert refused(config, "x", "1").startswith("there is no such key")
    assert not (tmp_path / "store").exists()


def refused(config: Path, key: str, value: str) -> str:
    """Return the remedy of the first mistake, which is about *key*."""

    async def main() -> None:
        auth = load_config(str(config), StoreConfig, {}).listen.auth
        async with open_access(auth, disk=SystemDisk(), clock=SystemClock(), random=Random(1)):
            raise AssertionError("it came in")

    with pytest.raises(ConfigError) as told:
        asyncio.run(main())
    mistake = told.value.mistakes[0]
    assert (mistake.key, mistake.value) == (key, value)
    return mistake.remedy


def test_a_login_is_whole_or_there_is_none(tmp_path: Path) -> None:
    uri, file = "pravega://127.0.0.1:1/logs/app", tmp_path / "password"
    file.write_text("x\n")
    for arguments, words in (
        (("--user", "fleet"), "LOGDRIVE_PASSWORD"),
        (("--password-file", str(file)), "needs --user"),
        (("--cert", str(file)), "give --cert and --key together"),
    ):
        done = logdrive("store", "ls", uri, *arguments)
        assert done.exit_code == 2
        assert words in done.stderr


def test_a_login_that_clients_of_iggy_do_not_take_is_warned_of(tmp_path: Path) -> None:
    password = tmp_path / "password"
    for name, secret, words in (
        ("u2", "secret", ["names of 3 to 50"]),
        ("user", "no", ["passwords of 3 to 100"]),
        ("user", "secret", []),
    ):
        password.write_text(secret)
        done = logdrive("store", "user", name, "--read", "*", "--password-file", str(password))
        assert done.exit_code == 0
        assert "[[user]]" in done.stdout
        assert [line.split("take ")[1] for line in done.stderr.splitlines()] == [
            f"{word} bytes" for word in words
        ]


def test_the_help_of_the_store_names_its_protocols() -> None:
    said = logdrive("store", "run", "--help").stdout
    assert all(name in said for name in ("Pravega", "S2", "Iggy")), said
