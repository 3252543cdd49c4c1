"""A standalone Spark cluster on loopback: a master and workers, as processes of this test.

PySpark's package has no scripts that start them, but the launcher of its Java classes.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.processes import free_port
from logdrive.pipeline.spark.java import find_java_home

_LOOPBACK = "127.0.0.1"
_START_SECONDS = 120.0
_CLASSES = "org.apache.spark.deploy"
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkCluster:
    """A master with *workers* workers of one core each, in the `with` block."""

    def __init__(self, directory: Path, workers: int = 2, memory: str = "1g") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._memory = memory
        self._workers = workers
        self._port, self._web_port = free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """The master's address, as `--master` takes it."""
        return f"spark://{_LOOPBACK}:{self._port}"

    def __enter__(self) -> Self:
        at = ["--host", _LOOPBACK, "--webui-port"]
        self._start("master", "master.Master", *at, str(self._web_port), "--port", str(self._port))
        for number in range(self._workers):
            name, port = f"worker{number}", str(free_port())
            limits = ["--cores", "1", "--memory", self._memory]
            place = ["--work-dir", str(self._directory / name)]
            self._start(name, "worker.Worker", *at, port, *limits, *place, self.url)
        try:
            self._wait_for_workers()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def kill_worker(self, number: int) -> None:
        """Kill a worker and the executors it has started, as the loss of its machine does."""
        worker = self._processes[f"worker{number}"]
        executors = self.executors(number)
        worker.kill()
        worker.wait()
        for pid in executors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def executors(self, number: int | None = None) -> list[int]:
        """Return the process ids of the executors that run now; of worker *number*, or of all."""
        if number is not None:
            return list(self._executors(self._processes[f"worker{number}"].pid))
        return [pid for worker in self._processes.values() for pid in self._executors(worker.pid)]

    def completed(self) -> Any:
        """Return what the master says of the applications that have ended, as it names things."""
        return self._state()["completedapps"]

    def end(self) -> None:
        """Kill all of it; harmless where it has ended."""
        executors = self.executors()
        for process in self._processes.values():
            process.kill()
            process.wait()
        for pid in executors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def said(self) -> str:
        """Return the ends of what its processes wrote."""
        logs = sorted(self._directory.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs)

    def _start(self, name: str, java_class: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java_home(os.environ)),
            "SPARK_LOCAL_IP": _LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._directory / "local"),
            "SPARK_DAEMON_JAVA_OPTS": _SHORT_LIVED,
        }
        with (self._directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"{_CLASSES}.{java_class}", *arguments],
                env=environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait_for_workers(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._processes["master"].poll() is not None:
                break
            with contextlib.suppress(OSError):
                states = [worker["state"] for worker in self._state()["workers"]]
                if states.count("ALIVE") == self._workers:
                    return
            time.sleep(0.2)
        raise AssertionError(f"the cluster does not start:\n{self.said()}")

    def _state(self) -> Any:
        with urllib.request.urlopen(
            f"http://{_LOOPBACK}:{self._web_port}/json/", timeout=5
        ) as page:
            return json.load(page)

    def _executors(self, worker: int) -> Iterator[int]:
        """Yield the executors among the children of process *worker*."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().split(b"\0")
                parent = re.search(r"^PPid:\t(\d+)$", (entry / "status").read_text(), re.M)
                if _EXECUTOR in command and parent and int(parent[1]) == worker:
                    yield int(entry.name)
