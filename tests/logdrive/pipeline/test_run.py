"""`pipeline run` as a whole: from a real store through Spark into tables, exactly once whatever is
killed on the way.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import orjson
import pytest

from logdrive.errors import ConfigError, LogdriveError, TransientError
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.table_pair import TablePair
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.plan import Plan, ProgressCallback, RunResult
from logdrive.pipeline.run import run_pipeline
from logdrive.pipeline.spark.tasks import SparkTasks
from logdrive.pipeline.tasks import InThreads, Tasks
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.read.test_old_letters import old_records
from tests.logdrive.pipeline.segments import STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.storing import served, store
from tests.support.disks.tmpfs import tmpfs
from tests.support.installation import command as installed

_MANY = 5000  # turns that make several micro-batches of the smallest size
CONFIG = Path(__file__).parents[3] / "config"


def stream(count: int = 4, turns: int = 40) -> list[Segment]:
    """Segments with a source each, in packs of every codec and in blocks, and a foreign peer."""
    segments = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(count)]
    for number, segment in enumerate(segments):
        at = 0
        for turn in range(turns):
            name, text = f"s{number}", lines(f"s{number}", turn * 50, 50)
            if turn % 4 == 1:
                at = send(segment, name, text, at)
            else:
                at = segment.packed(name, text, at, PackCodec(turn % 3))
            if turn % 10 == 0:
                segment.foreign("beats", [b'{"message":"x"}'] * 2)
    return segments


def check(directory: Path, count: int = 4, turns: int = 40) -> None:
    """Demand the whole stream in the tables, each byte once."""
    verdict = audit(str(directory))
    assert verdict.complete, verdict.faults
    assert verdict.events == count * (turns * 50 + (turns + 9) // 10 * 2)
    for number in range(count):
        assert list(source_pieces(str(directory), source_id(f"s{number}"))) == [
            (0, lines(f"s{number}", 0, turns * 50))
        ]


def plan(uri: str, directory: Path, **more: Any) -> Plan:
    return Plan(
        uri=uri, directory=str(directory), **({"once": True, "max_bytes_per_batch": 30_000} | more)
    )


_PLACES = [
    "in the driver",
    "in its threads",
    pytest.param("in tasks of Spark", marks=pytest.mark.spark),
]


@pytest.fixture(params=_PLACES)
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where micro-batches run: arguments for `run`."""
    if request.param == "in the driver":
        return {}
    if request.param == "in its threads":
        return {"tasks": InThreads(3), "driver_bytes": 0}
    spark = request.getfixturevalue("spark")
    return {"tasks": SparkTasks(spark.sparkContext), "driver_bytes": 0}


def run(
    planned: Plan,
    stop: threading.Event | None = None,
    on_commit: ProgressCallback = lambda _: None,
    tasks: Tasks | None = None,
    **more: Any,
) -> RunResult:
    planned = replace(planned, **more)
    return run_pipeline(planned, stop or threading.Event(), on_commit, tasks=tasks)


def test_once_reads_all_there_is_in_bounded_micro_batches_and_then_has_nothing_to_do(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    waiting: list[int] = []
    outcome = run(
        plan(uri, tmp_path / "tables"),
        on_commit=lambda so_far: waiting.append(so_far.events),
        **place,
    )
    assert outcome.bytes == outcome.there == sum(len(segment.data) for segment in segments)
    assert outcome.micro_batches > 3
    assert (outcome.as_json()["there"], outcome.as_json()["waiting"]) == (outcome.bytes, 0)
    assert waiting[-1] == outcome.events
    check(tmp_path / "tables")
    assert run(plan(uri, tmp_path / "tables")) == RunResult()


def test_following_takes_what_comes_and_ends_after_the_micro_batch_when_told(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    segments = stream(turns=10)
    first = [Segment(name=one.name, data=bytearray(one.data)) for one in segments]
    for segment in first:
        del segment.data[
            [hop.next for hop in walk_batches(segment.name, 0, bytes(segment.data))][4] :
        ]
    uri = store(tmp_path / "store", *first)
    stop = threading.Event()
    following = plan(uri, tmp_path / "tables", once=False)
    outcome = run(following, stop, lambda so_far: _when_all_is_read(so_far, stop), **place)
    assert outcome.bytes == outcome.there
    store(tmp_path / "store", *segments)
    run(plan(uri, tmp_path / "tables"))
    check(tmp_path / "tables", turns=10)


def test_r5_a_store_restored_from_a_backup_is_noticed_at_the_start(
    tmp_path: Path,
) -> None:
    """History 8: the pipeline's offsets are void, and nothing is lost or doubled by that."""
    segments = stream(count=1, turns=20)
    (whole,) = segments
    run(plan(store(tmp_path / "store", whole), tmp_path / "tables"))
    offsets = [
        hop
        for hop in walk_batches(whole.name, 0, bytes(whole.data))
        if hop.header and hop.header.kind == "data"
    ]
    restored = Segment(
        name=whole.name, data=bytearray(whole.data[: offsets[10].next]), clock=whole.clock + 5000
    )
    at, data = offsets[10].header.position if offsets[10].header else 0, lines("s0", 0, 1000)
    assert at is not None
    send(restored, "s0", data[at:], at)
    restored.foreign("beats", [b'{"message":"after"}'])
    run(plan(store(tmp_path / "restored", restored), tmp_path / "tables"))
    assert list(source_pieces(str(tmp_path / "tables"), source_id("s0"))) == [(0, data)]
    assert audit(str(tmp_path / "tables")).complete


def test_a_full_disk_fails_a_run_once_and_is_waited_out_by_one_that_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = store(tmp_path / "store", *stream(count=2, turns=10))
    whole, failures = TablePair.commit, [1, 1]

    def full(tables: TablePair, *arguments: Any) -> None:
        if failures:
            failures.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(tables, *arguments)

    monkeypatch.setattr(TablePair, "commit", full)
    with pytest.raises(TransientError, match="No space left on device"):
        run(plan(uri, tmp_path / "tables"))
    stop = threading.Event()
    outcome = run(
        plan(uri, tmp_path / "tables", once=False),
        stop,
        lambda so_far: _when_all_is_read(so_far, stop),
    )
    assert outcome.bytes == outcome.there
    check(tmp_path / "tables", count=2, turns=10)


def test_a_disk_too_full_for_a_tasks_file_is_named_as_the_cause(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    segment = Segment()
    segment.packed("a", b"%s\n" % os.urandom(500_000).hex().encode(), 0)
    uri = store(tmp_path / "store", segment)
    with tmpfs(tmp_path / "small", 8) as disk:
        disk.fill(but=256 << 10)
        with pytest.raises(TransientError, match="No space left on device"):
            run(plan(uri, disk.path / "tables"), **place)


def test_an_address_in_place_of_the_tables_directory_is_refused(tmp_path: Path) -> None:
    planned = replace(plan("file:///nowhere#a/b", tmp_path), directory="s3://bucket/tables")
    with pytest.raises(ConfigError, match=r"to = .*s3://bucket/tables.*name a directory"):
        run(planned)


def test_a_disk_too_full_for_the_tables_is_named_in_one_line(tmp_path: Path) -> None:
    uri = store(tmp_path / "store", *stream(count=1, turns=1))
    with tmpfs(tmp_path / "small", 8) as disk:
        disk.fill()
        with pytest.raises(LogdriveError, match="No space left on device") as failure:
            run(plan(uri, disk.path / "tables"))
    assert str(failure.value).isprintable()


def _when_all_is_read(so_far: RunResult, stop: threading.Event) -> None:
    if not so_far.waiting:
        stop.set()


def test_a_stream_that_is_not_there_is_told_with_those_that_are_and_makes_no_tables(
    tmp_path: Path,
) -> None:
    """Empty tables would pass an audit."""
    uri = store(tmp_path / "store", Segment(name="other/stream/0.#epoch.0"))
    with pytest.raises(
        ConfigError, match=r"there is no stream logs/app in the store .*; there are: other/stream"
    ):
        run(plan(uri, tmp_path / "tables"))
    assert not (tmp_path / "tables").exists()


def test_a_stream_that_is_not_there_at_a_face_makes_no_tables(tmp_path: Path) -> None:
    with served(tmp_path / "store", Segment()):
        uri = f"file://{tmp_path / 'store'}#logs/ap"
        with pytest.raises(
            ConfigError,
            match="there is no stream logs/ap: compare",
        ):
            run(plan(uri, tmp_path / "tables"))
    assert not (tmp_path / "tables").exists()


def test_a_store_that_is_not_there_makes_no_tables(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no store"):
        run(plan(f"file://{tmp_path / 'nowhere'}#logs/app", tmp_path / "tables"))
    assert os.listdir(tmp_path) == []


# Whole processes --------------------------------------------------------------------------------


def command(
    *arguments: str, fault: str = "", stdout: IO[bytes] | int = subprocess.PIPE, **environment: str
) -> "subprocess.Popen[bytes]":
    ours = {"LOGDRIVE_FAULT": fault, "LOGDRIVE_PIPELINE__TRIGGER_SECONDS": "0.1"}
    return subprocess.Popen(
        [sys.executable, "-m", "logdrive.cli.main", "pipeline", *arguments],
        env=os.environ | ours | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


def until_committed(process: "subprocess.Popen[bytes]") -> bytes:
    """Return what *process* has said once it says that it has made a commit."""
    assert process.stderr is not None
    said = b""
    while line := process.stderr.readline():
        said += line
        if b"committed" in line:
            return said
    raise AssertionError(said.decode())


def configured(root: Path, uri: str, *, in_spark: bool = False) -> str:
    """Return a configuration; *in_spark*, all is Spark's, which runs on this machine."""
    path = root / "pipeline.toml"
    spark = 'master = "local[2]"\nmemory = "512m"\ndriver_bytes = 0\n' if in_spark else ""
    path.write_text(
        f'[pipeline]\nfrom = "{uri}"\nto = "{root / "tables"}"\nmax_bytes_per_batch = '
        f"1048576\n[spark]\n{spark}"
    )
    return str(path)


@pytest.mark.spark
@pytest.mark.process
def test_sigkill_between_the_two_commits_and_at_a_random_moment_then_run_again(
    tmp_path: Path,
) -> None:
    uri = store(tmp_path / "store", *stream(count=2, turns=_MANY))
    path = configured(tmp_path, uri, in_spark=True)
    killed = command("run", "--config", path, "--once", fault="pipeline.commit.between:2")
    assert killed.wait(120) == -signal.SIGKILL, killed.communicate()[1].decode()
    again = command("run", "--config", path)
    until_committed(again)
    again.kill()
    again.wait()
    run(plan(uri, tmp_path / "tables", max_bytes_per_batch=1 << 20))
    check(tmp_path / "tables", count=2, turns=_MANY)


@pytest.mark.spark
@pytest.mark.process
def test_a_jvm_that_is_killed_is_started_again_with_once_too(tmp_path: Path) -> None:
    uri = store(tmp_path / "store", *stream(count=2, turns=_MANY))
    process = command("run", "--config", configured(tmp_path, uri, in_spark=True), "--once")
    until_committed(process)
    (jvm,) = (pid for pid in children(process.pid) if "java" in command_of(pid))
    os.kill(jvm, signal.SIGKILL)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err.decode()
    assert b"Spark has ended by itself; see " in err
    check(tmp_path / "tables", count=2, turns=_MANY)


def children(pid: int) -> list[int]:
    """Return the processes that any thread of *pid* has started."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for one in threads for child in (one / "children").read_text().split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


DIES_AT_FIRST = """\
import os, sys
if any("worker_daemon" in argument for argument in sys.orig_argv):
    for attempt in range(5):  # Spark gives up after three for one task, and there are two
        try:
            os.close(os.open(f"{mark}-{{attempt}}", os.O_CREAT | os.O_EXCL))
            os._exit(1)
        except FileExistsError:
            pass
"""


@pytest.mark.spark
@pytest.mark.process
def test_workers_of_sparks_that_do_not_come_up_are_started_again_with_once_too(
    tmp_path: Path,
) -> None:
    uri = store(tmp_path / "store", *stream(count=1, turns=1))
    (tmp_path / "sitecustomize.py").write_text(DIES_AT_FIRST.format(mark=tmp_path / "mark"))
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    config = configured(tmp_path, uri, in_spark=True)
    process = command("run", "--config", config, "--once", PYTHONPATH=path)
    out, err = (text.decode() for text in process.communicate(timeout=240))
    assert process.returncode == 0, err
    assert "52 events of 2 batches" in out
    assert "a Python worker of Spark's did not start (" in err
    assert f"see {tmp_path / 'tables' / 'spark.log'} for all of it" in err


@pytest.mark.process
def test_output_that_can_t_be_written_is_told_without_a_traceback(tmp_path: Path) -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 20_000))
    catch_up(tmp_path, segment)
    with open("/dev/full", "wb") as full:
        printing = command("cat", str(tmp_path), source_id("a"), stdout=full)
        assert printing.communicate(timeout=60)[1] == b"logdrive: No space left on device\n"
    assert printing.returncode == 1
    printing = command("cat", str(tmp_path), source_id("a"))
    assert printing.stdout is not None
    printing.stdout.close()
    assert printing.communicate(timeout=60)[1] == b""


@pytest.mark.process
def test_commands_end_as_promised(tmp_path: Path) -> None:
    """SIGTERM ends a run with exit code 0; audit, report and cat print and exit as documented."""
    segments = stream(count=1, turns=3)
    segments[0].gap("s0", len(lines("s0", 0, 150)), 9000, "removed")
    path = configured(tmp_path, store(tmp_path / "store", *segments))
    following = command("run", "--config", path)
    assert b"starting Spark" not in until_committed(following)
    following.terminate()
    out, err = following.communicate(timeout=60)
    assert following.returncode == 0, err.decode()
    assert b"152 events" in out
    reported = command("report", str(tmp_path / "tables"), "--out", str(tmp_path / "report.html"))
    audited = command("audit", str(tmp_path / "tables"), "--json")
    verdict = json.loads(audited.communicate(timeout=120)[0])
    assert audited.returncode == 1
    assert (verdict["complete"], verdict["lost_bytes"], verdict["gaps"][0]["reason"]) == (
        False,
        9000 - len(lines("s0", 0, 150)),
        "removed",
    )
    assert reported.wait(60) == 0
    assert "Not complete" in (tmp_path / "report.html").read_text()
    printed = command("cat", str(tmp_path / "tables"), source_id("s0"))
    assert printed.communicate(timeout=60)[0] == lines("s0", 0, 150)
    again = command("run", "--config", path, "--once", "--json")
    assert (
        json.loads(again.communicate(timeout=60)[0]).items()
        >= {"events": 0, "batches": 0, "bytes": 0, "waiting": 0}.items()
    )
    wrong = command("run", "--from", "file://x")
    assert b"give --from URI and --to DIR" in wrong.communicate(timeout=60)[1]
    assert wrong.returncode == 2


@pytest.mark.process
def test_an_audit_passes_neither_empty_tables_nor_unless_allowed_ends_that_nobody_saw(
    tmp_path: Path,
) -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 2))
    segment.gap("a", at, at, "removed", exact=False)
    catch_up(tmp_path / "unseen", segment)
    catch_up(tmp_path / "empty")
    unseen, empty = str(tmp_path / "unseen"), str(tmp_path / "empty")
    said = []
    for code, arguments in ((1, [empty]), (1, [unseen]), (0, [unseen, "--allow-unknown-ends"])):
        audited = command("audit", *arguments)
        said.append(audited.communicate(timeout=200)[0].decode().splitlines()[-1])
        assert audited.returncode == code, said
    assert said[0] == "nothing to judge: no batch has been read yet"
    assert said[1].startswith(
        "NOT COMPLETE: 2 lines, 24 bytes, 1 sources, 0 bytes lost, 0 lines duplicated; "
    )
    assert said[2].startswith("complete but for 1 unknown end: 2 lines, ")


@pytest.mark.process
def test_r8_a_deep_audit_fails_for_a_pack_that_lies_behind_what_the_tables_have(
    tmp_path: Path,
) -> None:
    segment, text = Segment(), lines("a", 0, 9)
    segment.packed("a", text)
    catch_up(tmp_path / "tables", segment)
    pack = make_pack(PackForm.TEXT, text, PackCodec.DEFLATE)
    segment.pack("b", 0, len(text), pack, 10)
    uri, tables = store(tmp_path / "store", segment), str(tmp_path / "tables")
    audited = command("audit", tables, "--deep", "--from", uri)
    said = audited.communicate(timeout=200)[0].decode().splitlines()
    assert audited.returncode == 1
    assert source_id("b") in said[0]
    assert said[1] == "2 packs in the stream, 1 of them can't be opened"
    assert said[-1].startswith("complete: 9 lines, ")
    refused = command("audit", tables, "--deep")
    assert b"give --deep and --from URI together" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2


def test_r7_run_notes_letters_earlier_versions_and_their_dismissal_makes_audit_complete(
    tmp_path: Path,
) -> None:
    segments, letters = stream(count=1, turns=3), Segment(name=f"{STREAM}-dead/0.#epoch.0")
    for record in old_records(1, b"x" * 900_000):
        letters.foreign("beats", [record])
    uri, tables = store(tmp_path / "store", *segments, letters), tmp_path / "tables"
    run(plan(uri, tables))
    verdict = audit(str(tables))
    assert (verdict.complete, verdict.dead_letters, verdict.dead_letter_bytes) == (
        False,
        1,
        900_000,
    )
    dismissing = [*installed("store", "dead-letters", "dismiss"), uri, "--all", "--reason", "tests"]
    subprocess.run(dismissing, check=True, timeout=60)
    run(plan(uri, tables))
    verdict = audit(str(tables))
    assert (verdict.complete, verdict.dead_letters, verdict.dismissed_dead_letters) == (True, 0, 1)
    assert verdict.quarantined_events == 0
    assert [(letter.state, letter.why) for letter in verdict.letters] == [("dismissed", "tests")]


@pytest.mark.process
def test_a_run_logs_in_the_form_that_is_asked_for(tmp_path: Path) -> None:
    path = configured(tmp_path, store(tmp_path / "store", *stream(count=1, turns=3)))
    running = command("run", "--config", path, "--once", "--log-format", "json")
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 0
    assert "committed so far" in [orjson.loads(line)["event"] for line in said.splitlines()]


@pytest.mark.process
@pytest.mark.parametrize("place", ["missing/report.html", "file/report.html"])
def test_a_report_that_can_t_be_written_is_refused_before_the_audit(
    tmp_path: Path, place: str
) -> None:
    catch_up(tmp_path)
    (tmp_path / "file").write_text("")
    reporting = command("report", str(tmp_path), "--out", str(tmp_path / place))
    said = reporting.communicate(timeout=60)[1].decode()
    assert reporting.returncode == 2
    assert f"nothing can be written in {(tmp_path / place).parent}: make that directory" in said
    assert "starting Spark" not in said
