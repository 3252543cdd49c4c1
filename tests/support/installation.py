"""A whole logdrive on this machine: certificates, configurations, receiver, agent, judge.

The programs are processes; the judge reads what is stored at the end.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import orjson

from bench.processes import free_port
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.numbers import position_of
from logdrive.store.engine import Store
from tests.support.ledger import Ledger

STREAM = "test/logs"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "logdrive.cli.main", *arguments]


class Process:
    """One logdrive process whose output is kept for the failure message."""

    def __init__(self, name: str, arguments: list[str], log: Path, fault: str = "") -> None:
        self.name, self.log = name, log
        self._from = log.stat().st_size if log.exists() else 0
        environment = {**os.environ, "LOGDRIVE_FAULT": fault}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command(*arguments),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"the {self.name} still runs after {seconds} s:\n{self.said()}"
            ) from None

    def kill(self) -> None:
        if self.running():
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def terminate(self, seconds: float = 30) -> int:
        if self.running():
            self._process.terminate()
        return self.wait(seconds)

    def said(self) -> str:
        """Return the end of what this process wrote, and none of those before it."""
        return self.log.read_bytes()[self._from :].decode(errors="replace")[-6000:]


class Installation:
    """Everything below one directory. Processes started here are ended by `close`."""

    def __init__(
        self,
        root: Path,
        certificates: Path,
        *,
        receiver_extra: str = "",
        agent_extra: str = "",
        input_extra: str = "",
        stream: str = STREAM,
    ) -> None:
        self.root, self.tls = root, certificates
        self.logs, self.store, self.state = root / "logs", root / "store", root / "agent"
        self.logs.mkdir(parents=True)
        self.port = free_port()
        self._processes: list[Process] = []
        (root / "receiver.toml").write_text(
            f'[listen]\naddress = "127.0.0.1:{self.port}"\n\n'
            f'[listen.tls]\nca = "{certificates}/ca.pem"\ncert = '
            f'"{certificates}/server.pem"\nkey = "{certificates}/server.key"\n\n'
            f'[sink]\nuri = "file://{self.store}#{stream}"\n\n{receiver_extra}'
        )
        (root / "agent.toml").write_text(
            f'[agent]\nid = "test-agent"\nstate_dir = "{self.state}"\ndrain_seconds = 60\n\n'
            f'[[input]]\npaths = ["{self.logs}/*.log*"]\n{input_extra}\n\n'
            f'[output]\nhosts = ["127.0.0.1:{self.port}"]\n{agent_extra}\n\n'
            f'[output.tls]\nca = "{certificates}/ca.pem"\ncert = '
            f'"{certificates}/client.pem"\nkey = "{certificates}/client.key"\n'
            'server_name = "localhost"\n'
        )

    def receiver(self, fault: str = "") -> Process:
        """Start the receiver and wait until it listens."""
        process = self._start("receiver", fault)
        until = time.monotonic() + 20
        while time.monotonic() < until and process.running():
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return process
            time.sleep(0.02)
        if not process.running() and fault:
            return process  # killed where it was told to die, before it could listen
        raise AssertionError(f"the receiver does not listen:\n{process.said()}")

    def agent(self, fault: str = "") -> Process:
        """Start the agent and wait until it has looked at its files, so that it handles signals."""
        process = self._start("agent", fault)
        until = time.monotonic() + 20
        while (
            time.monotonic() < until and process.running() and "files found" not in process.said()
        ):
            time.sleep(0.02)
        return process

    def _start(self, name: str, fault: str) -> Process:
        process = Process(
            name,
            [name, "run", "--config", str(self.root / f"{name}.toml")],
            self.root / f"{name}.out",
            fault,
        )
        self._processes.append(process)
        return process

    def await_acknowledged(self, size: int) -> None:
        """Wait until *size* bytes of all files together are acknowledged in the checkpoint."""
        path, until, count = self.state / "checkpoint.json", time.monotonic() + 120, 0
        while count < size:
            assert time.monotonic() < until, f"{count} of {size} bytes"
            time.sleep(0.2)
            entries = orjson.loads(path.read_bytes())["entries"] if path.exists() else []
            count = sum(position_of(entry.get("number", 0)) for entry in entries)

    def forget_checkpoint(self) -> None:
        """Delete the agent's state, as a lost disk would."""
        for path in self.state.glob("*"):
            path.unlink()

    def ledger(self) -> Ledger:
        """Read the store; the receiver must have ended."""
        return Ledger.read(asyncio.run(read_segments(str(self.store))))

    def close(self) -> None:
        for process in self._processes:
            process.kill()


async def read_segments(path: str) -> list[bytes]:
    """Return every segment of the stream in a store that no process holds."""
    executor = ThreadExecutor("test-store")
    store = await Store.open(path, disk=SystemDisk(), executor=executor, clock=SystemClock())
    try:
        return [_whole(store, name) for name in store.segments(STREAM + "/")]
    finally:
        await store.close()
        executor.close()


def _whole(store: Store, name: str) -> bytes:
    info = store.info(name)
    assert info is not None
    parts, place = [], info.start
    while place < info.length:
        part = store.read(name, place, 1 << 20)
        assert part, f"nothing to read at {place} of {name}, length {info.length}"
        parts.append(part)
        place += len(part)
    return b"".join(parts)
