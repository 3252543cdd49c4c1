"""The journal as systemd's own programs write and read it, to a store."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.conftest import unavailable
from tests.support.installation import Installation

pytestmark = pytest.mark.process

REMOTE = "/lib/systemd/systemd-journal-remote"
BOOTS = ("a" * 32, "b" * 32)


def exported(number: int, boot: str) -> bytes:
    """Return an entry as systemd-journal-remote takes it; each third one has several lines."""
    head = (
        b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%b\nPRIORITY=6\n"
        b"_SYSTEMD_UNIT=app.service\n"
    ) % (1_700_000_000_000_000 + number * 1000, number * 1000, boot.encode())
    message = b"entry %d\nof two lines \xff" % number if number % 3 == 0 else b"entry %d" % number
    return head + b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n\n"


class Journal:
    """A directory of journal files."""

    def __init__(self, root: Path) -> None:
        if not Path(REMOTE).exists() or shutil.which("journalctl") is None:
            unavailable("no systemd-journal-remote, or no journalctl, on this machine")
        self.directory = root / "journal"
        self.directory.mkdir()

    def add(self, file: str, start: int, count: int, boot: str) -> None:
        text = b"".join(exported(number, boot) for number in range(start, start + count))
        subprocess.run(
            [REMOTE, "-o", str(self.directory / f"{file}.journal"), "-"],
            input=text,
            check=True,
            capture_output=True,
            timeout=30,
        )


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    tables = f'[journald]\ndirectory = "{tmp_path}/journal"\n'
    installation = Installation(tmp_path, certificates, agent_extra=tables)
    yield installation
    installation.close()


def test_journalctl_is_read_over_rotation_a_crash_and_its_own_death(
    system: Installation, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    journal.add("one", 1, 300, BOOTS[0])
    receiver, agent = system.receiver(), system.agent()
    system.await_acknowledged(301)
    agent.kill()
    # more comes while no agent runs, and another boot
    journal.add("one", 301, 100, BOOTS[0])
    journal.add("one", 401, 100, BOOTS[1])
    agent = system.agent()
    system.await_acknowledged(401 + 501)
    # its reader dies
    children = subprocess.run(
        ["pgrep", "-P", str(agent.pid), "journalctl"], capture_output=True, check=True, timeout=10
    )
    for pid in children.stdout.split():
        subprocess.run(["kill", "-KILL", pid.decode()], check=True, timeout=10)
    time.sleep(0.5)
    journal.add("one", 501, 50, BOOTS[1])
    system.await_acknowledged(401 + 551)

    assert agent.terminate(60) == 0, agent.said()
    assert receiver.terminate() == 0
    assert "journalctl ended" in agent.said()
    ledger = system.ledger()
    found = {source.path: source for source in ledger.sources.values()}
    for boot, start, end in ((BOOTS[0], 1, 401), (BOOTS[1], 401, 551)):
        source = found[f"journald:{boot}"]
        assert [at for at, _ in source.pieces] == list(range(start, end))
        assert source.data == b"".join(
            b"entry %d\nof two lines \xff\n" % n if n % 3 == 0 else b"entry %d\n" % n
            for n in range(start, end)
        )
        assert source.gaps == [(0, start, "not_wanted")]
    assert orjson.loads((system.state / "checkpoint.json").read_bytes())["entries"]
