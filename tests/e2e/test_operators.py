"""What operators do with sources, from the command line to the audit's verdict (rule A4)."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from agent.control.client import ask_agent
from agent.control.messages import StatusRequest
from tests.support.installation import STREAM, Installation, command

pytestmark = pytest.mark.process

_LINES = b"".join(b"line %06d\n" % number for number in range(1000))


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates)
    yield installation
    installation.close()


def _logdrive(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        command(*arguments), capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == code, said
    return said


def _await_settled(system: Installation, sources: int) -> None:
    until = time.monotonic() + 60
    while True:
        told = ask_agent(str(system.state / "control.sock"), StatusRequest()).status
        assert told is not None
        if told.living == sources and not told.lag_bytes:
            return
        assert time.monotonic() < until, told
        time.sleep(0.2)


def test_the_audit_tells_a_resend_from_a_duplicate_and_a_skip_from_a_loss__A4_A3(
    system: Installation,
) -> None:
    config = str(system.root / "agent.toml")
    source = ("agent", "source")
    again, skipped = system.logs / "again.log", system.logs / "skipped.log"
    again.write_bytes(_LINES)
    skipped.write_bytes(_LINES)
    receiver, agent = system.receiver(), system.agent()
    system.await_acknowledged(2 * len(_LINES))
    assert "no source has this path" in _logdrive(
        *source, "resend", "/no.log", "--config", config, code=1
    )

    # a resend: shown, refused without a terminal, then done
    said = _logdrive(*source, "resend", str(again), "--config", config, "--dry-run")
    assert "is sent again from its beginning, 12,000 bytes so far" in said
    said = _logdrive(*source, "resend", str(again), "--config", config, code=2)
    assert "--yes" in said
    said = _logdrive(*source, "resend", str(again), "--config", config, "--yes")
    assert "done: resend of" in said
    _await_settled(system, 2)

    # a skip, of what no receiver takes
    receiver.kill()
    with skipped.open("ab") as file:
        file.write(_LINES)
    time.sleep(1)
    socket = str(system.state / "control.sock")
    table = _logdrive("agent", "status", "--socket", socket, "--behind")
    assert "skipped.log" in table
    assert "not connected" in table
    said = _logdrive(*source, "skip", str(skipped), "--socket", socket, "--yes")
    assert "12,000 bytes of" in said
    receiver = system.receiver()
    with skipped.open("ab") as file:
        file.write(b"after it\n")
    _await_settled(system, 2)
    listed = _logdrive(*source, "list", "--config", config, "--all")
    assert sorted(line.split()[1] for line in listed.splitlines()) == ["ended", "open", "open"]

    assert agent.terminate() == 0, agent.said()
    assert receiver.terminate() == 0, receiver.said()
    assert "no agent runs here" in _logdrive("agent", "status", "--config", config, code=1)
    assert not (system.state / "control.sock").exists()

    tables, uri = str(system.root / "tables"), f"file://{system.store}#{STREAM}"
    _logdrive("pipeline", "run", "--from", uri, "--to", tables, "--once")
    audit = orjson.loads(_logdrive("pipeline", "audit", tables, "--json"))
    assert (audit["complete"], audit["lost_bytes"], audit["duplicate_events"]) == (True, 0, 0)
    assert [(gap["start"], gap["end"], gap["reason"]) for gap in audit["gaps"]] == [
        (12_000, 24_000, "skipped")
    ]
    ended = {
        one["ended"]: (one["lines"], one["resend"])
        for one in audit["by_source"]
        if one["path"] == str(again)
    }
    assert ended == {"resent": (1000, False), None: (1000, True)}
    verdict = _logdrive("pipeline", "audit", tables)
    assert "1 source sent again on purpose" in verdict
    assert "12,000 bytes of 1 file skipped on purpose" in verdict
