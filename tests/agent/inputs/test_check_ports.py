"""`agent check` tries the ports that a start would listen at: real ones."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent.check import check_agent
from agent.config.config import AgentConfig
from logdrive.check import Finding
from logdrive.host.disk import SystemDisk
from logdrive.net.tcp import SystemTransport


@contextlib.contextmanager
def _another_program(kind: socket.SocketKind) -> Iterator[str]:
    """Take a port as another program would; yield its address."""
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind is socket.SOCK_STREAM:
            taken.listen()
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def _found(state_dir: Path, **settings: Any) -> dict[str, Finding]:
    config = msgspec.convert(
        {
            "agent": {"id": "a", "host": "h", "state_dir": str(state_dir)},
            "output": {"hosts": ["127.0.0.1:1"], "tls": "off"},
            "stdin": {},
            **settings,
        },
        AgentConfig,
    )
    checked = asyncio.run(check_agent(config, disk=SystemDisk(), transport=SystemTransport()))
    return {finding.name: finding for finding in checked.findings}


def test_a_port_that_another_program_has_is_found(tmp_path: Path) -> None:
    with (
        _another_program(socket.SOCK_STREAM) as tcp,
        _another_program(socket.SOCK_DGRAM) as udp,
        _another_program(socket.SOCK_STREAM) as metrics,
    ):
        syslog = [
            {"listen": tcp, "protocol": "tcp"},
            {"listen": udp, "protocol": "udp"},
            {"listen": "127.0.0.1:0", "protocol": "tcp"},
        ]
        found = _found(tmp_path, syslog=syslog, control={"metrics": metrics})
    for key, address in (
        ("syslog[0].listen", tcp),
        ("syslog[1].listen", udp),
        ("control.metrics", metrics),
    ):
        assert not found[key].ok
        assert found[key].detail.startswith(f"{address}: ")
        assert "Address already in use" in found[key].detail
    assert found["syslog[2]"].ok
    assert list(tmp_path.iterdir()) == [], "the check left something behind"


def test_ports_in_use_are_no_fault_while_an_agent_runs_with_the_state_directory(
    tmp_path: Path,
) -> None:
    with (
        _another_program(socket.SOCK_DGRAM) as udp,
        _another_program(socket.SOCK_STREAM) as metrics,
        SystemDisk().lock(str(tmp_path / "lock")),
    ):
        found = _found(
            tmp_path,
            syslog=[{"listen": udp, "protocol": "udp"}],
            control={"metrics": metrics},
        )
    assert found["agent.state_dir"].detail.endswith("an agent runs with it now")
    for key, address in (("syslog[0]", udp), ("control.metrics", metrics)):
        assert found[key].ok
        assert found[key].detail == (
            f"{address} is in use: if not by the agent that runs with this state_dir, a start "
            "would fail"
        )


def test_certificates_of_syslog_that_can_not_be_used_are_found(tmp_path: Path) -> None:
    tls = {"cert": "/none.pem", "key": "/none.key", "clients": "any"}
    table = {"listen": "127.0.0.1:0", "protocol": "tls", "tls": tls}
    finding = _found(tmp_path, syslog=[table])["syslog[0].tls.cert"]
    assert not finding.ok
    assert finding.detail.startswith("/none.pem: ")
