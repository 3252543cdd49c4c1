"""`logdrive pipeline publish`: what it says, how it ends, and what readers find then."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from logdrive.cli.main import cli
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.publish.bucket import Bucket
from logdrive.pipeline.tasks import check_stop
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.support.lake import Lake

LINES = 9


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Tables of one source."""
    segment = Segment()
    send(segment, "a", lines("a", 0, LINES))
    catch_up(tmp_path, segment)
    return str(tmp_path)


def publish(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", "publish", *arguments])


def test_the_copy_has_the_rows_of_bronze(directory: str, lake: Lake) -> None:
    to = (directory, lake.address, "--endpoint", lake.endpoint)
    planned = publish(*to, "--dry-run")
    assert "bronze/events, version 1: 1 files" in planned.output
    assert "would be written" in planned.output

    done = publish(*to, "--once", "--json")
    assert done.exit_code == 0, done.output
    tables = json.loads(done.stdout)["tables"]
    assert [(table["table"], table["files"]) for table in tables] == [
        ("bronze/batches", 1),
        ("bronze/events", 1),
    ]
    events, _ = open_tables(directory)
    columns = ["source", "start", "end", "message", "day"]
    there = DeltaTable(f"{lake.address}/bronze/events", storage_options=lake.options)
    copied = there.to_pyarrow_table(columns=columns)
    assert copied.num_rows == LINES
    assert copied.to_pylist() == events.read_rows(columns).to_pylist()

    again = publish(*to, "--once")
    assert "bronze/events, version 1: 0 files, 0 bytes, were written, 0 deleted" in again.output


@pytest.mark.process
def test_it_follows_the_tables_until_it_is_to_end(directory: str, lake: Lake) -> None:
    command = [sys.executable, "-m", "logdrive.cli.main", "pipeline", "publish", directory]
    where = [lake.address, "--endpoint", lake.endpoint, "--every", "1"]
    with subprocess.Popen([*command, *where], stdout=subprocess.PIPE, text=True) as running:
        try:
            deadline = time.monotonic() + 60
            while not DeltaTable.is_deltatable(f"{lake.address}/bronze/events", lake.options):
                assert running.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            running.send_signal(signal.SIGTERM)
            said, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0
    assert "bronze/events, version 1: 1 files" in said


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (("lake/logs",), "an address such as s3://bucket/logs"),
        (("s3://",), "an address such as s3://bucket/logs"),
        (("s3://Lake!/logs",), "an address such as s3://bucket/logs"),
        (("s3://lake//logs",), "an address such as s3://bucket/logs"),
        (("s3://lake", "--endpoint", "http://minio/path"), "a URL such as https://"),
        (("s3://lake", "--endpoint", "minio:9000"), "a URL such as https://"),
    ],
)
def test_an_address_that_is_none_is_refused(directory: str, to: tuple[str, ...], said: str) -> None:
    done = publish(directory, *to, "--once")
    assert done.exit_code != 0
    assert said in f"{done.output}{done.exception}"


@pytest.mark.parametrize("how", ["--once", "--dry-run"])
def test_a_bucket_that_is_missing_is_told_before_anything_is_done(
    directory: str, lake: Lake, how: str
) -> None:
    done = publish(directory, "s3://no-such-lake/logs", "--endpoint", lake.endpoint, how)
    assert done.exit_code != 0
    assert "there is no bucket no-such-lake: make it first" in f"{done.output}{done.exception}"


def test_a_copy_that_was_stopped_before_it_was_complete_is_no_success(
    directory: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_file(bucket: Bucket, name: str, path: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        check_stop()

    monkeypatch.setattr(Bucket, "put_file", put_file)
    done = publish(directory, lake.address, "--endpoint", lake.endpoint, "--once", "--json")
    assert json.loads(done.stdout)["complete"] is False
    assert done.exit_code != 0
    assert "run this again to go on" in f"{done.output}{done.exception}"


def test_without_tables_it_says_what_makes_some(tmp_path: Path, lake: Lake) -> None:
    done = publish(str(tmp_path), lake.address, "--endpoint", lake.endpoint, "--once")
    assert done.exit_code != 0
    assert "pipeline run" in f"{done.output}{done.exception}"


def test_erased_rows_are_in_no_object_of_the_copy(directory: str, lake: Lake) -> None:
    to = (directory, lake.address, "--endpoint", lake.endpoint, "--once")
    assert publish(*to).exit_code == 0
    erased = CliRunner().invoke(
        cli, ["pipeline", "erase", directory, "--where", '"end" < 30', "--why", "test", "--yes"]
    )
    assert erased.exit_code == 0, erased.output
    assert publish(*to).exit_code == 0
    events, _ = open_tables(directory)
    left = events.read_rows(["end"])["end"].to_pylist()
    assert 0 < len(left) < LINES

    rows: list[int] = []
    for name in lake.bucket.list_objects("bronze/events"):
        if name.endswith(".parquet") and not name.startswith("_"):
            data = lake.bucket.read_object(f"bronze/events/{name}")
            assert data is not None
            rows += pq.read_table(pa.BufferReader(data))["end"].to_pylist()
    assert sorted(rows) == sorted(left)
