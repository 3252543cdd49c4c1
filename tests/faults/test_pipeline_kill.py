"""SIGKILL of the pipeline, of Spark's processes and of the store, while lines come in: each line of
the files is in bronze and in silver once (A1, A2, A3, D2).

Real processes: an agent, a receiver with the store, a pipeline that follows its face.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.processes import free_port
from logdrive.host import faults
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.silver.balance import silver_balance
from tests.faults.access_writer import ACCESS_RULES, AccessWriter, silver_rows
from tests.faults.table_readers import Watch
from tests.support.installation import STREAM, Installation, Process
from tests.support.table_files import bronze_rows, rebuild_files, rows_in_silver

pytestmark = pytest.mark.process

FEW, MANY = 6, 30
_TIME_FOR_MANY = pytest.mark.timeout(MANY * 60)  # seconds: ample, also on a slow machine
KILLS = pytest.mark.parametrize(
    "kills", [FEW, pytest.param(MANY, marks=[pytest.mark.thorough, _TIME_FOR_MANY])]
)
"""How often a test kills something: for everyone, and in `make test-thorough`."""
_LINES_A_KILL = 30_000
"""What a backfill finds for each time that it is killed: two or three micro-batches."""
_POINTS = [point for point in faults.POINTS if point.startswith("pipeline.commit.")]
"""Silver's own are passed in tests/logdrive/pipeline/silver/test_kill.py."""
_TURNS = (
    "pipeline",
    "store",
    "store.commit.after_write",
    "pipeline",
    "store.commit.after_sync",
    "store",
    "pipeline.commit.between",
)
"""What is killed in turn: a program at any moment, or at a fault point."""
_SPARKS_TURNS = (
    "worker_daemon",
    "store",
    "java",
    "store.commit.after_write",
    "worker_daemon",
    "pipeline.commit.between",
    "store",
    "worker_daemon",
    "store.commit.after_sync",
    "pipeline",
)
"""The same, and processes of Spark, by what is in their command lines."""


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
            f"max_bytes_per_batch = 1048576\n[spark]\n{spark}\n{ACCESS_RULES}"
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

    def settle(
        self, writer: AccessWriter, receiver: Process, agent: Process, pipeline: Process
    ) -> None:
        """Let everything arrive, end all processes, and judge."""
        pipeline.kill()
        assert agent.terminate(90) == 0, agent.said()
        last = self.pipeline("", "--once")
        assert last.wait(240) == 0, last.said()
        assert receiver.terminate() == 0, receiver.said()
        self._judge(writer)

    def _judge(self, writer: AccessWriter) -> None:
        """Compare bronze, and silver's rows by their coordinates and by columns, with the files."""
        tables = str(self.tables)
        verdict = audit(tables)
        assert verdict.complete, verdict
        for rows in (bronze_rows(tables), rows_in_silver(tables)):
            files = list(rebuild_files(rows).values())
            assert {b"".join(data for _, data in pieces) for pieces in files} == writer.contents()
            assert len(files) == len(writer.contents()), "a file is there under two names"
        assert silver_rows(tables) == writer.rows
        balance = silver_balance(tables)
        assert balance is not None
        assert balance.adds_up


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


def _write_until(writer: AccessWriter, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        writer.write(300)
        time.sleep(0.03)


def _write_slowly(writer: AccessWriter) -> None:
    """Write a little, for as long as something takes that may be a start of Spark."""
    writer.write(100)
    time.sleep(0.1)


def _commits(system: Following) -> int:
    return len(list((system.tables / "bronze" / "batches" / "_delta_log").glob("*.json")))


def _await_commit(system: Following, writer: AccessWriter, pipeline: Process) -> None:
    """Write until the pipeline has made a commit."""
    before, until = _commits(system), time.monotonic() + 120
    while _commits(system) == before:
        assert time.monotonic() < until, pipeline.said()
        assert pipeline.running(), pipeline.said()
        _write_slowly(writer)


def _await_fill(writer: AccessWriter, backfill: Process) -> None:
    """Write until the backfill has made a commit, unless it has found nothing to fill."""
    until = time.monotonic() + 120
    while backfill.running() and "committed so far" not in backfill.said():
        assert time.monotonic() < until, backfill.said()
        writer.write(30)
        time.sleep(0.01)  # it takes 0.1 s for the next one
    assert backfill.running() or backfill.wait(1) == 0, backfill.said()


def _await_death(writer: AccessWriter, process: Process, point: str) -> None:
    """Write until *process* has reached its fault point."""
    until = time.monotonic() + 120
    while process.running() and time.monotonic() < until:
        _write_slowly(writer)
    assert process.wait(1) == -signal.SIGKILL, f"{point} was not reached:\n{process.said()}"


def _kill(
    writer: AccessWriter, process: Process, start: Callable[[str], Process], turn: str
) -> Process:
    """Kill *process*, and its successor at the fault point *turn*, if it is one.

    Returns the process that goes on.
    """
    process.kill()
    if turn in faults.POINTS:
        _await_death(writer, start(f"{turn}:2"), turn)
    return start("")


@pytest.mark.parametrize("point", _POINTS)
def test_the_pipeline_killed_at_a_fault_point__A1_A2(system: Following, point: str) -> None:
    writer = AccessWriter(system.logs, 1)
    writer.write(1000)
    receiver, agent, pipeline = (
        system.receiver(),
        system.agent(),
        system.pipeline(fault=f"{point}:2"),
    )
    _await_death(writer, pipeline, point)
    system.settle(writer, receiver, agent, system.pipeline())


@KILLS
def test_random_kills_of_pipeline_and_store__A1_A2_A3(system: Following, kills: int) -> None:
    """Readers of the tables see whole batches, and the same rows, while all of that goes on."""
    pick, writer = random.Random(17), AccessWriter(system.logs, 2)
    watch = Watch(system.tables)
    receiver, agent, pipeline = system.receiver(), system.agent(), system.pipeline()
    for kill in range(kills):
        if kill % 2:  # otherwise it may be killed before it has made any
            _await_commit(system, writer, pipeline)
        _write_until(writer, pick.uniform(0.1, 1.0))
        watch.look()  # while it writes
        turn = _TURNS[kill % len(_TURNS)]
        if turn.startswith("store"):
            receiver = _kill(writer, receiver, system.receiver, turn)
        else:
            pipeline = _kill(writer, pipeline, system.pipeline, turn)
            watch.look()
    assert len(watch.seen) > kills // 3
    system.settle(writer, receiver, agent, pipeline)
    watch.look()


@KILLS
def test_random_kills_of_a_backfill_and_of_the_pipeline_beside_it__A1_A2_A3(
    system: Following, kills: int
) -> None:
    """The tables begin amid what is sent; no source is ever said to have lost anything.

    Each turn kills the backfill amid its work, and the pipeline a moment before or after that.
    """
    pick, writer = random.Random(19), AccessWriter(system.logs, 4)
    writer.write(_LINES_A_KILL * kills // 2)
    receiver, agent = system.receiver(), system.agent()
    system.await_acknowledged(sum(map(len, writer.contents())))
    _write_until(writer, 1.0)
    begun = ["--start", "1s"]
    pipeline = system.pipeline("", *begun)
    for _ in range(2):  # the first one makes the table
        _await_commit(system, writer, pipeline)
    assert audit(str(system.tables)).begins
    amid = 0  # how many backfills were killed that had begun and not ended
    for turn in range(kills // 2):
        _write_until(writer, pick.uniform(0.1, 1.0))
        backfill = system.backfill()
        _await_fill(writer, backfill)
        time.sleep(pick.uniform(0, 0.1))
        if turn % 2:
            amid += backfill.running()
            backfill.kill()
            _await_commit(system, writer, pipeline)  # which goes on
            pipeline.kill()
        else:
            assert pipeline.running(), pipeline.said()
            pipeline.kill()
            time.sleep(pick.uniform(0, 0.1))  # the backfill goes on
            amid += backfill.running()
            backfill.kill()
        verdict = audit(str(system.tables))  # of what both have left
        assert (verdict.lost_bytes, verdict.duplicate_events, verdict.faults) == (0, 0, [])
        pipeline = system.pipeline("", *begun)
    assert amid > kills // 4, f"only {amid} of {kills // 2} kills met a backfill amid its work"
    backfill = system.backfill()
    assert backfill.wait(120) == 0, backfill.said()
    system.settle(writer, receiver, agent, pipeline)


@pytest.mark.cluster
@pytest.mark.spark
@_TIME_FOR_MANY
def test_random_kills_of_sparks_processes_and_the_store__A1_A2_A3(
    spark_system: Following,
) -> None:
    pick, writer = random.Random(18), AccessWriter(spark_system.logs, 3)
    receiver, agent = spark_system.receiver(), spark_system.agent()
    pipeline, missed = spark_system.pipeline(), 0
    for kill in range(MANY):
        _await_commit(spark_system, writer, pipeline)
        _write_until(writer, pick.uniform(0.1, 0.6))
        turn = _SPARKS_TURNS[kill % len(_SPARKS_TURNS)]
        if turn.startswith("store"):
            receiver = _kill(writer, receiver, spark_system.receiver, turn)
        elif turn.startswith("pipeline"):
            pipeline = _kill(writer, pipeline, spark_system.pipeline, turn)
        else:
            missed += not _kill_one(pipeline, turn.encode(), pick)
            if turn == "java":  # the driver ends with it, or starts another
                _write_until(writer, 1.0)
        if not pipeline.running():
            pipeline = spark_system.pipeline()
    assert missed < MANY // 10, f"{missed} of {MANY} kills came after the pipeline's own end"
    spark_system.settle(writer, receiver, agent, pipeline)


def _kill_one(pipeline: Process, what: bytes, pick: random.Random) -> bool:
    """Kill a process below *pipeline* whose command line has *what*, once there is one.

    Returns whether there was one: none if the pipeline has ended meanwhile, after an earlier kill.
    """
    until = time.monotonic() + 120
    while not (found := [pid for pid in _descendants(pipeline.pid) if what in _command(pid)]):
        if not pipeline.running():
            return False
        assert time.monotonic() < until, f"there is no {what.decode()}:\n{pipeline.said()}"
        time.sleep(0.1)
    with suppress(ProcessLookupError):
        os.kill(pick.choice(found), signal.SIGKILL)
    return True


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
