"""`demo --sink iggy`: complete through kills, on a store of ours that serves Iggy's protocol, and
on real Iggy servers where they are at hand.
"""

import contextlib
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.support.iggy.servers import DURABLE, ServerRevision, iggy_server
from tests.support.installation import command

pytestmark = pytest.mark.process


@pytest.mark.spark
@pytest.mark.parametrize("service", ["ours", "R0", "R1"])
def test_the_demo_over_iggy_is_complete(tmp_path: Path, service: str) -> None:
    with contextlib.ExitStack() as stack:
        sink, kills = "iggy", 3
        if service != "ours":
            revision: ServerRevision = "R0" if service == "R0" else "R1"
            server = stack.enter_context(iggy_server(revision, tmp_path / "iggy", DURABLE))
            sink, kills = f"iggy://iggy:iggy@127.0.0.1:{server.port}/demo/logs", 2
        work = tmp_path / "work"
        options = ("--lines", "6000", "--no-system-logs", "--work", str(work), "--json")
        done = subprocess.run(
            command("demo", *options, "--sink", sink), capture_output=True, timeout=240, check=False
        )
        logs = [log.read_text()[-2000:] for log in work.glob("*.log")]
        assert done.returncode == 0, "\n".join((done.stderr.decode(), *logs))
        found = orjson.loads(done.stdout)
    assert (found["complete"], found["lost"], found["doubled"]) == (True, 0, 0)
    assert (found["table_lines"], found["kills"]) == (6000, kills)
    configured = "".join(path.read_text() for path in work.glob("*.toml"))
    assert "iggy:iggy@" not in configured


@pytest.mark.parametrize(
    "sink", ["iggy://logs.example.com/demo/logs", "iggy://me:secret@127.0.0.1/demo", "igy"]
)
def test_the_demo_over_iggy_needs_a_service_on_this_machine(sink: str) -> None:
    done = subprocess.run(
        command("demo", "--sink", sink), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert b"--sink" in done.stderr
    assert b"secret" not in done.stderr
