"""Lumberjack v1 as the npm package lumberjack-protocol has it, the one on npm that speaks it: its
writer against our receiver, and the agent against a reader made of its frames. The package itself
has no reader.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need_program, unavailable
from tests.interop.receiving import with_a_receiver

SCRIPTS = Path(__file__).parent / "npm"
PACKAGE = "lumberjack-protocol@1.0.7"
ENOUGH_SECONDS = 120


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which the package was installed."""
    need_program("node")
    need_program("npm")
    directory = tmp_path_factory.mktemp("npm")
    options = (
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--no-update-notifier",
        "--prefix",
        str(directory),
    )
    try:
        subprocess.run(
            ["npm", "install", *options, PACKAGE],
            check=True,
            capture_output=True,
            timeout=ENOUGH_SECONDS,
            cwd=directory,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        unavailable(f"npm can't install {PACKAGE}: {error}")
    return directory


def ship(file: Path, port: int, *options: str) -> dict[str, Any]:
    """Ship *file* by the real command; return what it says of it."""
    command = [
        sys.executable,
        "-m",
        "logdrive.cli.main",
        "agent",
        "ship",
        str(file),
        "--to",
        f"localhost:{port}",
        "--id",
        "a",
        "--json",
    ]
    done = subprocess.run(
        [*command, *options], capture_output=True, timeout=ENOUGH_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def tls_options(tls: Path) -> tuple[str, ...]:
    """Return what makes the command speak TLS with the certificates in *tls*."""
    return (
        "--ca",
        str(tls / "ca.pem"),
        "--cert",
        str(tls / "client.pem"),
        "--key",
        str(tls / "client.key"),
    )


@pytest.mark.process
def test_its_writer_gets_every_line_acknowledged_in_version_1(
    packages: Path, tmp_path: Path
) -> None:
    """It counts nothing but its numbers, so the last lines are acknowledged although their window
    is not full.
    """
    acks = list[int]()

    def use(port: int, tls: Path) -> None:
        command = ["node", str(SCRIPTS / "writer.js"), str(packages), str(port), str(tls), "25"]
        done = subprocess.run(command, capture_output=True, timeout=ENOUGH_SECONDS, check=False)
        assert done.returncode == 0, done.stderr.decode()
        acks.extend(json.loads(done.stdout))

    records = asyncio.run(with_a_receiver(tmp_path, use)).foreign
    assert [json.loads(record) for record in records] == [
        {
            "line": f"zeile {n} €",
            "host": "node",
            "file": "/n.log",
            "offset": str(n),
            "service": "npm",
        }
        for n in range(25)
    ]
    assert acks == sorted(acks)
    assert acks[-1] == 25


@pytest.mark.process
def test_the_agent_s_frames_are_those_that_the_package_makes(
    packages: Path, tmp_path: Path
) -> None:
    file = tmp_path / "app.log"
    lines = [f'line {number} € \\ " \x7f' for number in range(5000)]
    file.write_bytes(
        "".join(f"{line}\n" for line in lines).encode()
        + b"crlf\r\n\xff\n"
        + b"x" * 100_000
        + b"\nopen"
    )
    came = tmp_path / "windows.json"
    command = ["node", str(SCRIPTS / "reader.js"), str(packages), str(came)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            said = ship(file, int(reader.stdout.readline()), "--dialect", "lumberjack/1")
        finally:
            reader.stdin.close()
    assert reader.returncode == 0
    windows = [json.loads(window) for window in came.read_text().splitlines()]
    events = [event for window in windows for event in window]
    assert (said["complete"], said["events"], len(events)) == (True, 5005, 5005)
    assert [event["line"] for event in events[:5000]] == lines
    assert [int(event["offset"]) for event in events[:2]] == [0, len(f"{lines[0]}\n".encode())]
    assert {event["file"] for event in events} == {str(file)}
    assert max(map(len, windows)) <= 2048


@pytest.mark.process
def test_the_receiver_keeps_what_the_agent_sends_in_version_1(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_bytes(b"".join(b"line %d\n" % number for number in range(5000)))
    ledger = asyncio.run(
        with_a_receiver(
            tmp_path,
            lambda port, tls: _shipped(file, port, "--dialect", "lumberjack/1", *tls_options(tls)),
        )
    )
    records = [json.loads(record) for record in ledger.foreign]
    assert [record["line"] for record in records] == [f"line {number}" for number in range(5000)]
    assert {record["file"] for record in records} == {str(file)}


@pytest.mark.process
def test_auto_speaks_logdrive_1_with_the_receiver(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_bytes(b"line\n" * 100)
    ledger = asyncio.run(
        with_a_receiver(
            tmp_path, lambda port, tls: _shipped(file, port, "--dialect", "auto", *tls_options(tls))
        )
    )
    assert not ledger.foreign
    assert file.read_bytes() in ledger.by_data()


def _shipped(file: Path, port: int, *options: str) -> None:
    assert ship(file, port, *options)["complete"]
