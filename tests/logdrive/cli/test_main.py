"""The command line: help with examples, one clear line for a mistake, exit codes 0, 1, 2."""

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.host.disk import SystemDisk
from tests.support.installation import command


def _logdrive(*arguments: str, stdin: IO[str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), stdin=stdin, capture_output=True, text=True, timeout=60, check=False
    )


def _leaves(
    group: click.Group, path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        assert one is not None
        found += (
            _leaves(one, (*path, name)) if isinstance(one, click.Group) else [((*path, name), one)]
        )
    return found


def test_every_command_that_scripts_depend_on_is_there() -> None:
    names = {" ".join(path) for path, _ in _leaves(cli)}
    fixed = (
        "demo,certs,receiver run,receiver check,agent run,agent ship,agent check,store "
        "run,store ls,store cat"
    )
    assert {*fixed.split(","), "pipeline run", "pipeline audit", "pipeline report"} <= names


@pytest.mark.parametrize("name", ["agent", "receiver"])
@pytest.mark.skipif(find_spec("_sha1") is None, reason="this Python has only OpenSSL's hashes")
def test_no_second_openssl_is_loaded_for_what_runs_all_day(name: str) -> None:
    code = (
        "import click, sys; from logdrive.cli.main import cli, import_structlog\n"
        f"import_structlog(); cli.get_command(click.Context(cli), {name!r})\n"
        "assert not {'ssl', '_ssl', '_hashlib', 'rich'} & set(sys.modules)\n"
        "from logdrive.services.auth.passwords import hash_password\n"
        "assert hash_password('secret', bytes(16)).matches_password('secret')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("path", "leaf"),
    _leaves(cli),
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_command_explains_itself_with_an_example(
    path: tuple[str, ...], leaf: click.Command
) -> None:
    assert leaf.help
    assert f"Example: logdrive {' '.join(path)}" in (leaf.epilog or "")


@pytest.mark.parametrize("name", ["agent", "pipeline", "receiver", "store"])
def test_every_group_shows_an_example(name: str) -> None:
    group = cli.get_command(click.Context(cli), name)
    assert group is not None
    assert f"Example: logdrive {name} " in (group.epilog or "")


@pytest.mark.parametrize("group", ["", "agent", "pipeline", "receiver", "store"])
def test_every_list_of_commands_has_whole_sentences(group: str) -> None:
    listed = CliRunner().invoke(cli, [*group.split(), "--help"]).output.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


def test_an_agent_imports_nothing_that_only_other_commands_need() -> None:
    argv = command("agent", "run", "--help")
    environment = os.environ | {"PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"agent.app", "structlog.dev"} <= imported
    assert not imported & {"rich.console", "agent.ship", "receiver.app", "pyarrow", "grpc"}
    # parts of the standard library that take MiB, and that an agent does not use
    assert not imported & {"_ssl", "zipfile", "_bz2", "_lzma"}
    assert "_sha1" in imported or find_spec("_sha1") is None, "hashlib uses a second OpenSSL"


def test_a_receiver_makes_no_store_before_its_certificates_and_port_are_good(
    tmp_path: Path,
) -> None:
    path, store = tmp_path / "receiver.toml", tmp_path / "store"
    tls = f'[listen.tls]\ncert = "{tmp_path}/no.pem"\nkey = "{tmp_path}/no.key"\nclients = "any"\n'
    path.write_text(
        f'[listen]\naddress = "127.0.0.1:0"\n{tls}[sink]\nuri = "file://{store}#logs/events"\n'
    )
    done = _logdrive("receiver", "run", "--config", str(path))
    assert done.returncode == 2, done.stderr
    assert f"{path}: listen.tls.cert" in done.stderr
    assert not store.exists()


@pytest.mark.parametrize("program", ["receiver", "agent", "store"])
def test_a_mistake_in_the_configuration_names_file_key_value_and_remedy(
    tmp_path: Path, program: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[sink]\nuri = "file:///x#a/b"\n[listen]\nadress = "127.0.0.1:1"\n[agent]\n'
        'state_dir = "/x"\n[output]\nhost = []\n'
    )
    done = _logdrive(program, "run", "--config", str(path))
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert all(line.startswith(f"logdrive: {path}: ") for line in lines)
    wrong = "output.host" if program == "agent" else "listen.adress"
    assert any(wrong in line for line in lines), done.stderr
    assert len(lines) > 1, "all mistakes at once"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("store", "ls", "file:///nowhere/at/all#a/b"), "there is no store in /nowhere/at/all"),
        (("store", "ls", "http://x/y"), "file:///path#scope/stream"),
        (("receiver", "run", "--config", "/nowhere.toml"), "/nowhere.toml"),
        (("agent", "ship", "/etc/hostname", "--to", "logs.example.com:5044"), "--plain"),
        (("agent", "ship", "/etc/hostname", "--to", "localhost:99999"), "port"),
        (
            ("agent", "ship", "/etc/hostname", "--to", "localhost:1", "--dialect", "auto"),
            "auto needs TLS",
        ),
        (("agent", "ship", "/nowhere", "--to", "localhost:1"), "/nowhere"),
        (
            ("pipeline", "run", "--from", "http://x/y", "--to", "/nowhere"),
            "logdrive: pipeline: from: 'http://x/y': write file:///path#",
        ),
        (("nothing",), "No such command"),
    ],
)
def test_usage_errors_end_with_2_and_say_why(arguments: tuple[str, ...], said: str) -> None:
    done = _logdrive(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


_STORE = '[store]\npath = "{}"\n[listen.pravega]\naddress = "{}"\n'
_SYSLOG = '[[syslog]]\nprotocol = "{protocol}"\nlisten = "{listen}"\n'
_AGENT = (
    '[agent]\nid = "x"\nstate_dir = "{}"\n[output]\nhosts = ["127.0.0.1:1"]\ntls = "off"\n'
    '[[input]]\npaths = ["/nowhere/*"]\n'
)


def test_what_another_process_has_ends_with_1_as_it_may_come_free(tmp_path: Path) -> None:
    """A port, a store, a state directory: systemd tries again after 1, and leaves 2 to somebody who
    mends the configuration.
    """
    (held := tmp_path / "held").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken, SystemDisk().lock(str(held / "lock")):
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for program, text, said in (
            (
                "store",
                _STORE.format(tmp_path / "free", address),
                f"listen.pravega.address = {address}: Address already in use",
            ),
            (
                "store",
                _STORE.format(held, "127.0.0.1:0"),
                f"store.path = {held}: another process has this store open",
            ),
            (
                "agent",
                _AGENT.format(held),
                f"agent.state_dir = {held}: another agent runs with it",
            ),
            (
                "agent",
                f'{_AGENT.format(tmp_path / "a")}[control]\nmetrics = "{address}"\n',
                f"control.metrics = {address}: Address already in use",
            ),
            (
                "agent",
                f"{_AGENT.format(tmp_path / 'b')}{_SYSLOG.format(protocol='tcp', listen=address)}",
                f"syslog[0].listen = {address}: Address already in use",
            ),
        ):
            (path := tmp_path / "config.toml").write_text(text)
            done = _logdrive(program, "run", "--config", str(path))
            assert done.returncode == 1, done.stderr
            assert f"{path}: {said}" in done.stderr


def test_what_an_agent_can_not_open_is_named_by_file_and_key(tmp_path: Path) -> None:
    (missing := tmp_path / "missing").mkdir()
    missing.rmdir()
    for number, (table, said) in enumerate(
        (
            (f'[[pipe]]\npath = "{missing}/p"\n', f"pipe[0].path = {missing}/p: "),
            (f'[[socket]]\npath = "{missing}/s"\n', f"socket[0].path = {missing}/s: "),
            (
                _SYSLOG.format(protocol="udp", listen="192.0.2.1:15044"),
                "syslog[0].listen = 192.0.2.1:15044: ",
            ),
            ("[stdin]\n", "stdin: it can't be used (it is open for writing only): "),
        )
    ):
        (path := tmp_path / "agent.toml").write_text(_AGENT.format(tmp_path / f"{number}") + table)
        with open(tmp_path / "written", "w") as write_only:
            done = _logdrive("agent", "run", "--config", str(path), stdin=write_only)
        assert done.returncode == 2, done.stderr
        assert f"{path}: {said}" in done.stderr


def test_a_store_whose_directory_can_not_be_made_is_named_by_file_and_key(tmp_path: Path) -> None:
    (path := tmp_path / "store.toml").write_text(_STORE.format("/proc/store", "127.0.0.1:0"))
    done = _logdrive("store", "run", "--config", str(path))
    assert done.returncode == 1, done.stderr
    assert f"{path}: store.path = /proc/store: its directory can't be used" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("audit", "--engine", "spark"), ("report", "--engine", "spark", "--out", "report.html")],
    ids=lambda value: value[0],
)
def test_tables_that_are_not_there_are_told_before_spark_starts(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(cli, ["pipeline", arguments[0], str(tmp_path), *arguments[1:]])
    assert (
        str(done.exception)
        == f"{tmp_path}/bronze/events is not a table: run `logdrive pipeline run --to DIR` first"
    )
    assert "Spark" not in done.output


def test_ship_refuses_an_encoding_that_files_do_not_have(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("line\n")
    arguments = ("agent", "ship", str(tmp_path / "a.log"), "--to", "127.0.0.1:1")
    done = CliRunner().invoke(cli, [*arguments, "--encoding", "iso2022_jp"])
    assert done.exit_code == 2
    assert "--encoding: 'iso2022_jp' shifts between character sets" in done.output


def test_ship_gives_up_with_1_where_nobody_listens(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("line\n")
    done = _logdrive(
        "agent",
        "ship",
        str(tmp_path / "a.log"),
        "--to",
        "127.0.0.1:1",
        "--give-up",
        "1",
        "--id",
        "me",
    )
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
