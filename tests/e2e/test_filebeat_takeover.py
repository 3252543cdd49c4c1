"""From Filebeat to the agent: no line comes twice, and none is missing.

Once with the real Filebeat, where it is built, and once with the registry that it left in that run,
which RECORD_FILEBEAT_REGISTRY=FILE writes anew.
"""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.importing.filebeat_registry import read_registry
from bench.peers import filebeat_build
from logdrive.errors import ConfigError
from tests.e2e.filebeat_history import (
    RECORDED,
    configuration,
    final_names,
    place_registry,
    record_registry,
    write_after_filebeat,
    write_while_filebeat_runs,
)
from tests.support.installation import Installation, Process, command

pytestmark = pytest.mark.process


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    opened = Installation(tmp_path, certificates)
    yield opened
    opened.close()


def configured(system: Installation) -> Path:
    """Write the filebeat.yml of the history, JSON being YAML."""
    path = system.root / "filebeat.yml"
    path.write_text(json.dumps(configuration(system.logs, system.port, system.tls)))
    path.chmod(0o600)
    return path


def take_over(system: Installation, receiver: Process, registry: Path) -> None:
    """Import configuration and registry, and let the agent send all that is left; end all."""
    target = system.root / "agent.toml"
    target.unlink()
    arguments = ["agent", "import", str(configured(system)), "--registry", str(registry)]
    arguments += ["--to", str(target), "--state-dir", str(system.state)]
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"names them: {system.logs}/copy.log.1;" in done.stderr
    text = target.read_text().replace('dialect = "lumberjack/2"\n', "")
    for name in ("copy.log", "only.log"):  # as `agent check` recommends
        text = text.replace(f'{name}"', f'{name}*"')
    target.write_text(text.replace("[agent]", '[agent]\nid = "test-agent"', 1))
    check = command("agent", "check", "--config", str(target))
    checked = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert "where another shipper stopped" in checked.stdout, checked.stdout
    agent = system.agent()
    paths = final_names(system.logs).values()
    system.await_acknowledged(sum(path.stat().st_size for path in paths))
    assert agent.terminate(60) == 0, agent.said()
    assert "drained" in agent.said()
    assert receiver.terminate() == 0, receiver.said()


def delivered_by_the_agent(system: Installation) -> list[str]:
    sources = system.ledger().sources.values()
    return [line for source in sources for line in source.data.decode().splitlines()]


def delivered_by_filebeat(system: Installation) -> list[str]:
    events = map(json.loads, system.ledger().foreign)
    return [line for event in events for line in event["message"].splitlines()]


def without_prefix(lines: list[str]) -> Counter[str]:
    """Count lines; of a container's only what it wrote, which is all that Filebeat sends."""
    return Counter(line.rpartition(" stdout F ")[2] for line in lines)


def is_read(logs: Path, registry: Path) -> bool:
    """Return whether Filebeat has acknowledged every whole line of the files that it knows."""
    try:
        positions = read_registry(str(registry))
    except (ConfigError, OSError):
        return False  # not there yet
    by_inode = {one.inode: one.offset for one in positions if one.inode}
    by_path = {one.path: one.offset for one in positions if not one.inode}
    unknown = {"copy.log.1"}
    return all(
        by_inode.get(path.stat().st_ino, by_path.get(str(path), 0)) == path.stat().st_size
        for name, path in final_names(logs).items()
        if name not in unknown
    )


def test_the_agent_goes_on_where_the_recorded_filebeat_stopped(system: Installation) -> None:
    receiver = system.receiver()
    write_while_filebeat_runs(system.logs, pause=lambda: None)
    registry = place_registry(RECORDED, system.logs, system.root / "registry")
    left = write_after_filebeat(system.logs)
    take_over(system, receiver, registry)
    assert without_prefix(delivered_by_the_agent(system)) == without_prefix(left)


def test_the_agent_goes_on_where_a_real_filebeat_stopped(system: Installation) -> None:
    if missing := filebeat_build.missing():
        pytest.skip(missing)  # in CI, too: it takes too long to build there
    receiver = system.receiver()
    home = system.root / "filebeat"
    arguments = [str(filebeat_build.BINARY), "run", "-e", "-c", str(configured(system))]
    arguments += ["--path.home", str(home), "--path.data", str(home / "data")]
    with (system.root / "filebeat.out").open("wb") as output:
        filebeat = subprocess.Popen(arguments, stdout=output, stderr=output)

    def pause() -> None:
        """Wait until Filebeat has delivered all whole lines."""
        deadline = time.monotonic() + 60
        while not is_read(system.logs, home / "data"):
            assert filebeat.poll() is None, (system.root / "filebeat.out").read_text()[-3000:]
            assert time.monotonic() < deadline, "Filebeat did not deliver"
            time.sleep(0.2)

    try:
        seen = write_while_filebeat_runs(system.logs, pause)
        filebeat.send_signal(signal.SIGTERM)
        filebeat.wait(60)
    finally:
        filebeat.kill()
        filebeat.wait()
    if recorded := os.environ.get("RECORD_FILEBEAT_REGISTRY"):
        record_registry(home / "data", system.logs, Path(recorded))
    left = write_after_filebeat(system.logs)
    take_over(system, receiver, home / "data")
    filebeats = delivered_by_filebeat(system)
    assert without_prefix(filebeats) == without_prefix(seen)
    assert without_prefix(delivered_by_the_agent(system)) == without_prefix(left)
