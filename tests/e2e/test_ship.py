"""`logdrive agent ship`: everything arrives, byte for byte, and a second run sends nothing (D3, G3,
P3, R2).
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.processes import free_port
from tests.support.installation import Installation, command

pytestmark = pytest.mark.process


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates)
    yield installation
    installation.close()


def _ship(system: Installation, files: list[Path]) -> dict[str, Any]:
    tls = [
        f"--{name}={system.tls / file}"
        for name, file in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
    ]
    arguments = command(
        "agent", "ship", *map(str, files), "--to", f"localhost:{system.port}", *tls, "--json"
    )
    environment = {**os.environ, "HOME": str(system.root)}
    done = subprocess.run(arguments, capture_output=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    result: dict[str, Any] = orjson.loads(done.stdout)
    return result


def test_real_logs_arrive_byte_for_byte_and_only_once__R2_D3(
    system: Installation, real_logs: list[Path]
) -> None:
    receiver = system.receiver()
    first = _ship(system, real_logs)
    second = _ship(system, real_logs)
    assert receiver.terminate() == 0
    contents = {path.read_bytes() for path in real_logs}
    assert set(system.ledger().by_data()) == contents
    assert first["bytes"] == sum(map(len, contents))
    assert second["bytes"] == 0
    assert second["events"] == 0


ODD_FILES = {
    "empty": b"",
    "no newline": b"one line without an end",
    "last without newline": b"first\nlast",
    "CRLF": b"a\r\nb\r\n\r\nc",
    "lone CR": b"a\rb\nc\r\r\n",
    "not UTF-8": b"ok\n\xff\xfe\nbroken \xc3( here\nok again\n" + bytes(range(256)) + b"\n",
    "NULs": b"before\n" + b"\0" * 700_000 + b"\nafter\n",
    "long line": "ä€😀".encode() * 400_000 + b"\nshort\n",
    "long line, not UTF-8": b"\xe4" * 2_000_000 + b"\nshort\n",
    "blank lines": b"\n" * 5000,
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode() * 3,
    "looks like a header": b'{"logdrive":{"v":1,"kind":"data"}}\n' * 50,
}


def test_odd_files_arrive_byte_for_byte_and_only_once__R1_R2_R3_P3(system: Installation) -> None:
    for name, content in ODD_FILES.items():
        (system.logs / f"{name}.log").write_bytes(content)
    files = sorted(system.logs.iterdir())
    receiver = system.receiver()
    _ship(system, files)
    assert _ship(system, files)["bytes"] == 0
    (system.logs / "last without newline.log").write_bytes(b"first\nlast and more\n")
    _ship(system, files)
    assert receiver.terminate() == 0
    delivered = system.ledger().by_data()
    expected = {content for content in ODD_FILES.values() if content} - {
        ODD_FILES["last without newline"]
    } | {b"first\nlast and more\n"}
    assert set(delivered) == expected


def test_a_ship_without_a_receiver_says_why_it_waits_and_why_it_stopped(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"a line\n")
    arguments = command("agent", "ship", str(log), "--to", f"127.0.0.1:{free_port()}", "--plain")
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as run:
        assert run.stderr is not None
        assert b"nothing can be sent yet, trying on: " in (said := run.stderr.readline())
        assert b"Connection refused" in said
        run.terminate()
        assert b"7 bytes are left (127.0.0.1:" in run.stderr.read()
    assert run.returncode == 1
