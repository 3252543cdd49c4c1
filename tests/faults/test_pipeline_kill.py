"""SIGKILL of the pipeline, of Spark's processes and of the store, while lines come in: each line is
in bronze and in silver once (A1, A2, A3, D2).

Real processes: an agent, a receiver with the store, a pipeline that follows its face.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.processes import free_port
from logdrive.host import faults
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.silver.balance import row_tables, silver_balance
from logdrive.pipeline.silver.schema import silver_directory
from tests.faults.table_readers import Watch
from tests.faults.test_sigkill import Writer
from tests.support.installation import STREAM, Installation, Process

pytestmark = pytest.mark.process

KILLS = int(os.environ.pop("LOGDRIVE_KILLS", "6"))  # the programs take it for a setting
"""Random kills of a test; more of them for those who want more."""
_POINTS = [point for point in faults.POINTS if point.startswith("pipeline.commit.")]
"""Silver's own are passed in tests/logdrive/pipeline/silver/test_kill.py."""


class Following(Installation):
    """An installation with a pipeline that follows it into bronze and silver."""

    def __init__(self, root: Path, certificates: Path, spark: str) -> None:
        face = free_port()
        super().__init__(
            root,
            certificates,
            receiver_extra=f'[listen.pravega]\naddress = "127.0.0.1:{face}"\n',
        )
        self.tables = root / "tables"
        (root / "pipeline.toml").write_text(
            f'[pipeline]\nfrom = "pravega://127.0.0.1:{face}/{STREAM}"\nto = "{self.tables}"\n'
            f"max_bytes_per_batch = 1048576\n[spark]\n{spark}\n"
        )

    def pipeline(self, fault: str = "", *more: str) -> Process:
        """Start a pipeline that follows the receiver."""
        arguments = ["pipeline", "run", "--config", str(self.root / "pipeline.toml"), "--silver"]
        process = Process("pipeline", [*arguments, *more], self.root / "pipeline.out", fault)
        self._processes.append(process)
        return process

    def backfill(self) -> Process:
        """Start a backfill of what lies before the beginning of the tables."""
        arguments = ["pipeline", "backfill", "--config", str(self.root / "pipeline.toml")]
        process = Process("backfill", arguments, self.root / "backfill.out")
        self._processes.append(process)
        return process

    def settle(self, writer: Writer, receiver: Process, agent: Process, pipeline: Process) -> None:
        """Let everything arrive, end all processes, and judge."""
        pipeline.kill()
        assert agent.terminate(90) == 0, agent.said()
        last = self.pipeline("", "--once")
        assert last.wait(240) == 0, last.said()
        assert receiver.terminate() == 0, receiver.said()
        self._judge(writer)

    def _judge(self, writer: Writer) -> None:
        verdict = audit(str(self.tables))
        assert verdict.complete, verdict
        names = [source.source for source in verdict.by_source]
        files = {b"".join(data for _, data in self._pieces(name)) for name in names}
        assert files == writer.contents()
        assert len(names) == len(writer.contents()), "a file is there under two names"
        assert self._silver_rows() == self._bronze_rows()
        balance = silver_balance(str(self.tables))
        assert balance is not None
        assert balance.adds_up

    def _pieces(self, source: str) -> Iterator[tuple[int, bytes]]:
        return source_pieces(str(self.tables), source)

    def _bronze_rows(self) -> Counter[tuple[int, int]]:
        rows = open_tables(str(self.tables))[0].read_rows(["batch", "ordinal"])
        return Counter(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))

    def _silver_rows(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for table in row_tables(silver_directory(str(self.tables))).values():
            rows = table.read_rows(["batch", "ordinal"])
            found.update(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
        return found


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Following]:
    """Everything in one place, micro-batches in the driver."""
    yield from _installed(tmp_path, certificates, "")


@pytest.fixture
def spark_system(tmp_path: Path, certificates: Path) -> Iterator[Following]:
    """The same, and every micro-batch is Spark's."""
    yield from _installed(
        tmp_path, certificates, 'master = "local[2]"\ndriver_bytes = 0\nmemory = "512m"'
    )


def _installed(root: Path, certificates: Path, spark: str) -> Iterator[Following]:
    installation = Following(root, certificates, spark)
    yield installation
    installation.close()


def _write_until(writer: Writer, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        writer.write(300)
        time.sleep(0.03)


def _commits(system: Following) -> int:
    return len(list((system.tables / "bronze" / "batches" / "_delta_log").glob("*.json")))


def _await_commit(system: Following, writer: Writer, pipeline: Process) -> None:
    """Write until the pipeline has made a commit."""
    before, until = _commits(system), time.monotonic() + 120
    while _commits(system) == before:
        assert time.monotonic() < until, pipeline.said()
        assert pipeline.running(), pipeline.said()
        _write_until(writer, 0.1)


@pytest.mark.parametrize("point", _POINTS)
def test_the_pipeline_killed_at_a_fault_point__A1_A2(system: Following, point: str) -> None:
    writer = Writer(system.logs, 1)
    writer.write(1000)
    receiver, agent, pipeline = (
        system.receiver(),
        system.agent(),
        system.pipeline(fault=f"{point}:2"),
    )
    until = time.monotonic() + 60
    while pipeline.running() and time.monotonic() < until:
        _write_until(writer, 0.2)
    assert pipeline.wait(1) == -signal.SIGKILL, f"{point} was not reached:\n{pipeline.said()}"
    system.settle(writer, receiver, agent, system.pipeline())


def test_random_kills_of_pipeline_and_store__A1_A2_A3(system: Following) -> None:
    """Readers of the tables see whole batches, and the same rows, while all of that goes on."""
    pick, writer = random.Random(17), Writer(system.logs, 2)
    watch = Watch(system.tables)
    receiver, agent, pipeline = system.receiver(), system.agent(), system.pipeline()
    for kill in range(KILLS):
        if kill % 2:  # otherwise it may be killed before it has made any
            _await_commit(system, writer, pipeline)
        _write_until(writer, pick.uniform(0.1, 1.0))
        watch.look()  # while it writes
        if pick.random() < 0.3:
            receiver.kill()
            receiver = system.receiver()
        else:
            pipeline.kill()
            watch.look()
            pipeline = system.pipeline()
    assert len(watch.seen) > KILLS // 3
    system.settle(writer, receiver, agent, pipeline)
    watch.look()


def test_random_kills_of_a_backfill_and_of_the_pipeline_beside_it__A1_A2_A3(
    system: Following,
) -> None:
    """The tables begin amid what is sent; no source is ever said to have lost anything."""
    pick, writer = random.Random(19), Writer(system.logs, 4)
    writer.write(40_000)
    receiver, agent = system.receiver(), system.agent()
    system.await_acknowledged(sum(map(len, writer.contents())))
    _write_until(writer, 1.0)
    begun = ["--start", "1s"]
    pipeline = system.pipeline("", *begun)
    for _ in range(2):  # the first one makes the table
        _await_commit(system, writer, pipeline)
    assert audit(str(system.tables)).begins
    backfill = system.backfill()
    for kill in range(KILLS):
        _write_until(writer, pick.uniform(0.5, 2.5))
        if kill % 2:
            pipeline.kill()
            pipeline = system.pipeline("", *begun)
        else:
            backfill.kill()
            backfill = system.backfill()
        verdict = audit(str(system.tables))
        assert (verdict.lost_bytes, verdict.duplicate_events, verdict.faults) == (0, 0, [])
    assert backfill.wait(60) == 0, backfill.said()
    system.settle(writer, receiver, agent, pipeline)


@pytest.mark.cluster
@pytest.mark.spark
def test_random_kills_of_sparks_processes_and_the_store__A1_A2_A3(
    spark_system: Following,
) -> None:
    pick, writer = random.Random(18), Writer(spark_system.logs, 3)
    receiver, agent = spark_system.receiver(), spark_system.agent()
    pipeline = spark_system.pipeline()
    targets = [name for _ in range(KILLS) for name in ("worker", "store", "java", "driver")]
    for target in targets[: max(4, KILLS - 2)]:
        _await_commit(spark_system, writer, pipeline)
        _write_until(writer, pick.uniform(0.1, 0.6))
        if target == "store":
            receiver.kill()
            receiver = spark_system.receiver()
        elif target == "driver":
            pipeline.kill()
            pipeline = spark_system.pipeline()
        else:
            _kill_one(pipeline.pid, b"java" if target == "java" else b"worker_daemon", pick)
            if target == "java":  # the driver ends with it, or starts another
                _write_until(writer, 1.0)
        if not pipeline.running():
            pipeline = spark_system.pipeline()
    spark_system.settle(writer, receiver, agent, pipeline)


def _kill_one(root: int, what: bytes, pick: random.Random) -> None:
    """Kill one of the descendants of *root* whose command line has *what*, if there is any."""
    found = [pid for pid in _descendants(root) if what in _command(pid)]
    if found:
        with suppress(ProcessLookupError):
            os.kill(pick.choice(found), signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    found, waiting = list[int](), [root]
    while waiting:
        with suppress(OSError):
            children = Path(f"/proc/{waiting[0]}/task/{waiting[0]}/children").read_text().split()
            # threads that are not the first have children of their own
            for task in Path(f"/proc/{waiting[0]}/task").iterdir():
                children += (task / "children").read_text().split()
            found += [int(child) for child in set(children)]
            waiting += [int(child) for child in set(children)]
        del waiting[0]
    return found


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
