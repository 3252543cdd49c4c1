"""Which tests a run collects: all that a target names, and by the same names in every process."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "__pycache__", ".*_cache", ".hypothesis"
)

MOVED_CLOCK = """\
import time

_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + 100_000.5
time.time_ns = lambda: _time_ns() + 100_000_500_000_000
"""


def collecting(
    root: Path, home: Path, *, hash_seed: str, plugins: str = ""
) -> subprocess.Popen[str]:
    """Start a process that collects every test below *root*.

    pytest-xdist ends the whole run where two workers collect different names.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = kept | {
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": str(home),
    }
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", ""]
    # names need no asserts that tell what they compared, and these take half of the time
    command += ["--assert=plain", "-p", "no:cacheprovider", *(["-p", plugins] if plugins else [])]
    return subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_every_path_of_tests_that_a_target_of_the_makefile_names_is_there() -> None:
    named = re.findall(r"\btests/[\w/.]+", (ROOT / "Makefile").read_text())
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.thorough
def test_no_name_of_a_test_depends_on_time_chance_hash_seed_or_path(tmp_path: Path) -> None:
    here, elsewhere, copy = tmp_path / "here", tmp_path / "elsewhere", tmp_path / "copy"
    here.mkdir()
    elsewhere.mkdir()
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    (elsewhere / "moved_clock.py").write_text(MOVED_CLOCK)

    processes = [
        collecting(ROOT, here, hash_seed="1"),
        collecting(copy, elsewhere, hash_seed="2", plugins="moved_clock"),
    ]
    printed = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed[-1][-2000:]
    names, others = ([line for line in text.splitlines() if "::" in line] for text in printed)

    assert len(names) > 1000
    assert [pair for pair in zip(names, others, strict=False) if pair[0] != pair[1]][:1] == []
    assert len(names) == len(others)
