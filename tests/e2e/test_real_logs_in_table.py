"""Real logs the whole way: files, frames, segments, bronze and silver, and back to the same bytes
(R2, A1, A3).
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from bench.tables.silver_shares import count_rows, read_formats
from logdrive.pipeline.silver.balance import SourceBalance, silver_balance
from logdrive.pipeline.silver.schema import QUARANTINE
from tests.logdrive.pipeline.formats.test_real_logs import FORMAT_OF
from tests.support.installation import STREAM, Installation, command
from tests.support.table_files import bronze_rows, rebuild_files, rows_in_silver

pytestmark = pytest.mark.process

TABLE_OF = dict.fromkeys(FORMAT_OF, "application") | {
    "Linux": "syslog",
    "OpenSSH": "syslog",
    "apache-access": "access",
}
"""The silver table of each file."""


@dataclass(frozen=True)
class Filled:
    """Tables into which the files were sent, and what the audit says of them."""

    tables: str
    audit: dict[str, Any]
    contents: dict[str, bytes]  # of the files, by path

    def lines(self, path: str) -> int:
        """Return how many lines a file has, as counted without the pipeline."""
        content = self.contents[path]
        return content.count(b"\n") + (not content.endswith(b"\n"))

    def path(self, stem: str) -> str:
        (path,) = (path for path in self.contents if Path(path).stem == stem)
        return path


def _logdrive(*arguments: str) -> bytes:
    done = subprocess.run(command(*arguments), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def filled(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path, real_logs: list[Path]
) -> Filled:
    """All files, whole, in bronze and silver."""
    system = Installation(tmp_path_factory.mktemp("real"), certificates)
    try:
        receiver = system.receiver()
        tls = [
            f"--{name}={system.tls / file}"
            for name, file in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
        ]
        _logdrive("agent", "ship", *map(str, real_logs), "--to", f"localhost:{system.port}", *tls)
        # the pipeline opens the store by itself where nobody serves it
        assert receiver.terminate() == 0
    finally:
        system.close()
    tables, stream = str(system.root / "tables"), f"file://{system.store}#{STREAM}"
    _logdrive("pipeline", "run", "--from", stream, "--to", tables, "--once", "--silver")
    audit = orjson.loads(_logdrive("pipeline", "audit", tables, "--json"))
    return Filled(tables, audit, {str(path): path.read_bytes() for path in real_logs})


def test_files_rebuilt_from_the_tables_are_the_files__R2_A3(filled: Filled) -> None:
    audit, contents = filled.audit, filled.contents
    path_of = {source["source"]: source["path"] for source in audit["by_source"]}
    for rows in (bronze_rows(filled.tables), rows_in_silver(filled.tables)):
        rebuilt = {path_of[source]: pieces for source, pieces in rebuild_files(rows).items()}
        assert rebuilt == {path: [(0, content)] for path, content in contents.items()}
    assert audit["complete"]
    assert (audit["lost_bytes"], audit["duplicate_events"], audit["gaps"]) == (0, 0, [])
    assert audit["sources"] == len(contents)
    assert audit["bytes"] == sum(map(len, contents.values()))
    assert audit["events"] == sum(map(filled.lines, contents))


def test_each_real_log_has_a_format(filled: Filled) -> None:
    assert {Path(path).stem for path in filled.contents} == FORMAT_OF.keys()
    formats = read_formats(filled.tables)
    assert {Path(path).stem: name for path, name in formats.items()} == FORMAT_OF


@pytest.mark.parametrize("stem", FORMAT_OF)
def test_at_least_99_lines_of_100_are_in_the_table_of_their_format_all_others_in_quarantine__A1(
    filled: Filled, stem: str
) -> None:
    path, table = filled.path(stem), TABLE_OF[stem]
    lines, rows = filled.lines(path), count_rows(filled.tables)[path]
    assert rows.keys() <= {table, QUARANTINE}
    assert rows[table] >= 0.99 * lines
    assert rows.total() == lines

    balance = silver_balance(filled.tables)
    assert balance is not None
    assert balance.waiting == 0
    source = next(one for one in filled.audit["by_source"] if one["path"] == path)["source"]
    counted = SourceBalance(source, lines, rows[table], rows[QUARANTINE], 0)
    assert [one for one in balance.sources if one.source == source] == [counted]
    assert not counted.missing


def test_what_is_in_quarantine_has_a_reason_and_the_lines_own_text(filled: Filled) -> None:
    rows = DeltaTable(f"{filled.tables}/silver/{QUARANTINE}").to_pyarrow_table().to_pylist()
    assert len(rows) == sum(counts[QUARANTINE] for counts in count_rows(filled.tables).values())
    for row in rows:
        assert row["format"] == FORMAT_OF[Path(row["path"]).stem]
        assert row["reason"]
        line = filled.contents[row["path"]][row["start"] : row["end"]]
        assert row["message"] == line.decode(errors="replace").rstrip("\r\n")
