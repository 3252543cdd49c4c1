"""Forms of log lines, and warnings that say the same again."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog import DropEvent

from logdrive.cli.repeats import RepeatFilter

_PROGRAM = """
import os, sys, structlog
if os.environ.get("STREAM") == "ours":
    stat = os.fstat(2)
    os.environ["JOURNAL_STREAM"] = f"{stat.st_dev}:{stat.st_ino}"
from logdrive.cli.output import configure_logging
configure_logging("debug", sys.argv[1], one_a_minute=True)
log = structlog.get_logger("test")
log.info("started", lines=3)
for _ in range(5):
    log.warning("refused", reason="a\\nb", again_in=0.5)
try:
    raise ValueError("one\\ntwo")
except ValueError:
    log.exception("failed")
"""


def _logged(form: str, **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, form],
        capture_output=True,
        timeout=30,
        check=True,
        env={"PYTHONUTF8": "1", **environ},
    )
    lines = done.stderr.decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == 3, lines
    return lines


def test_the_journal_gets_priorities_and_no_time() -> None:
    started, refused, failed = _logged("journal")
    assert started == "<6>event=started lines=3"
    assert refused == r"<4>event=refused reason=a\nb again_in=0.5"
    assert failed.startswith("<3>event=failed ")
    assert "ValueError" in failed


def test_auto_is_the_journal_only_where_it_reads_our_standard_error() -> None:
    assert _logged("auto", STREAM="ours")[0].startswith("<6>event=started")
    # inherited from a service that started us with another standard error
    assert _logged("auto", JOURNAL_STREAM="1:2")[0].startswith("timestamp=")
    assert _logged("auto")[0].startswith("timestamp=")


_REFUSED = """
import os, sys
stat = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{stat.st_dev}:{stat.st_ino}"
sys.argv = ["logdrive", *sys.argv[1:]]
from logdrive.cli.main import main
main()
"""


@pytest.mark.parametrize("program", ["agent", "receiver", "store"])
def test_the_journal_has_the_reason_of_a_failed_start_as_an_error(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _REFUSED, program, "run", "--config", "/nowhere.toml"],
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.decode().startswith("<3>logdrive: /nowhere.toml: ")


def test_a_program_takes_the_form_of_the_journal_by_itself() -> None:
    program = _PROGRAM.replace('"debug", sys.argv[1], ', "")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        timeout=30,
        check=True,
        env={"PYTHONUTF8": "1", "STREAM": "ours"},
    )
    assert done.stderr.startswith(b"<6>event=started")


def test_json_is_an_object_a_line() -> None:
    started, refused, failed = map(orjson.loads, _logged("json"))
    assert list(started) == ["timestamp", "level", "event", "lines"]
    assert (started["event"], started["lines"], started["level"]) == ("started", 3, "info")
    assert refused["reason"] == r"a\nb"
    assert "ValueError: one" in failed["exception"]


_FILES = {
    "receiver": '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "file://{}#a/b"\n',
    "store": '[store]\npath = "{}"\n[listen.pravega]\naddress = "127.0.0.1:0"\n',
}


@pytest.mark.process
@pytest.mark.parametrize("program", list(_FILES))
def test_receiver_and_store_log_in_the_form_that_is_asked_for(tmp_path: Path, program: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(_FILES[program].format(tmp_path / "store"))
    command = [program, "run", "--config", str(config), "--log-format", "json"]
    running = subprocess.Popen(
        [sys.executable, "-m", "logdrive.cli.main", *command], stderr=subprocess.PIPE
    )
    assert running.stderr is not None
    # a stop may come before a program listens
    while orjson.loads(running.stderr.readline())["event"] != "listening":
        pass
    running.terminate()
    rest = running.communicate(timeout=30)[1]
    assert running.returncode == 0
    assert all("event" in orjson.loads(line) for line in rest.splitlines())


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _passes(held_back: RepeatFilter, **event: Any) -> dict[str, Any] | None:
    try:
        return dict(held_back(None, "warning", event))
    except DropEvent:
        return None


def test_a_cause_is_logged_once_a_minute_and_the_next_line_counts_the_others() -> None:
    clock = _Clock()
    held_back = RepeatFilter(clock)
    shown = []
    for second in range(0, 200, 5):
        clock.now = float(second)
        shown.append(_passes(held_back, event="refused", reason="away", again_in=second / 7))
    assert [(each["again_in"] * 7, each.get("repeated")) for each in shown if each] == [
        (0.0, None),
        (60.0, 11),
        (pytest.approx(120.0), 11),
        (180.0, 11),
    ]


def test_another_cause_is_not_held_back() -> None:
    held_back = RepeatFilter(_Clock())
    assert _passes(held_back, event="refused", reason="away", host="a")
    assert _passes(held_back, event="refused", reason="full", host="a")
    assert _passes(held_back, event="refused", reason="away", host="b")
    assert _passes(held_back, event="closed", reason="away", host="a")
    assert not _passes(held_back, event="refused", reason="away", host="a")


def test_what_is_no_warning_is_never_held_back() -> None:
    held_back = RepeatFilter(_Clock())
    for _ in range(3):
        assert held_back(None, "info", {"event": "connected"}) == {"event": "connected"}


def test_causes_without_end_take_no_memory_without_end() -> None:
    held_back = RepeatFilter(_Clock())
    for number in range(3000):
        assert _passes(held_back, event="refused", reason=str(number))
    assert len(held_back._written) == 1000


def test_a_peer_that_comes_again_from_another_port_is_the_same_cause() -> None:
    held_back = RepeatFilter(_Clock())
    refused = {"event": "connection refused", "reason": "it does not speak TLS"}
    assert _passes(held_back, **refused, peer="10.0.0.1:4000") is not None
    assert _passes(held_back, **refused, peer="10.0.0.1:4001") is None
    assert _passes(held_back, **refused, peer="[::1]:4000") is not None
    assert _passes(held_back, **refused, peer="[::1]:4001") is None
    assert _passes(held_back, **refused, peer="10.0.0.2:4000") is not None
