"""The places that speak Iggy's protocol: logdrive's own store and real servers, for one client."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.iggy.client import IggySocket
from bench.measure import Setting
from bench.store.served import served_store
from logdrive.wire.iggy.requests import CreateTopic, IggyCreateStream
from logdrive.wire.iggy.revision import Revision
from tests.support.iggy.servers import DURABLE, ServerRevision, iggy_server, why_no_iggy_server

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
    with served_store("iggy", setting) as (port, pid, path):
        place = IggyPlace(port, revision, pid, path)
        _create(place, partitions)
        yield place


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
