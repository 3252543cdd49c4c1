"""A real s2-lite, `s2 lite`, in a network namespace of its own, behind a port on loopback.

s2-lite listens on all addresses of its machine and has no option for another. So it runs in a
namespace, and a relay, whose listening socket is of the outside, hands connections in.

    with s2_lite(directory) as lite:
        S2Address("127.0.0.1", lite.port, …)
        lite.kill()   # SIGKILL
        lite.start()  # on the same directory
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.s2.cli_build import BINARY
from tests.support.s2.lite_relay import PORT

_RELAY = Path(__file__).with_name("lite_relay.py")
_START_SECONDS = 20
_CLONE_NEWNET = 0x40000000


def why_no_s2_lite() -> str:
    """Return why there can be no real s2-lite here, "" if there can."""
    if not BINARY.exists():
        return f"no s2-lite: `make peers` builds {BINARY}"
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-n", "true"], check=False).returncode:
        return "no network namespaces here, and s2-lite listens on all addresses"
    return ""


class S2Lite:
    """The relay, and the server behind it."""

    def __init__(self, directory: Path) -> None:
        self._relay = subprocess.Popen(
            [sys.executable, str(_RELAY), str(BINARY), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._read())

    def _read(self) -> str:
        assert self._relay.stdout is not None
        line = self._relay.stdout.readline()
        assert line, "the relay has ended"
        return line.strip()

    def _ask(self, command: str) -> str:
        assert self._relay.stdin is not None
        self._relay.stdin.write(command + "\n")
        self._relay.stdin.flush()
        return self._read()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._ask("start")

    @property
    def pid(self) -> int:
        """The server's process."""
        return int(self._ask("pid"))

    def connect_inside(self) -> socket.socket:
        """Return a connection to the server itself, past the relay, which costs time."""
        with _namespace_of(self.pid):
            return socket.create_connection(("127.0.0.1", PORT))

    def kill(self) -> None:
        """End the server with SIGKILL; connections are reset."""
        os.kill(self.pid, signal.SIGKILL)
        self._ask("wait")

    def close(self) -> None:
        """End relay and server."""
        assert self._relay.stdin is not None
        self._relay.stdin.close()
        self._relay.wait(_START_SECONDS)
        assert self._relay.stdout is not None
        self._relay.stdout.close()


@contextlib.contextmanager
def _namespace_of(pid: int) -> Iterator[None]:
    """Let this thread make its sockets in the network namespace of a process."""
    with open("/proc/thread-self/ns/net") as own, open(f"/proc/{pid}/ns/net") as other:
        _enter(other.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def s2_lite(directory: Path) -> Iterator[S2Lite]:
    """Run s2-lite with its data in *directory*."""
    lite = S2Lite(directory)
    try:
        lite.start()
        yield lite
    finally:
        lite.close()
