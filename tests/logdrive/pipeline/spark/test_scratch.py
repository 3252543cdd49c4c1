"""Scratch directories go with their process, or with the next one's start where theirs was
killed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from logdrive.pipeline.spark.scratch import open_scratch_directory

_HOLDER = """
import sys
from logdrive.pipeline.spark.scratch import open_scratch_directory
with open_scratch_directory(sys.argv[1]) as place:
    (place / "blocks").mkdir()
    print(place, flush=True)
    sys.stdin.read()
"""


def holder(parent: Path) -> "tuple[subprocess.Popen[str], Path]":
    """Start a process that holds a scratch directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_directory_goes_with_its_context(tmp_path: Path) -> None:
    with open_scratch_directory(str(tmp_path)) as place:
        (place / "file").touch()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_is_in_use_stays(
    tmp_path: Path,
) -> None:
    (living, held), (killed, left) = holder(tmp_path), holder(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.exists()
    with open_scratch_directory(str(tmp_path)) as own:
        assert sorted(tmp_path.iterdir()) == sorted((held, own))
    living.communicate("")
    assert os.listdir(tmp_path) == []


def test_what_only_looks_like_ours_stays(tmp_path: Path) -> None:
    """A directory without a lock is just being made, a link leads elsewhere."""
    for name in ("logdrive-spark-new", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere" / "lock").touch()
    (tmp_path / "logdrive-spark-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "logdrive-spark-audit.log").touch()
    with open_scratch_directory(str(tmp_path)):
        pass
    assert sorted(os.listdir(tmp_path)) == [
        "elsewhere",
        "logdrive-spark-audit.log",
        "logdrive-spark-link",
        "logdrive-spark-new",
    ]
