"""Starts that can't be: each ends at once, with one message that says what is wrong and where, and
the exit code that scripts look at.
"""

import asyncio
import errno
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from bench.processes import free_port
from logdrive.model.numbers import ABSENT
from logdrive.net.tcp import SystemTransport
from logdrive.wire.lumberjack.frames import PositionFrame
from tests.e2e.bad_input.bystanders import LINE, at, run_of
from tests.receiver.peers import NativePeer
from tests.support.disks.tmpfs import tmpfs
from tests.support.installation import STREAM, Installation, command
from tests.support.pki import Pki

pytestmark = pytest.mark.process

USAGE, FAILED = 2, 1
ORIGIN = UUID(int=0x5)


def _refused(
    arguments: list[str], code: int, environment: dict[str, str] | None = None
) -> list[str]:
    """Run a command that must fail; return what it complained of, after which nothing may
    follow.
    """
    run = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **(environment or {})},
    )
    assert run.returncode == code, run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    lines = run.stderr.splitlines()
    complaints = [line for line in lines if line.startswith("logdrive: ")]
    assert lines[-len(complaints) :] == complaints, run.stderr
    assert not [line for line in lines if "level=error" in line], run.stderr
    return [complaint.removeprefix("logdrive: ") for complaint in complaints]


def _one(arguments: list[str], code: int) -> str:
    complaints = _refused(arguments, code)
    assert len(complaints) == 1, complaints
    return complaints[0]


@pytest.fixture
def system(tmp_path: Path, pki: Pki) -> Iterator[Installation]:
    installation = Installation(tmp_path / "system", pki.directory)
    yield installation
    installation.close()


def _run(system: Installation, program: str = "receiver") -> list[str]:
    return [program, "run", "--config", str(system.root / f"{program}.toml")]


# Configuration ----------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[str, str, str, str]] = {
    "an unknown key": (
        "receiver",
        "[listen]\n",
        '[listen]\nadress = "x"\n',
        r'listen.adress = "x": there is no such key: did you mean address\?',
    ),
    "no stream": ("receiver", f"#{STREAM}", "", r"sink.uri = .*after # goes scope/stream"),
    "no address": (
        "receiver",
        'address = "127.0.0.1:',
        'address = "127.0.0.1:9',
        r"listen.address = .*no port between 0 and 65535",
    ),
    "half a TLS": (
        "receiver",
        "[listen.tls]\nca",
        '[listen.tls]\nclients = "any"\nca',
        r"listen.tls: clients = .* exclude each other",
    ),
    "no such certificate": (
        "receiver",
        "server.pem",
        "gone.pem",
        r"tls.cert = .*/gone.pem: No such file or directory",
    ),
    "a key of another certificate": (
        "receiver",
        "server.key",
        "client.key",
        r"listen.tls.key = .*/client.key: it is not the private key of the certificate",
    ),
    "no TOML": (
        "receiver",
        "[sink]\n",
        "[sink\n",
        r"line \d+, column \d+ = \[sink: this is not TOML",
    ),
    "an unknown key of the agent": (
        "agent",
        "[output]\n",
        '[output]\nhost = "x"\n',
        r"output.host = \"x\": there is no such key: did you mean hosts\?",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_configuration_names_file_key_value_and_remedy(
    system: Installation, name: str
) -> None:
    program, old, new, words = MISTAKES[name]
    path = system.root / f"{program}.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    complaint = _one(_run(system, program), USAGE)
    assert re.search(words, complaint), complaint
    assert str(path) in complaint


def test_all_mistakes_are_told_at_once_those_of_the_environment_by_their_variable(
    system: Installation,
) -> None:
    path = system.root / "receiver.toml"
    path.write_text(path.read_text() + 'colour = "red"\n[limit]\ntotal_bytes = 1\n')
    complaints = _refused(
        _run(system),
        USAGE,
        {"LOGDRIVE_DRAIN_SECONDS": "soon", "LOGDRIVE_LISTEN__IDLE_SECONDS": "-1"},
    )
    text = "\n".join(complaints)
    assert len(complaints) == 4, text
    for words in (
        "sink.colour",
        "limit = ",
        "LOGDRIVE_DRAIN_SECONDS",
        "LOGDRIVE_LISTEN__IDLE_SECONDS",
    ):
        assert words in text
    assert all(complaint.startswith(str(path)) for complaint in complaints)


def test_a_configuration_that_is_not_there_is_one_line(system: Installation) -> None:
    complaint = _one(["receiver", "run", "--config", str(system.root / "gone.toml")], USAGE)
    assert "gone.toml" in complaint
    assert "no such file" in complaint


# Addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", [False, True], ids=["listener", "face"])
def test_a_port_in_use_names_the_address_and_what_to_do(system: Installation, face: bool) -> None:
    path = system.root / "receiver.toml"
    with socket.create_server(("127.0.0.1", free_port() if face else system.port)) as taken:
        port = taken.getsockname()[1]
        if face:
            path.write_text(path.read_text() + f'[listen.pravega]\naddress = "127.0.0.1:{port}"\n')
        # not USAGE: systemd tries again, as the port may come free
        complaint = _one(_run(system), FAILED)
    assert f"127.0.0.1:{port}" in complaint
    assert (
        "Address already in use: another program listens there: stop it, or choose another port"
        in complaint
    )
    assert str(path) in complaint
    system.receiver().terminate()  # the store is free


def test_an_address_of_another_host_names_it(system: Installation) -> None:
    path = system.root / "receiver.toml"
    path.write_text(path.read_text().replace(f"127.0.0.1:{system.port}", "192.0.2.1:5044"))
    complaint = _one(_run(system), FAILED)
    assert "192.0.2.1:5044" in complaint
    assert "this host does not have that address" in complaint


# The store's directory --------------------------------------------------------------------------


def test_a_store_in_use_is_one_line_and_the_other_process_goes_on(
    system: Installation, tmp_path: Path, pki: Pki
) -> None:
    process = system.receiver()
    second = Installation(tmp_path / "second", pki.directory)
    path = second.root / "receiver.toml"
    path.write_text(path.read_text().replace(str(second.store), str(system.store)))
    complaint = _one(_run(second), FAILED)
    assert str(system.store) in complaint
    assert "another process has this store open" in complaint
    assert asyncio.run(_ship(system, pki, 0, LINE)) == ABSENT
    assert process.terminate() == 0
    assert len(system.ledger().sources) == 1


def test_a_store_whose_path_is_a_file_is_one_line(system: Installation) -> None:
    system.store.write_text("not a directory")
    complaint = _one(_run(system), FAILED)
    assert str(system.store) in complaint
    assert os.strerror(errno.ENOTDIR) in complaint


def test_a_read_only_directory_is_one_line(system: Installation, pki: Pki) -> None:
    with tmpfs(system.store, 8) as mounted:
        process = system.receiver()
        asyncio.run(_ship(system, pki, 0, LINE))
        assert process.terminate() == 0
        mounted.remount("ro")
        complaint = _one(_run(system), FAILED)
        assert str(system.store) in complaint
        assert os.strerror(errno.EROFS) in complaint
        mounted.remount("rw")
        process = system.receiver()
        assert asyncio.run(_ship(system, pki, LINE, 2 * LINE)) == at(LINE)
        assert process.terminate() == 0


# Damage -----------------------------------------------------------------------------------------


def _log_file(system: Installation) -> Path:
    (path,) = system.store.glob("log-*")
    return path


def _flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        bits = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([bits ^ 0x10]))


def test_a_bit_that_flipped_in_the_log_refuses_the_start_naming_file_and_offset(
    system: Installation, pki: Pki
) -> None:
    """After a kill the log is read from its last checkpoint on; the start neither cuts there nor
    goes on.
    """
    process = system.receiver()
    asyncio.run(_ship(system, pki, 0, 10 * LINE))
    process.kill()
    path = _log_file(system)
    whole = path.read_bytes()
    offset = whole.index(b"%0*d" % (LINE - 1, 5))  # the sixth line of ten
    _flip(path, offset)
    for _ in range(2):
        complaint = _one(_run(system), FAILED)
        match = re.search(
            rf"{re.escape(str(path))} is damaged at offset (\d+): an entry is not whole", complaint
        )
        assert match, complaint
        assert int(match[1]) <= offset < int(match[1]) + 4096
        assert path.stat().st_size == len(whole)
    _flip(path, offset)
    process = system.receiver()
    assert asyncio.run(_ship(system, pki, 10 * LINE, 11 * LINE)) == at(10 * LINE)
    assert process.terminate() == 0
    (delivered,) = system.ledger().sources.values()
    assert delivered.position == 11 * LINE


def test_a_bit_that_flipped_below_the_checkpoint_is_named_by_who_reads_it(
    system: Installation, pki: Pki
) -> None:
    """A start after a clean end trusts the checkpoint; reading the damaged place is an error."""
    process = system.receiver()
    asyncio.run(_ship(system, pki, 0, 10 * LINE))
    assert process.terminate() == 0
    path = _log_file(system)
    offset = path.read_bytes().index(b"%0*d" % (LINE - 1, 5))
    _flip(path, offset)
    process = system.receiver()
    assert asyncio.run(_ship(system, pki, 10 * LINE, 11 * LINE)) == at(10 * LINE)
    assert process.terminate() == 0
    complaint = _cat_fails(system)
    assert re.search(rf"{re.escape(str(path))} is damaged at offset \d+", complaint), complaint


def _cat_fails(system: Installation) -> str:
    run = subprocess.run(
        command("store", "cat", f"file://{system.store}#{STREAM}"),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.returncode == FAILED, run.stderr
    assert "Traceback" not in run.stderr
    assert b"%0*d" % (LINE - 1, 5) not in run.stdout.encode()
    (complaint,) = run.stderr.splitlines()
    return complaint


# ------------------------------------------------------------------------------------------------


async def _ship(system: Installation, pki: Pki, start: int, end: int) -> int:
    """Deliver a part of the one file, a line a window; return the number that was stored before."""
    stream = await SystemTransport().connect(
        "127.0.0.1", system.port, pki.client(name="localhost", alpn=("logdrive/1",))
    )
    peer = NativePeer(stream)
    answer = await peer.register(0, ORIGIN)
    assert isinstance(answer, PositionFrame), answer
    for place in range(start, end, LINE):
        await peer.acknowledged(await peer.send_window(run_of(0, place, place + LINE)))
    await stream.close()
    return answer.number
