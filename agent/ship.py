"""`logdrive agent ship`: some files, as they are now, once; it ends when all is acknowledged (rules
P3, G3, history 16).

It keeps nothing: the receiver knows what it has, so a second run asks and sends nothing.
"""

import asyncio
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

import structlog

from agent.config import InputTable, OutputTable
from agent.delivery.connection import Connector
from agent.delivery.dialect import SessionServices
from agent.delivery.encoders import Encoders
from agent.delivery.reader import SourceReader
from agent.failures import first_cause
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import Followed
from agent.inputs.files.globs import FileInputs
from agent.inputs.files.handle_shortage import CODES
from agent.inputs.files.tail import Tailer
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, machine_agent_id
from agent.sources.place import FileLocation
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from agent.sources.source import Acknowledged, Counting, Source, SourceState
from logdrive.errors import ConfigError, Mistake, TransientError, os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.net.settings import ClientTlsConfig
from logdrive.net.stream import Transport

_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What `ship` did, or has done so far.

    *events* and *bytes* are those sent and acknowledged by this run, *there* all bytes.
    """

    files: int
    events: int
    bytes: int
    gap_bytes: int
    there: int
    left: int
    complete: bool


async def ship(
    files: Sequence[str],
    output: OutputTable,
    *,
    clock: Clock,
    disk: Disk,
    transport: Transport,
    executor: Executor,
    random: Random,
    agent: str | None = None,
    host: str | None = None,
    labels: InputTable | None = None,
    give_up_seconds: float = 60.0,
    progress: Callable[[Shipped], None] | None = None,
    stop: asyncio.Event | None = None,
) -> Shipped:
    """Ship *files* and return once all of them is acknowledged, or *stop* is set.

    Raises `ConfigError` for files that can't be read, `TransientError` where the receiver can't be
    reached or acknowledges nothing for *give_up_seconds*, or refuses for good.
    """
    log = structlog.get_logger("agent")
    agent = agent or _machine_agent(disk)
    namer = Fingerprinter(agent, host or os.uname().nodename, disk)
    settings = labels or InputTable(paths=["/"])
    book, demand = SourceRegistry(namer.host, agent, FileInputs([settings])), SendQueue()
    encoders = Encoders(agent, namer.host, clock)
    file_log = FileLog(log, clock)
    tailer = Tailer(
        book,
        demand,
        namer=namer,
        disk=disk,
        clock=clock,
        encoder_of=encoders.of,
        max_open_files=len(files),
        close_idle_seconds=0.0,
        held=DeletedFiles(math.inf, sys.maxsize),
        scans=False,
        log=log,
        file_log=file_log,
    )
    _follow(files, settings, tailer, namer, disk)
    producer = SourceReader(tailer, clock, encoders.of)
    services = SessionServices(
        book, demand, tailer, producer, clock, executor, random, output, log, file_log
    )
    connection = Connector(services, transport, encoders, patient=False)
    shipment = _Shipment(services, tailer, connection, give_up_seconds, progress)
    try:
        return await shipment.run(stop or asyncio.Event())
    finally:
        file_log.flush()


def output_to(host: str, tls: ClientTlsConfig | Literal["off"], **settings: Any) -> OutputTable:
    """Return the output of a command line that names one receiver."""
    return OutputTable(hosts=[host], tls=tls, **settings)


def _machine_agent(disk: Disk) -> str:
    try:
        return machine_agent_id(disk)
    except OSError as error:
        remedy = f"this machine has no id to make one from ({os_error_text(error)}): name one"
        raise ConfigError("agent ship", [Mistake("agent id", "", remedy)]) from error


def _follow(
    files: Sequence[str], settings: InputTable, tailer: Tailer, namer: Fingerprinter, disk: Disk
) -> None:
    """Follow every file, each once, however it is named.

    Raises `ConfigError` naming all that can't be read.
    """
    mistakes = []
    for name in files:
        path = os.path.abspath(name)
        try:
            stat = disk.stat(path)
            if not stat.is_file:
                mistakes.append(Mistake("file", name, "it is no regular file"))
                continue
            name = disk.real_path(path)
            place = FileLocation(
                path,
                name,
                namer.mount_of(os.path.dirname(name)),
                stat.device,
                stat.inode,
                stat.birth_ns,
            )
            if place.key in tailer.living:
                continue
            generation = Generation(place, settings)
            generation.impatient = True
            tailer.open(generation)
            tailer.follow(Followed(generation, counting=Counting.MANY, ships_unfinished=True))
        except OSError as error:
            if error.errno in CODES:  # it would be said of all that follow
                remedy = (
                    f"no more than {len(tailer.living)} of {len(files)} can be open: raise "
                    "the limit (ulimit -n), or ship fewer at once"
                )
                mistakes.append(Mistake("files", "", remedy))
                break
            mistakes.append(Mistake("file", name, f"it can't be read: {os_error_text(error)}"))
    if mistakes:
        raise ConfigError("agent ship", mistakes)


class _Shipment:
    """One run of `ship`."""

    def __init__(
        self,
        services: SessionServices,
        tailer: Tailer,
        connection: Connector,
        give_up_seconds: float,
        progress: Callable[[Shipped], None] | None,
    ) -> None:
        self._services, self._tailer, self._connection = services, tailer, connection
        self._files = len(tailer.living)
        self._give_up_seconds, self._progress = give_up_seconds, progress

    async def run(self, stop: asyncio.Event) -> Shipped:
        services = self._services
        self._tailer.poll_all()
        for source in services.book.sources:
            source.must_register = True  # only the receiver knows what it has
        if not services.book.sources:
            return self._shipped()
        try:
            async with asyncio.TaskGroup() as group:
                connection = group.create_task(self._connection.run(), name="ship-connection")
                shipped = await self._wait(stop)
                connection.cancel()
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        return shipped

    async def _wait(self, stop: asyncio.Event) -> Shipped:
        """Return how it stood when all was acknowledged, or *stop* was set."""
        clock = self._services.clock
        moved, last, problem = clock.monotonic(), (0, 0), "it acknowledges nothing"
        while True:
            shipped = self._shipped()
            # a new connection has none yet
            problem = self._connection.problem or self._waiting() or problem
            if self._progress is not None:
                self._progress(shipped)
            if shipped.complete or stop.is_set():
                return shipped
            self._check_refusals()
            session = self._connection.session
            state = (
                shipped.bytes + shipped.gap_bytes,
                session.progress if session is not None else 0,
            )
            if state != last:
                moved, last = clock.monotonic(), state
            elif clock.monotonic() - moved > self._give_up_seconds:
                raise TransientError(
                    f"gave up after {self._give_up_seconds:g} s without progress: {problem}"
                )
            await clock.sleep(_LOOK_SECONDS)

    def _waiting(self) -> str:
        """Return what a source waits for that the connection there is does not bring, "" where none
        does.
        """
        return next(
            (
                source.problem
                for source in self._services.book.sources
                if source.state is SourceState.IDLE and source.problem
            ),
            "",
        )

    def _check_refusals(self) -> None:
        """Raise `TransientError` where a source is refused for longer than we are willing to
        wait.
        """
        for source in self._services.book.sources:
            if (
                source.state is SourceState.PAUSED
                and source.retry_at - self._services.clock.monotonic() > self._give_up_seconds / 2
            ):
                raise TransientError(source.problem)

    def _shipped(self) -> Shipped:
        book = self._services.book
        total = Acknowledged()
        total.add(book.finished)
        for source in book.sources:
            total.add(source.acknowledged)
        left = sum(
            source.generation.seen - source.position
            for source in book.sources
            if source.generation is not None
        )
        return Shipped(
            files=self._files,
            events=total.events,
            bytes=total.bytes,
            gap_bytes=total.gap_bytes,
            there=sum(followed.generation.seen for followed in self._tailer.living.values()),
            left=max(0, left),
            complete=all(_complete(source) for source in book.sources),
        )


def _complete(source: Source) -> bool:
    return source.state is SourceState.OPEN and not source.kept and not source.has_more
