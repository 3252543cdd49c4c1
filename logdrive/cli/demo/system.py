"""The demo's processes: receiver, agent and pipeline, each the real command, started, killed and
ended by number.
"""

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
    """A part of the demo did not do what it should; the text ends with what that part said last."""


def logdrive(*arguments: str) -> list[str]:
    """Return the command line that runs this very installation."""
    return [sys.executable, "-m", "logdrive.cli.main", *arguments]


class Child:
    """One long-running process.

    What it says goes to *log*, where a failure quotes it from. *variables* are its alone.
    """

    def __init__(
        self, name: str, command: list[str], log: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self.name, self._command, self._log = name, command, log
        self._environment = {**os.environ, **(variables or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._from = 0
        self.starts = 0

    def start(self) -> None:
        """Start it, again after a kill."""
        with self._log.open("ab") as output:
            self._from = output.tell()
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=self._environment,
            )
        self.starts += 1

    def check(self) -> None:
        """Raise `DemoError` if it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise DemoError(
                f"the {self.name} ended with exit code {self._process.returncode}:\n{self.said()}"
            )

    def wait_until_it_says(self, words: str, seconds: float = 60) -> None:
        """Return once it has said *words* since it was started.

        Raises `DemoError` where it ends or takes too long.
        """
        until = time.monotonic() + seconds
        while words.encode() not in self._log.read_bytes()[self._from :]:
            self.check()
            if time.monotonic() > until:
                raise DemoError(
                    f"the {self.name} does not say {words!r} within {seconds:.0f} s:\n{self.said()}"
                )
            time.sleep(0.05)

    def said(self) -> str:
        """Return what it said last."""
        return tail(self._log)

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing flushed."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._process = None

    def drain(self, seconds: float) -> None:
        """SIGTERM, then wait for it to finish what it has. Raises `DemoError` where it does not."""
        assert self._process is not None, "drained before it was started"
        self._process.terminate()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DemoError(
                f"the {self.name} did not drain within {seconds:.0f} s:\n{self.said()}"
            ) from None
        if code:
            raise DemoError(f"the {self.name} drained with exit code {code}:\n{self.said()}")
        self._process = None


def run_step(
    name: str,
    command: list[str],
    log: Path,
    *,
    codes: tuple[int, ...] = (0,),
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """Run *command* to its end and return what it printed; *codes* are the exit codes that are no
    failure, *variables* its alone.
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
        raise DemoError(f"{name} ended with exit code {done.returncode}:\n{tail(log)}")
    return done.stdout


def tail(log: Path) -> str:
    """Return the last lines of *log*, and what an empty one may mean."""
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(lines) or f"it said nothing in {log}: is there room on that disk?"


def free_port() -> int:
    """Return a TCP port of the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, child: Child, seconds: float = 20) -> None:
    """Return once something listens on *port*.

    Raises `DemoError` where *child* ends or takes too long.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        child.check()
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise DemoError(
        f"the {child.name} does not listen on port {port} after {seconds:.0f} s:\n{child.said()}"
    )


def machine_logs(limit_bytes: int = 32 << 20) -> list[str]:
    """Return the real, readable logs of this machine, smallest first, up to *limit_bytes* in
    all.
    """
    found: list[tuple[int, str]] = []
    for directory, _, names in os.walk("/var/log"):
        for name in names:
            path = os.path.join(directory, name)
            if (
                name.endswith(".log")
                and os.path.isfile(path)
                and os.access(path, os.R_OK)
                and (size := os.path.getsize(path))
            ):
                found.append((size, path))
    chosen: list[str] = []
    for size, path in sorted(found):
        limit_bytes -= size
        if limit_bytes < 0:
            break
        chosen.append(path)
    return chosen
