"""Real logs the whole way: files, frames, segments, Spark, Delta table, and back to the same bytes
(R2, A1, A3).
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.support.installation import STREAM, Installation, command

pytestmark = [pytest.mark.process, pytest.mark.spark]


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates)
    yield installation
    installation.close()


def _logdrive(*arguments: str) -> bytes:
    done = subprocess.run(command(*arguments), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_files_rebuilt_from_the_table_are_the_files__R2_A3(
    system: Installation, real_logs: list[Path]
) -> None:
    from logdrive.pipeline.bronze.rebuild import source_pieces

    receiver = system.receiver()
    tls = [
        f"--{name}={system.tls / file}"
        for name, file in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
    ]
    _logdrive("agent", "ship", *map(str, real_logs), "--to", f"localhost:{system.port}", *tls)
    # the pipeline opens the store by itself where nobody serves it
    assert receiver.terminate() == 0
    tables = str(system.root / "tables")
    _logdrive(
        "pipeline", "run", "--from", f"file://{system.store}#{STREAM}", "--to", tables, "--once"
    )
    audit = orjson.loads(_logdrive("pipeline", "audit", tables, "--json"))

    contents = {path.name: path.read_bytes() for path in real_logs}
    rebuilt = {
        Path(source["path"]).name: list(source_pieces(tables, source["source"]))
        for source in audit["by_source"]
    }
    assert rebuilt == {name: [(0, content)] for name, content in contents.items()}
    assert audit["complete"]
    assert (audit["lost_bytes"], audit["duplicate_events"], audit["gaps"]) == (0, 0, [])
    assert audit["sources"] == len(contents)
    assert audit["bytes"] == sum(map(len, contents.values()))
    lines = sum(
        content.count(b"\n") + (not content.endswith(b"\n")) for content in contents.values()
    )
    assert audit["events"] == lines
