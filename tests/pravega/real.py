"""A real Pravega 0.13.0 on loopback, from Maven Central: fetched once, in memory, ended with the
tests.
"""

import contextlib
import fcntl
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SERVER = Path(__file__).parent / "server"
LIBRARY = Path(__file__).parents[2] / "build" / "pravega" / "lib"
_FETCH_SECONDS, _START_SECONDS = 200, 180
_HEAP = "512m"
_JAVA = 11  # the first version that it runs on


class MissingError(Exception):
    """The server can't be had here; says why."""


@dataclass(frozen=True, slots=True)
class RealPravega:
    """Where its controller and its segment store listen, on 127.0.0.1; *pid* is its process."""

    controller: int
    store: int
    pid: int


@contextlib.contextmanager
def real_pravega(directory: Path, *properties: str, heap: str = _HEAP) -> Iterator[RealPravega]:
    """Run a server with *directory* for its files.

    Raises `MissingError` where Java, Maven or the jars can't be had.
    """
    fetch()
    controller, store, keeper = _free_ports(3)
    command = [
        "java",
        f"-Xmx{heap}",
        f"-XX:MaxDirectMemorySize={heap}",
        "-XX:+UseSerialGC",
        "--add-opens",
        "java.base/java.lang=ALL-UNNAMED",
        f"-Dlogback.configurationFile={SERVER / 'logback.xml'}",
        "-cp",
        f"{LIBRARY}/*",
        str(SERVER / "Server.java"),
        str(directory),
        str(controller),
        str(store),
        str(keeper),
        *properties,
    ]
    log = directory / "server.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=directory
        ) as process,
    ):
        try:
            _wait_for(process, log, controller, store)
            yield RealPravega(controller, store, process.pid)
        finally:
            process.kill()


def fetch() -> None:
    """Fetch the jars, once; they are complete when the mark beside them is there.

    Raises `MissingError`.
    """
    java, mark = shutil.which("java"), LIBRARY.with_suffix(".complete")
    if java is None:
        raise MissingError(
            "no java: install a JDK, version 11 or later (Debian: openjdk-17-jdk-headless)"
        )
    version = subprocess.run(
        [java, "-version"], check=True, capture_output=True, text=True
    ).stderr.split('"')[1]
    if int(version.split(".")[0]) < _JAVA:
        raise MissingError(f"java is version {version}: Pravega needs {_JAVA} or later")
    if (
        "jdk.compiler"
        not in subprocess.run(
            [java, "--list-modules"], check=True, capture_output=True, text=True
        ).stdout
    ):
        raise MissingError(
            "java has no compiler: install a JDK, not only its runtime (Debian: "
            "openjdk-17-jdk-headless)"
        )
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    with LIBRARY.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run side by side fetch once
        if not mark.exists():
            _fetch_jars()
            mark.touch()


def _fetch_jars() -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError("no mvn: install Maven, which fetches the server (Debian: maven)")
    goal = [
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={LIBRARY}",
    ]
    try:
        done = subprocess.run(
            [maven, "-B", "-q", "-f", SERVER / "pom.xml", *goal],
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise MissingError(
            f"Maven Central did not give Pravega's jars (about 75 MB) within {_FETCH_SECONDS} s"
        ) from error
    if done.returncode:
        raise MissingError(
            f"Maven could not fetch Pravega's jars: {(done.stdout + done.stderr)[-2000:]}"
        )


def _wait_for(process: "subprocess.Popen[bytes]", log: Path, *ports: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not all(map(_listens, ports)):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Pravega did not start:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [
            held.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0))))
            for _ in range(count)
        ]
        return [made.getsockname()[1] for made in sockets]
