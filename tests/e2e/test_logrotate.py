"""Debian's logrotate and a writing application, in each of the ways that it rotates: every line
arrives once, and the audit says so (rules G1, G5, A3).
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pytest

from tests.conftest import need_program
from tests.support.installation import STREAM, Installation, command
from tests.support.log_writer import line, pause_mark

pytestmark = [pytest.mark.process, pytest.mark.spark]

_REOPEN: Final = "postrotate\nkill -HUP {pid}\nendscript"
_PAUSE: Final = (
    "prerotate\nkill -USR1 {pid}\nwhile [ ! -e {paused} ]; do sleep 0.01; done\nendscript\n"
    "postrotate\nkill -USR2 {pid}\nendscript"
)
"""Lines that are written between the copy and the truncation are lost to everyone: logrotate's
manual says so. The application keeps still meanwhile.
"""

WAYS: Final = {
    "create": f"create\nnocompress\n{_REOPEN}",
    "compress": f"create\ncompress\n{_REOPEN}",
    "delaycompress": f"create\ncompress\ndelaycompress\n{_REOPEN}",
    "dateext": f"create\ndateext\ndateformat -%Y%m%d-%s\ncompress\ndelaycompress\n{_REOPEN}",
    "maxsize": f"create\nmonthly\nmaxsize 30k\n{_REOPEN}",
    "copytruncate": f"copytruncate\nnocompress\n{_PAUSE}",
    "copytruncate_delayed": f"copytruncate\ncompress\ndelaycompress\n{_PAUSE}",
    "copytruncate_compressed": f"copytruncate\ncompress\n{_PAUSE}",
    "few": f"create\nrotate 2\n{_REOPEN}",
}
"""What stands in logrotate's configuration, by the name of the application."""

ROTATIONS: Final = 4
SECONDS_BETWEEN: Final = 1.1
"""A rotated name of `dateext` has the second."""


class Application:
    """A writing application with its log, and logrotate's configuration of it."""

    def __init__(self, system: Installation, name: str) -> None:
        self.name, self._log = name, system.logs / f"{name}.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.log_writer", str(self._log)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        paused = pause_mark(self._log)
        own = WAYS[name].format(pid=self._process.pid, paused=paused)
        self._config = system.root / f"{name}.conf"
        self._config.write_text(f"{self._log} {{\nrotate 20\nmissingok\n{own}\n}}\n")
        self._config.chmod(0o644)
        self._state = system.root / f"{name}.status"

    def rotate(self) -> None:
        """Run logrotate as its timer does."""
        force = [] if self.name == "maxsize" else ["--force"]
        done = subprocess.run(
            ["logrotate", *force, "--state", str(self._state), str(self._config)],
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    def end(self) -> list[bytes]:
        """End it, and return the lines that it wrote."""
        self._process.terminate()
        out, _ = self._process.communicate(timeout=30)
        return [line(self.name, number) for number in range(int(out))]

    def kill(self) -> None:
        """End it whatever happened."""
        self._process.kill()
        self._process.wait()


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    need_program("logrotate")
    tmp_path.chmod(0o755)  # logrotate works in no directory that others may write to
    installation = Installation(tmp_path, certificates)
    yield installation
    installation.close()


@pytest.fixture
def applications(system: Installation) -> Iterator[list[Application]]:
    started = [Application(system, name) for name in WAYS]
    yield started
    for application in started:
        application.kill()


def test_however_logrotate_rotates_every_line_arrives_once_and_the_audit_says_so__G1_G5_A3(
    system: Installation, applications: list[Application]
) -> None:
    receiver, agent = system.receiver(), system.agent()
    for _ in range(ROTATIONS):
        time.sleep(SECONDS_BETWEEN)
        for application in applications:
            application.rotate()
    written = [each for application in applications for each in application.end()]
    for name in WAYS:
        assert list(system.logs.glob(f"{name}.log?*")), f"{name} was not rotated"
    assert len(list(system.logs.glob("few.log?*"))) == 2
    for name in ("compress", "copytruncate_compressed"):
        assert list(system.logs.glob(f"{name}.log*.gz"))

    assert agent.terminate(90) == 0, agent.said()
    assert receiver.terminate() == 0, receiver.said()
    arrived = Counter(
        each
        for delivered in system.ledger().sources.values()
        for each in delivered.data.splitlines(keepends=True)
    )
    expected = Counter(written)
    assert not expected - arrived, f"{(expected - arrived).total()} lines are lost"
    assert not arrived - expected, f"{(arrived - expected).total()} lines are doubled or damaged"
    _write_tables_and_audit(system)


def _write_tables_and_audit(system: Installation) -> None:
    tables, uri = str(system.root / "tables"), f"file://{system.store}#{STREAM}"
    _logdrive("pipeline", "run", "--from", uri, "--to", tables, "--once")
    audit = orjson.loads(_logdrive("pipeline", "audit", tables, "--json"))
    assert audit["complete"], audit


def _logdrive(*arguments: str) -> bytes:
    done = subprocess.run(command(*arguments), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
