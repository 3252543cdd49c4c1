"""Peers that fail before they may speak: wrong certificates on either side, and bytes that are no
TLS. One line on each side.
"""

import asyncio
import contextlib
import re
import socket
import struct
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from logdrive.errors import TransientError
from logdrive.host.transport import ClientTls
from logdrive.net.certificates import issue_authority
from logdrive.net.tcp import SystemTransport
from tests.e2e.bad_input.outlaw import say
from tests.e2e.bad_input.victim import Victim
from tests.support.installation import command
from tests.support.pki import Pki

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def strangers(pki: Pki) -> Pki:
    """Certificates that something is wrong with, beside the good ones."""
    other = issue_authority("another CA", now=datetime.now(UTC), days=30)
    (pki.directory / "other-ca.pem").write_bytes(other.certificate_pem)
    pki.add("stranger", ["client.example"], authority=other)
    pki.add("expired", ["client.example"], age_days=60)
    pki.add("wrong-purpose", ["client.example"], server=True)
    return pki


# What the client brings, and expects: what the receiver says, and what the client says.
CLIENTS: dict[str, tuple[dict[str, str | None], str, str]] = {
    "no certificate": (
        {"stem": None},
        "brought no certificate: give it one",
        "certificate required.*set cert and key",
    ),
    "another CA": (
        {"stem": "stranger"},
        "its certificate is refused.*CA given here did not sign it",
        "unknown ca.*stranger.pem",
    ),
    "expired": (
        {"stem": "expired"},
        "its certificate is refused: certificate has expired, on",
        "expired.*renew it.*expired.pem",
    ),
    "wrong purpose": (
        {"stem": "wrong-purpose"},
        "its certificate is refused: unsuitable certificate purpose",
        "wrong-purpose.pem",
    ),
    "it trusts another CA": (
        {"ca": "other-ca.pem"},
        "it refused the connection.*unknown ca",
        "its certificate is refused: .*CA given here did not sign it",
    ),
    "it expects another name": (
        {"name": "logs.example.com"},
        "it refused the connection",
        "hostname mismatch: it speaks for localhost, 127.0.0.1, not for logs.example.com",
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_wrong_certificate_is_one_line_on_each_side(
    receiver: Victim, strangers: Pki, name: str
) -> None:
    changes, at_receiver, at_agent = CLIENTS[name]
    given = {"stem": "client", "name": "localhost", "ca": "ca.pem"} | changes
    tls = strangers.client(given["stem"], ca=given["ca"] or "", name=given["name"])

    async def scene() -> None:
        said = receiver.said()
        async with receiver.others_go_on():
            failure = await _failure(receiver.port, tls)
            assert re.search(at_agent, failure), failure
            assert "\n" not in failure
            await said.one_line(
                "warning", r"connection refused.* peer=127\.0\.0\.1:\d+ ", at_receiver
            )

    asyncio.run(scene())


async def _failure(port: int, tls: ClientTls) -> str:
    """Return why a client with *tls* can't speak; under TLS 1.3 it hears of a refusal only when it
    reads.
    """
    try:
        stream = await SystemTransport().connect("127.0.0.1", port, tls)
        while await stream.read():
            pass
    except TransientError as error:
        return str(error)
    raise AssertionError("it was let in")


@pytest.mark.parametrize("name", ["no certificate", "another CA", "it expects another name"])
def test_a_ship_with_a_wrong_certificate_ends_at_once_and_says_why(
    receiver: Victim, strangers: Pki, tmp_path: Path, name: str
) -> None:
    changes, _, here = CLIENTS[name]
    given = {"stem": "client", "name": "localhost", "ca": "ca.pem"} | changes
    (tmp_path / "a.log").write_text("a line\n")
    options = [
        "--to",
        f"127.0.0.1:{receiver.port}",
        "--ca",
        strangers.path(given["ca"] or ""),
        "--server-name",
        given["name"] or "",
    ]
    if given["stem"]:
        options += [
            "--cert",
            strangers.path(f"{given['stem']}.pem"),
            "--key",
            strangers.path(f"{given['stem']}.key"),
        ]
    run = subprocess.run(
        command("agent", "ship", str(tmp_path / "a.log"), *options, "--give-up", "600"),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.returncode == 1, run.stderr
    assert "Traceback" not in run.stderr
    (line,) = run.stderr.splitlines()
    assert re.search(here, line), run.stderr
    assert f"127.0.0.1:{receiver.port}" in line
    assert ("give --cert and --key" in line) == (not given["stem"])


def test_a_ship_without_tls_ends_at_once_and_names_the_options(
    receiver: Victim, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text("a line\n")
    arguments = command(
        "agent",
        "ship",
        str(tmp_path / "a.log"),
        "--to",
        f"127.0.0.1:{receiver.port}",
        "--give-up",
        "600",
    )
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=30)
    assert run.returncode == 1, run.stderr
    *_, line = run.stderr.splitlines()
    assert "does it require TLS? give --ca, --cert and --key" in line


NO_TLS: dict[str, tuple[bytes, str]] = {
    "a web browser": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "does not speak TLS .*is TLS on at both ends",
    ),
    "plain Lumberjack": (
        b"2W\0\0\0\x012J\0\0\0\x01\0\0\0\x02{}",
        "does not speak TLS .*is TLS on at both ends",
    ),
    "noise": (b"\x93" * 300, "does not speak TLS .*is TLS on at both ends"),
    "a record too large": (b"\x16\x03\x01\xff\xff" + b"\x01" * 300, "TLS"),
    "an SSH client": (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak TLS .*is TLS on at both ends"),
    "an empty greeting": (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", "TLS"),
}


@pytest.mark.parametrize("name", NO_TLS)
def test_bytes_that_are_no_tls_are_one_line(receiver: Victim, name: str) -> None:
    data, words = NO_TLS[name]

    async def scene() -> None:
        said = receiver.said()
        async with receiver.others_go_on():
            met = await say(receiver.port, data, tls=None)
            await said.one_line("warning", "connection refused", f"peer={met.address} ", words)

    asyncio.run(scene())


def test_a_peer_that_is_refused_again_and_again_is_one_line(receiver: Victim) -> None:
    """As a Beat without a certificate, which tries again every second."""

    async def scene() -> None:
        said = receiver.said()
        for _ in range(5):
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", receiver.port, local_addr=("127.2.0.1", 0)
                )
                writer.write(b"\x93" * 300)
                await writer.drain()
                writer.close()
            await asyncio.sleep(0.05)
        await said.one_line("warning", "connection refused", "peer=127.2.0.1:")

    asyncio.run(scene())


@pytest.mark.parametrize("reset", [False, True], ids=["an end", "a reset"])
def test_a_handshake_that_breaks_off_is_one_line(receiver: Victim, reset: bool) -> None:
    async def scene() -> None:
        said = receiver.said()
        async with receiver.others_go_on():
            with socket.create_connection(("127.0.0.1", receiver.port)) as sock:
                address = sock.getsockname()
                sock.sendall(b"\x16\x03\x01\x02\x00\x01")
                await asyncio.sleep(0.1)
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await said.one_line(
                "warning", f"peer={address[0]}:{address[1]} ", "during the TLS handshake"
            )

    asyncio.run(scene())


def test_a_probe_that_only_connects_is_no_line(receiver: Victim) -> None:
    """As load balancers do every second."""

    async def scene() -> None:
        said = receiver.said()
        async with receiver.others_go_on():
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", receiver.port)):
                    pass
            await asyncio.sleep(0.2)
        assert said.lines() == []

    asyncio.run(scene())
