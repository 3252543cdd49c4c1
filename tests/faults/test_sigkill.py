"""SIGKILL anywhere, then a restart: nothing lost, nothing doubled (D2, D3, D4, P1, G3).

Real processes, real TLS, a real disk. The judge reads the segments afterwards and finds every byte
of every file once.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logdrive.host import faults
from tests.support.installation import Installation, Process

pytestmark = pytest.mark.process

_SMALL_STORE = "log_file_bytes = 1048576\n"


class Writer:
    """An application with three rotating logs; remembers what it wrote."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._directory, self._random = directory, random.Random(seed)
        self.files: dict[str, list[bytes]] = {}
        self._lives = dict.fromkeys(("web", "db", "auth"), 0)
        self._number = 0

    def write(self, lines: int) -> None:
        """Append about *lines* lines, now and then rotating by rename and create."""
        while lines > 0:
            name = self._random.choice(list(self._lives))
            # a life of one line might be another after a restart: that is told (ADR 16)
            burst = self._random.randrange(2, 200)
            path = self._directory / f"{name}.log"
            if self._random.random() < 0.05 and path.exists():
                path.rename(self._directory / f"{name}.log.{self._lives[name]}")
                self._lives[name] += 1
            data = b"".join(self._line(name) for _ in range(burst))
            with path.open("ab") as file:
                file.write(data)
            self.files.setdefault(f"{name}-{self._lives[name]}", []).append(data)
            lines -= burst

    def _line(self, name: str) -> bytes:
        self._number += 1
        return f"{self._number} {name} {'x' * self._random.randrange(200)}\n".encode()

    def contents(self) -> set[bytes]:
        return {b"".join(parts) for parts in self.files.values()}


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates, receiver_extra=_SMALL_STORE)
    yield installation
    installation.close()


def _settle(system: Installation, writer: Writer, receiver: Process, agent: Process) -> None:
    """Let everything arrive, end both processes, and judge."""
    assert agent.terminate(90) == 0, agent.said()
    assert receiver.terminate() == 0, receiver.said()
    ledger = system.ledger()
    assert set(ledger.by_data()) == writer.contents()
    assert len(ledger.sources) == len(writer.contents()), "a file was delivered under two names"


def runs_until_killed(process: Process, write: Callable[[], None]) -> None:
    """Keep the lines coming until *process* has reached its fault point."""
    until = time.monotonic() + 25
    while process.running() and time.monotonic() < until:
        write()
        time.sleep(0.05)


@pytest.mark.parametrize("forget", [False, True], ids=["checkpoint kept", "checkpoint deleted"])
@pytest.mark.parametrize("point", [point for point in faults.POINTS if point.startswith("agent.")])
def test_agent_killed_at_a_fault_point__D3_D4_G3(
    system: Installation, point: str, forget: bool
) -> None:
    writer = Writer(system.logs, 1)
    writer.write(2000)
    receiver, agent = system.receiver(), system.agent(fault=f"{point}:2")
    runs_until_killed(agent, lambda: writer.write(300))
    assert agent.wait(1) == -9, f"{point} was never reached:\n{agent.said()}"
    writer.write(500)
    if forget:
        system.forget_checkpoint()
    _settle(system, writer, receiver, system.agent())


_ELSEWHERE = ("store.free.", "store.pages.", "store.index.after_rename")
_RECEIVERS = [
    point
    for point in faults.POINTS
    if point.startswith(("receiver.", "store.")) and not point.startswith(_ELSEWHERE)
]
"""A receiver frees nothing here; test_retention.py and tests/logdrive/store/test_kill.py kill some
that do, and that page their index.
"""


@pytest.mark.parametrize("point", _RECEIVERS)
def test_receiver_killed_at_a_fault_point__D2_D3(system: Installation, point: str) -> None:
    writer = Writer(system.logs, 2)
    writer.write(2000)
    receiver, agent = system.receiver(fault=f"{point}:2"), system.agent()
    runs_until_killed(receiver, lambda: writer.write(600))
    if receiver.running():  # some points are passed only on the way out
        receiver.terminate()
    assert receiver.wait(1) == -9, f"{point} was never reached:\n{receiver.said()}"
    writer.write(500)
    _settle(system, writer, system.receiver(), agent)


def test_twenty_random_kills_of_agent_and_receiver__D2_D3_P1(system: Installation) -> None:
    pick = random.Random(20)
    writer = Writer(system.logs, 3)
    receiver, agent = system.receiver(), system.agent()
    for kill in range(20):
        until = time.monotonic() + pick.uniform(0.2, 1.5)
        while time.monotonic() < until:
            writer.write(400)
            time.sleep(0.03)
        if pick.random() < 0.5:
            receiver.kill()
            writer.write(200)
            receiver = system.receiver()
        else:
            agent.kill()
            writer.write(200)
            if kill % 5 == 4:
                system.forget_checkpoint()
            agent = system.agent()
    _settle(system, writer, receiver, agent)
