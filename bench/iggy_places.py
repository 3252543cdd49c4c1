"""The places that speak Iggy's protocol: logdrive's own store and real servers, for one client."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.iggy_client import IggySocket
from bench.measure import Setting
from bench.processes import Child, family, free_port, wait_for_listener
from logdrive.wire.iggy.requests import CreateTopic, IggyCreateStream
from logdrive.wire.iggy.revision import Revision
from tests.support.iggy_servers import DURABLE, ServerRevision, iggy_server, why_no_iggy_server

STREAM, TOPIC = "bench", "bench"


@dataclass(frozen=True, slots=True)
class IggyPlace:
    """A running server with an empty topic.

    *pid* is its process, *files* the directory of its data; clients speak *revision*.
    """

    port: int
    revision: Revision
    pid: int
    files: Path

    def connect(self) -> IggySocket:
        """Return a new connection."""
        return IggySocket(self.port, self.revision)

    def cpu_seconds(self) -> float:
        """Return what the server used so far."""
        return time.clock_gettime(~self.pid << 3 | 2)


MakePlace = Callable[[Setting, int], contextlib.AbstractContextManager[IggyPlace]]
"""Makes a place whose topic has so many partitions."""


@contextlib.contextmanager
def _ours(revision: Revision, setting: Setting, partitions: int) -> Iterator[IggyPlace]:
    path, config = setting.work / "iggy_store", setting.work / "iggy_store.toml"
    shutil.rmtree(path, ignore_errors=True)
    try:
        with family() as children:
            port = free_port()
            config.write_text(
                f'[store]\npath = "{path}"\n'
                f'[listen.pravega]\naddress = "127.0.0.1:{free_port()}"\n'
                f'[listen.iggy]\naddress = "127.0.0.1:{port}"\n'
            )
            program = os.path.join(os.path.dirname(sys.executable), "logdrive")
            child = Child(
                [program, "store", "run", "--config", config, "--log-level", "warning"],
                log=setting.work / "iggy_store.log",
            )
            children.append(child)
            wait_for_listener(port, child)
            place = IggyPlace(port, revision, child.pid, path)
            _create(place, partitions)
            yield place
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _real(name: ServerRevision, setting: Setting, partitions: int) -> Iterator[IggyPlace]:
    path = setting.work / f"iggy_{name.lower()}"
    shutil.rmtree(path, ignore_errors=True)
    try:
        with iggy_server(name, path, DURABLE) as server:
            place = IggyPlace(server.port, Revision[name], server.pid, path / "data")
            _create(place, partitions)
            yield place
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _create(place: IggyPlace, partitions: int) -> None:
    with contextlib.closing(place.connect()) as client:
        chosen = 1 if place.revision is Revision.R0 else None  # the client chooses ids there
        client.call(IggyCreateStream(STREAM, chosen))
        client.call(CreateTopic(STREAM, TOPIC, partitions, id=chosen))


def ours(revision: Revision) -> MakePlace:
    """`logdrive store run` on a new store, for clients of *revision*."""
    return partial(_ours, revision)


def real(name: ServerRevision) -> MakePlace:
    """A real server that saves and syncs each send before it acknowledges, on a new directory."""
    return partial(_real, name)


def no_real(name: ServerRevision) -> str | None:
    """Say why a real server of that revision can't be run here."""
    return why_no_iggy_server(name) or None
