"""SIGKILL of an agent that spools, at the store's own fault points: nothing comes twice, and only
what was being read is lost.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.installation import Installation

pytestmark = pytest.mark.process

READ_BYTES = 512 * 1024
"""What an agent reads of a pipe at once, at most."""


class Pipe:
    """A named pipe that its writer keeps open over the agent's death."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.written = 0

    def write(self, count: int) -> None:
        """Write about *count* lines; fewer where the pipe is full."""
        data = b"".join(b"%07d\n" % n for n in range(self.written, self.written + count))
        with contextlib.suppress(BlockingIOError):
            self.written += os.write(self._descriptor, data[:4096]) // 8

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[tuple[Installation, Pipe]]:
    pipe = Pipe(tmp_path / "pipe")
    tables = f'[[pipe]]\npath = "{tmp_path}/pipe"\n'
    installation = Installation(tmp_path, certificates, agent_extra=tables)
    yield installation, pipe
    installation.close()
    pipe.close()


@pytest.mark.parametrize(
    "point",
    ["store.commit.before_write", "store.commit.after_write", "store.commit.after_sync"],
)
def test_an_agent_killed_while_it_spools_sends_each_line_once(
    system: tuple[Installation, Pipe], point: str
) -> None:
    installation, pipe = system
    receiver, agent = installation.receiver(), installation.agent(fault=f"{point}:12")
    deadline = time.monotonic() + 120
    while agent.running() and time.monotonic() < deadline:
        pipe.write(500)
        time.sleep(0.001)  # a busy machine runs the agent now and then
    assert agent.wait(20) == -9, f"{point} was never reached:\n{agent.said()}"
    killed_at = pipe.written
    pipe.write(500)
    agent = installation.agent()
    assert agent.terminate(60) == 0, agent.said()
    assert receiver.terminate() == 0

    (source,) = installation.ledger().sources.values()
    came = [int(line) for line in source.data.split()]
    assert came == sorted(set(came)), "a line came twice, or out of order"
    lost = sorted(set(range(pipe.written)) - set(came))
    assert lost == list(range(lost[0], lost[-1] + 1)) if lost else True
    assert len(lost) * 8 <= READ_BYTES
    assert not lost or lost[-1] < killed_at
    assert came[-1] == pipe.written - 1
