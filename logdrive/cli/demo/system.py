"""The demo's processes: each runs the real `logdrive` command, and is ended by its pid."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from logdrive.errors import LogdriveError

_TAIL_LINES = 15


class DemoError(LogdriveError):
    """A step of the demo failed; the text ends with the last output of the process at fault."""


def logdrive_command(*arguments: str) -> list[str]:
    """Return the command line that runs `logdrive` from this installation."""
    return [sys.executable, "-m", "logdrive.cli.main", *arguments]


class DemoProcess:
    """One long-running process that can be killed and started again.

    Its output is appended to the file *log*, which errors quote. *variables* are added to its
    environment.
    """

    def __init__(
        self, name: str, command: list[str], log: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._command = command
        self._log = log
        self._environment = {**os.environ, **(variables or {})}
        self._process: subprocess.Popen[bytes] | None = None  # None: not running
        self._log_start = 0  # where the output since the last start begins in the log

    def start(self) -> None:
        """Start the process, for the first time or after `kill`."""
        with self._log.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=self._environment,
            )

    def raise_if_ended(self) -> None:
        """Raise `DemoError` if the process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise DemoError(
                f"the {self.name} ended with exit code {self._process.returncode}:\n"
                f"{self.last_output()}"
            )

    def wait_for_output(self, words: str, seconds: float = 60) -> None:
        """Wait until the process has printed *words* since its last start.

        Raises `DemoError` if it ends, or does not print them within *seconds*.
        """
        until = time.monotonic() + seconds
        while words.encode() not in self._log.read_bytes()[self._log_start :]:
            self.raise_if_ended()
            if time.monotonic() > until:
                raise DemoError(
                    f"the {self.name} did not print {words!r} within {seconds:.0f} s:\n"
                    f"{self.last_output()}"
                )
            time.sleep(0.05)

    def last_output(self) -> str:
        """Return the last lines of its output."""
        return last_lines(self._log)

    def kill(self) -> None:
        """End the process with SIGKILL, so that it can neither flush nor say goodbye."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._process = None

    def terminate(self, seconds: float) -> None:
        """Send SIGTERM and wait until the process has drained and ended.

        Raises `DemoError` if it takes longer than *seconds* or exits with a code other than 0.
        """
        assert self._process is not None, "terminated before it was started"
        self._process.terminate()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DemoError(
                f"the {self.name} did not drain within {seconds:.0f} s:\n{self.last_output()}"
            ) from None
        if code:
            raise DemoError(f"the {self.name} drained with exit code {code}:\n{self.last_output()}")
        self._process = None


def run_step(
    name: str,
    command: list[str],
    log: Path,
    *,
    codes: tuple[int, ...] = (0,),
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """Run *command* to its end and return its standard output.

    Standard error is appended to *log*; *variables* are added to its environment. Raises
    `DemoError` if the exit code is none of *codes*.
    """
    environment = {**os.environ, **(variables or {})}
    with log.open("ab") as errors:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            check=False,
            env=environment,
        )
    if done.returncode not in codes:
        raise DemoError(f"{name} ended with exit code {done.returncode}:\n{last_lines(log)}")
    return done.stdout


def last_lines(log: Path) -> str:
    """Return the last lines of *log*; for an empty one a hint at a full disk."""
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(lines) or f"it printed nothing to {log}: is there room on that disk?"


def free_port() -> int:
    """Return a TCP port that is free now on the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, child: DemoProcess, seconds: float = 20) -> None:
    """Wait until *child* listens on *port*.

    Raises `DemoError` if it ends, or does not listen within *seconds*.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        child.raise_if_ended()
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise DemoError(
        f"the {child.name} does not listen on port {port} after {seconds:.0f} s:\n"
        f"{child.last_output()}"
    )


def find_machine_logs(limit_bytes: int = 32 << 20) -> list[str]:
    """Return paths of readable logs in /var/log, smallest first, *limit_bytes* in total at most."""
    logs: list[tuple[int, str]] = []
    for directory, _, names in os.walk("/var/log"):
        for name in names:
            path = os.path.join(directory, name)
            if (
                name.endswith(".log")
                and os.path.isfile(path)
                and os.access(path, os.R_OK)
                and (size := os.path.getsize(path))
            ):
                logs.append((size, path))
    chosen: list[str] = []
    for size, path in sorted(logs):
        limit_bytes -= size
        if limit_bytes < 0:  # the smallest first: what follows is no smaller
            break
        chosen.append(path)
    return chosen
