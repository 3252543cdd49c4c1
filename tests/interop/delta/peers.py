"""delta-spark, and DuckDB with its own reader of Delta, in an environment of their own.

It is made once, in ~/.cache/logdrive-peers: pyspark 4.2, for which there is a delta-spark, its jars
from Maven Central, and the DuckDB that PyPI has the extension for. `driver.py` runs in it.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from logdrive.pipeline.spark.java import find_java_home
from tests.support.environments import make_environment

_HERE = Path(__file__).parent
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "logdrive-peers"
_PLACE = _CACHE / f"delta-spark-4.4.0-py{sys.version_info.major}{sys.version_info.minor}"
_PACKAGES = ("pyspark==4.2.0", "delta-spark==4.4.0", "duckdb==1.4.4", "duckdb-ext-delta==1.4.4.*")
_FETCH_SECONDS = 240


class DeltaPeers:
    """The driver in its environment, while the `with` block lasts; it is made if there is none."""

    def __init__(self, directory: Path) -> None:
        if not _PLACE.exists():
            _make()
        self._said = directory / "delta-peers.out"
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                [str(_PLACE / "bin" / "python"), str(_HERE / "driver.py"), str(_PLACE / "jars")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=directory,
                env=os.environ
                | {
                    "JAVA_HOME": str(find_java_home(os.environ)),
                    "PYSPARK_PYTHON": str(_PLACE / "bin" / "python"),
                    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                },
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()  # its JVM ends with its standard input

    def call(self, name: str, *arguments: object) -> Any:
        """Return what the driver's function *name* returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": name, "with": arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._said.read_text()[-6000:]
        return json.loads(answer)


def _make() -> None:
    """Make the environment beside its place and move it there: another process may do the same."""
    if shutil.which("mvn") is None:
        pytest.skip("no mvn: install Maven, which fetches delta-spark (Debian: maven)")
    _CACHE.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{_PLACE.name}-", dir=_CACHE))
    try:
        make_environment(made, *_PACKAGES)
        _fetch_jars(made / "jars")
        with contextlib.suppress(OSError):  # the other process was first
            made.rename(_PLACE)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _fetch_jars(directory: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeGroupIds=io.delta"]
    command = ["mvn", "-B", "-q", "-f", str(_HERE / "pom.xml"), *goal]
    try:
        subprocess.run(
            [*command, f"-DoutputDirectory={directory}"],
            check=True,
            capture_output=True,
            timeout=_FETCH_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        pytest.skip(f"delta-spark's jars can't be had from Maven: {error.stdout.decode()[-500:]}")
    except subprocess.TimeoutExpired as error:
        pytest.skip(f"delta-spark's jars can't be had from Maven: {error}")
