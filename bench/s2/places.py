"""The places that speak S2's protocol: logdrive's own store and a real s2-lite, for one client."""

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Sample, Setting
from bench.processes import peak_rss
from bench.s2.http2_socket import Http2Socket
from bench.store.served import served_store
from tests.support.s2.lite import s2_lite, why_no_s2_lite

BASIN, STREAM = "bench-basin", "bench"
_HEADERS = [("s2-basin", BASIN), ("content-type", "application/json")]


@dataclass(frozen=True, slots=True)
class S2Server:
    """A place with one empty stream: *connect* makes a connection, *pid* is its process, *files*
    the directory of its data.
    """

    connect: Callable[[], socket.socket]
    pid: int
    files: Path

    def cpu_seconds(self) -> float:
        """Return what it used so far."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def memory(self) -> dict[str, Sample]:
        """Return the memory that it holds, and the most that it held."""
        return {
            "rss": Sample(_rss(self.pid) / 2**20, "MiB"),
            "peak_rss": Sample(peak_rss(self.pid) / 2**20, "MiB"),
        }


S2Place = Callable[[Setting], contextlib.AbstractContextManager[S2Server]]


def _rss(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def ours(setting: Setting) -> Iterator[S2Server]:
    """Run `logdrive store run` with a port for S2 on a new store, which is removed afterwards."""
    with served_store("s2", setting) as (port, pid, path):
        server = S2Server(lambda: socket.create_connection(("127.0.0.1", port)), pid, path)
        _create(server)
        yield server


@contextlib.contextmanager
def lite(setting: Setting) -> Iterator[S2Server]:
    """Run a real s2-lite on a new directory, which is removed afterwards; it syncs before it
    acknowledges.
    """
    path = setting.work / "s2_lite"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        with s2_lite(path) as running:
            server = S2Server(running.connect_inside, running.pid, path)
            _create(server)
            yield server
    finally:
        shutil.rmtree(path, ignore_errors=True)


def no_lite() -> str | None:
    """Say why a real s2-lite can't be run here."""
    return why_no_s2_lite() or None


def _create(server: S2Server) -> None:
    with Http2Socket(server.connect()) as client:
        for path, name, value in (
            ("/v1/basins", "basin", BASIN),
            ("/v1/streams", "stream", STREAM),
        ):
            body = f'{{"{name}": "{value}"}}'.encode()
            client.request("POST", path, _HEADERS, body)
