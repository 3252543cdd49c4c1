"""A JVM does not outlive the pipeline that started it, not even one that is still starting."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdrive.pipeline.spark.jvm_lifetime import ends_early, make_bound_java_home

STARTER = """
import subprocess, sys
print(subprocess.Popen(sys.argv[1:]).pid, flush=True)
sys.stdin.read()
"""


def program(home: Path, text: str) -> Path:
    """Make *home*/bin/java a shell script."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{text}\n")
    java.chmod(0o755)
    return home


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(process: int) -> bool:
    """Wait for *process* to end; a minute is for a busy machine."""
    deadline = time.monotonic() + 60
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(process)


@pytest.fixture
def pipeline() -> Iterator["list[subprocess.Popen[str]]"]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_arguments_reach_java_as_they_are(tmp_path: Path) -> None:
    home = make_bound_java_home(program(tmp_path / "it's java", 'printf "<%s>" "$@"'), tmp_path)
    said = subprocess.run(
        [home / "bin" / "java", "-cp", "a b", "Main"], capture_output=True, check=True
    )
    assert said.stdout == b"<-cp><a b><Main>"


def test_a_frozen_java_ends_with_the_process_that_started_it(
    tmp_path: Path, pipeline: "list[subprocess.Popen[str]]"
) -> None:
    """A stopped process reads nothing: it stands for a JVM that is not up yet."""
    home = make_bound_java_home(program(tmp_path / "jdk", "echo ready; exec sleep 600"), tmp_path)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(home / "bin" / "java")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pipeline.append(starter)
    assert starter.stdout is not None
    lines = {starter.stdout.readline().strip(), starter.stdout.readline().strip()}
    (java,) = (int(line) for line in lines - {"ready"})
    os.kill(java, signal.SIGSTOP)

    starter.kill()
    starter.wait()
    try:
        assert ends(java)
    finally:
        if is_running(java):
            os.kill(java, signal.SIGKILL)


def test_where_nothing_may_be_executed_the_java_itself_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = program(tmp_path / "jdk", "true")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert make_bound_java_home(home, tmp_path) == home


def test_a_java_that_is_still_starting_is_killed_when_the_start_is_given_up(
    tmp_path: Path, pipeline: "list[subprocess.Popen[str]]"
) -> None:
    home = make_bound_java_home(program(tmp_path / "jdk", "echo up; exec sleep 600"), tmp_path)
    cancel = threading.Event()
    with ends_early(home, cancel):
        java = subprocess.Popen(
            [home / "bin" / "java"],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"JAVA_HOME": str(home)},
        )
        pipeline.append(java)
        assert java.stdout is not None
        assert java.stdout.readline() == "up\n"
        assert java.poll() is None
        cancel.set()
        assert java.wait(60) == -signal.SIGKILL


def test_a_process_that_took_over_the_id_of_a_java_is_left_alone(
    tmp_path: Path, pipeline: "list[subprocess.Popen[str]]"
) -> None:
    home = make_bound_java_home(program(tmp_path / "jdk", "true"), tmp_path)
    other = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE, text=True)
    pipeline.append(other)
    (home / "bin" / "java.pid").write_text(f"{other.pid}\n")
    cancel = threading.Event()
    cancel.set()
    with ends_early(home, cancel):
        time.sleep(0.3)
    assert other.poll() is None
