"""`pipeline run` on a standalone cluster, by `--master` and by spark-submit: each line once, though
a worker is lost.

Real processes: a store, a master, two workers of one core with a gigabyte each, a driver.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.spark.java import find_java_home
from tests.logdrive.pipeline.segments import STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.storing import store
from tests.support.installation import Process
from tests.support.spark_cluster import SparkCluster
from tests.support.store_process import StoreProcess

SOURCES = 2
PACKS = 12
LINES = 20_000  # of a pack

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.process]


def segments() -> list[Segment]:
    """One segment a source, of packs; some micro-batches of a megabyte."""
    made = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(SOURCES)]
    for number, segment in enumerate(made):
        at = 0
        for pack in range(PACKS):
            at = segment.packed(f"s{number}", lines(f"s{number}", pack * LINES, LINES), at)
    return made


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a stream with those segments, served by a process of its own."""
    served = StoreProcess(tmp_path_factory.mktemp("served"), "listen.s2", lambda _: True)
    store(Path(served.store), *segments())
    with served:
        until = time.monotonic() + 30
        while not listens(served.pravega_port) and time.monotonic() < until:
            time.sleep(0.05)
        yield f"pravega://127.0.0.1:{served.pravega_port}/{STREAM}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers, for the tests in their order."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def config(tmp_path: Path, stream: str) -> Path:
    """Sends every micro-batch to Spark."""
    path = tmp_path / "pipeline.toml"
    path.write_text(
        f'[pipeline]\nfrom = "{stream}"\nto = "{tmp_path}/tables"\n'
        'max_bytes_per_batch = 1048576\n[spark]\nmemory = "512m"\ndriver_bytes = 0\n'
    )
    return path


def test_spark_submit_says_where_tasks_run_and_with_how_much_memory(
    tmp_path: Path, config: Path, cluster: SparkCluster
) -> None:
    program = tmp_path / "run_logdrive.py"
    program.write_text("from logdrive.cli.main import main\n\nmain()\n")
    submitted = [find_program("spark-submit"), "--master", cluster.url]
    memory = ["--driver-memory", "512m", "--executor-memory", "600m"]
    run = subprocess.run(
        [*submitted, *memory, str(program), "pipeline", "run", "--config", str(config), "--once"],
        env=os.environ
        | {"JAVA_HOME": str(find_java_home(os.environ)), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]
    (application,) = cluster.completed()
    assert application["memoryperexecutor"] == 600
    demand_each_line_once(tmp_path / "tables")


def test_each_line_once_though_a_worker_is_lost(
    tmp_path: Path, config: Path, cluster: SparkCluster
) -> None:
    arguments = ["--config", str(config), "--once", "--master", cluster.url]
    run = Process("pipeline", ["pipeline", "run", *arguments], tmp_path / "pipeline.out")
    try:
        await_task(cluster, run)
        assert not commits(tmp_path / "tables")
        cluster.kill_worker(0)
        assert run.wait(240) == 0, run.said() + cluster.said()
    finally:
        run.kill()
    demand_each_line_once(tmp_path / "tables")


def demand_each_line_once(tables: Path) -> None:
    """Compare the tables with what was stored."""
    assert commits(tables) > SOURCES * PACKS // 4
    verdict = audit(str(tables))
    assert verdict.complete, verdict.faults
    assert verdict.events == SOURCES * PACKS * LINES
    for number in range(SOURCES):
        pieces = source_pieces(str(tables), source_id(f"s{number}"))
        data = b"".join(data for _, data in pieces)
        assert data == lines(f"s{number}", 0, PACKS * LINES)


def find_program(name: str) -> str:
    """Return the path of a program that stands beside this Python."""
    return str(Path(sys.executable).with_name(name))


def listens(port: int) -> bool:
    """Return whether a server listens at *port* of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def await_task(cluster: SparkCluster, run: Process) -> None:
    """Wait until the first worker's executor has been given a task, for which it starts Python."""
    until = time.monotonic() + 120
    while not any(pythons(executor) for executor in cluster.executors(0)):
        assert time.monotonic() < until, run.said() + cluster.said()
        assert run.running(), run.said()
        time.sleep(0.02)


def pythons(executor: int) -> bool:
    """Return whether *executor* has started a process for its Python workers."""
    try:
        tasks = os.listdir(f"/proc/{executor}/task")
        places = [Path(f"/proc/{executor}/task/{task}/children") for task in tasks]
        return any(place.read_text() for place in places)
    except OSError:  # it has ended, or a thread of it
        return False


def commits(tables: Path) -> int:
    """Return how many micro-batches have been committed."""
    return max(0, len([*(tables / "bronze/batches/_delta_log").glob("*.json")]) - 1)
