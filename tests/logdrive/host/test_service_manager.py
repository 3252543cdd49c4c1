"""Messages to the service manager, as they arrive at its socket (sd_notify)."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdrive.host.service_manager import ServiceManager


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """A socket that stands for the manager's, and what NOTIFY_SOCKET says of it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@logdrive-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name[1:] if name.startswith("@") else name)
        listening.settimeout(5)
        yield name, listening


def test_each_message_is_one_datagram(manager: tuple[str, socket.socket]) -> None:
    name, listening = manager
    environ = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2500000", "WATCHDOG_PID": str(os.getpid())}
    ours = ServiceManager.from_environment(environ)
    assert (ours.is_there, ours.watchdog_seconds) == (True, 2.5)
    ours.ready()
    assert listening.recv(4096) == b"READY=1"
    ours.stopping()
    assert listening.recv(4096) == b"STOPPING=1"
    ours.ping()
    assert listening.recv(4096) == b"WATCHDOG=1"
    ours.extend_timeout(1.5)
    assert listening.recv(4096) == b"EXTEND_TIMEOUT_USEC=1500000"
    ours.show_status("one\nREADY=1 " + "x" * 1000)
    told = listening.recv(4096)
    assert told.startswith(b"STATUS=one READY=1 xxx")
    assert (b"\n" in told, len(told)) == (False, 507)

    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    ours.reloading()
    first, second = listening.recv(4096).decode().split("\n")
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert first == "RELOADING=1"
    assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= after


def test_a_watchdog_of_another_process_is_not_ours() -> None:
    for environ in ({"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {}):
        assert ServiceManager.from_environment(environ).watchdog_seconds == 0.0


def test_a_manager_that_is_gone_or_busy_holds_nobody_up(tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "nobody")).ready()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as busy:
        busy.bind(str(tmp_path / "busy"))
        ours = ServiceManager(str(tmp_path / "busy"), 1.0)
        for _ in range(10_000):  # more than any queue takes
            ours.ping()
