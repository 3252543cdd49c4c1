"""A process that appends to a table and keeps it up is killed: all that it said is there, once."""

import subprocess
import sys
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from logdrive.pipeline.tables.open_table import open_table

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
WRITER = """
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from logdrive.pipeline.tables import join_files, upkeep
from logdrive.pipeline.tables.open_table import create_table
from logdrive.pipeline.tables.files import write_file

join_files.JOIN_FILES = upkeep.JOIN_FILES = 4
upkeep._CHECKPOINT_COMMITS = 7
schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
table = create_table(sys.argv[1], schema)
with ThreadPoolExecutor(1) as executor:
    work = upkeep.TableUpkeep(table, executor)
    for n in range(table.next_offset("s"), 100_000):
        file = write_file(table.path, pa.table({"n": [n]}, schema))
        table.add_files([file], {"s": (n, n + 1)})
        print(n, flush=True)
        work.after_commit()
"""


@pytest.mark.process
def test_after_a_kill_every_reader_sees_each_row_once(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    for kill in range(5):
        said = killed_after(place, 9 + 7 * kill)
        table = open_table(place, SCHEMA)
        end = table.next_offset("s")
        assert end in (said + 1, said + 2)  # the last commit may not have been said
        with_ours = table.read_rows(["n"])["n"].to_pylist()
        with_delta = DeltaTable(place).to_pyarrow_table()["n"].to_pylist()
        with_polars = polars.scan_delta(place).collect()["n"].to_list()
        rows = DeltaTable(place).to_pyarrow_dataset()
        with_duckdb = [n for (n,) in duckdb.from_arrow(rows).fetchall()]
        for numbers in (with_ours, with_delta, with_polars, with_duckdb):
            assert sorted(numbers) == list(range(end))


def killed_after(place: str, lines: int) -> int:
    """Let a writer say *lines* numbers, kill it, and return the last that it said."""
    command = [sys.executable, "-c", WRITER, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(lines)]
        writer.kill()
        return [*said, *map(int, writer.stdout)][-1]
