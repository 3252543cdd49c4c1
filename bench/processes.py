"""Child processes and what they cost: wall clock, CPU seconds, and peak memory.

CPU seconds come from the kernel's own accounts.
"""

import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SAMPLE_SECONDS = 0.02
_GRACE_SECONDS = 10.0
_FIRST_PORT = 10_000  # below it are those of services


class BenchmarkError(Exception):
    """A benchmark could not be run, or its program did not do the work: there is no figure."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process took until it ended."""

    code: int  # exit code, negative for a signal
    ended: float  # on the clock of `time.monotonic`
    cpu_seconds: float
    peak_rss: int  # bytes


def peak_rss(pid: int) -> int:
    """Return the most bytes of memory that a process held so far (`VmHWM`), 0 once it has ended.

    Raises OSError.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def read_bytes(pid: int) -> int:
    """Return the bytes that a process has read so far, from files and sockets (`rchar`).

    Raises OSError.
    """
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))


class Child:
    """One process started here, and the only kind that is ever signalled here.

    Its standard error goes to *log*.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = os.path.basename(argv[0])
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(map(str, argv)),
                stdin=stdin,
                stdout=stdout,
                stderr=errors,
                env=dict(environment) if environment is not None else None,
            )
        self.pid = self._process.pid
        self._handle = os.pidfd_open(self.pid)
        self._peak = 0
        self.usage: Usage | None = None

    @property
    def output(self) -> IO[bytes]:
        """The read end of its standard output, where *stdout* was a pipe."""
        assert self._process.stdout is not None
        return self._process.stdout

    def cpu_seconds(self) -> float:
        """Return the user and system time of all threads so far, ended ones included.

        The process's CPU clock has a resolution of ns.
        """
        return (
            time.clock_gettime(~self.pid << 3 | 2) if self.usage is None else self.usage.cpu_seconds
        )

    def peak_rss(self) -> int:
        """Return the most bytes of memory held so far, as last seen (`VmHWM`)."""
        with contextlib.suppress(OSError):
            self._peak = max(self._peak, peak_rss(self.pid))
        return self._peak

    def poll(self) -> Usage | None:
        """Return the usage if the process has ended, else None."""
        return self.usage or self._reap(time.monotonic(), os.WNOHANG)

    def _reap(self, ended: float, flags: int) -> Usage | None:
        pid, status, used = os.wait4(self.pid, flags)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code  # it was waited for here, so that the usage is its own
        os.close(self._handle)
        self.usage = Usage(code, ended, used.ru_utime + used.ru_stime, self._peak)
        return self.usage

    def wait(self, seconds: float) -> Usage:
        """Return the usage once the process has ended. Raises `BenchmarkError` after *seconds*."""
        return wait_all([self], seconds)[0]

    def ask_to_end(self) -> None:
        """Send SIGTERM."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGTERM)

    def end(self) -> Usage:
        """Ask it to end, after ten seconds make it (SIGKILL); safe on a process that has ended."""
        if self.usage is None:
            self.ask_to_end()
            with contextlib.suppress(BenchmarkError):
                return self.wait(_GRACE_SECONDS)
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        return self.wait(_GRACE_SECONDS)

    def said(self) -> str:
        """Return the end of what it wrote to standard error."""
        return self.log.read_bytes()[-2000:].decode(errors="replace").strip()


def wait_all(children: Sequence[Child], seconds: float) -> list[Usage]:
    """Return the usages, in the same order, once all have ended; memory is sampled meanwhile.

    Raises `BenchmarkError` after *seconds*.
    """
    deadline = time.monotonic() + seconds
    poller = select.poll()
    running = {child._handle: child for child in children if child.usage is None}
    for handle in running:
        poller.register(handle, select.POLLIN)
    while running:
        for handle, _ in poller.poll(_SAMPLE_SECONDS * 1000):
            poller.unregister(handle)
            running.pop(handle)._reap(time.monotonic(), 0)
        for child in running.values():
            child.peak_rss()
        if running and time.monotonic() > deadline:
            words = "; ".join(
                f"{child.name}: {child.said() or 'it said nothing'}" for child in running.values()
            )
            raise BenchmarkError(f"not ended within {seconds:.0f} s: {words}")
    return [child.usage for child in children if child.usage is not None]


@contextlib.contextmanager
def family() -> Iterator[list[Child]]:
    """Yield a list for the children of one run; those left at its end are ended, the last first."""
    children: list[Child] = []
    try:
        yield children
    finally:
        for child in reversed(children):
            child.end()


def demand_success(children: Sequence[Child]) -> None:
    """Raise `BenchmarkError` for the first of *children* that failed, with its output."""
    for child in children:
        if child.usage is None or child.usage.code != 0:
            code = "still runs" if child.usage is None else f"ended with {child.usage.code}"
            raise BenchmarkError(f"{child.name} {code}: {child.said() or 'it said nothing'}")


def free_port() -> int:
    """Return a port of 127.0.0.1 that was free a moment ago.

    It is for servers that can't report the port that they were given. The kernel gives it to no
    connection meanwhile: one that asks for a port of those, again and again, until a server listens
    there, may be given that port itself, and be connected with itself.
    """
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return *count* ports as `free_port` does, no two of them the same."""
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # other processes choose, too, and tests seed the usual generator
    chosen = random.SystemRandom()
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            port = chosen.randrange(_FIRST_PORT, max(given, 2 * _FIRST_PORT))
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    return ports


def wait_for_listener(port: int, child: Child, seconds: float = 10.0) -> None:
    """Return once *child* listens on *port*, without connecting to it.

    Raises `BenchmarkError` where it ends or takes too long.
    """
    wanted = f" 0100007F:{port:04X} 00000000:0000 0A "
    deadline = time.monotonic() + seconds
    while not any(wanted in line for line in Path("/proc/net/tcp").read_text().splitlines()):
        if child.poll() is not None or time.monotonic() > deadline:
            raise BenchmarkError(
                f"{child.name} does not listen on port {port}: {child.said() or 'it said nothing'}"
            )
        time.sleep(0.02)
