"""`logdrive agent ship`: delivers files as they are now, and ends when all is acknowledged (rules
P3, G3).

It keeps no checkpoint. The receiver knows what it has, so a second run asks for the positions and
sends only what was added. A file without a first line gets its end record at once: later it may
have a first line, and would then be another source.
"""

import asyncio
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import structlog

from agent.config.files import InputTable
from agent.config.output import OutputTable
from agent.delivery.connection_encoders import ConnectionEncoders
from agent.delivery.delivery import Delivery
from agent.delivery.dialect import SessionServices
from agent.delivery.encoders import Encoders, packing_of
from agent.delivery.reader import SourceReader
from agent.delivery.spread import SourceSpread
from agent.failures import first_cause
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.handle_shortage import HANDLE_ERRORS
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.globs import FileInputs
from agent.inputs.files.paths.suffixes import suffix_of
from agent.inputs.files.tail import Tailer
from agent.sources.acknowledged import Acknowledged
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, machine_agent_id
from agent.sources.incarnation_search import Counting
from agent.sources.place import FileLocation
from agent.sources.queue import SendQueue
from agent.sources.registration import SourceState
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import ConfigError, Mistake, TransientError, os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.host import Host
from logdrive.net.settings import ClientTlsConfig

_REST_SECONDS: Final = 0.02
"""Progress is looked at no more often than this: a look takes about 1 µs a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What `ship` has delivered so far."""

    files: int
    """Files to ship."""
    events: int
    """Events sent and acknowledged by this run."""
    bytes: int
    """Bytes of the files, of these events."""
    gap_bytes: int
    """Bytes of the files that could not be read, and were reported as gaps."""
    total_bytes: int
    """Bytes of all files."""
    left: int
    """Bytes that were not acknowledged."""
    complete: bool
    """Whether all was acknowledged."""
    problem: str
    """Why nothing can be delivered now, for people; "" while it goes on."""


async def ship(
    files: Sequence[str],
    output: OutputTable,
    *,
    host: Host,
    agent: str | None = None,
    host_name: str | None = None,
    labels: InputTable | None = None,
    give_up_seconds: float = 60.0,
    progress: Callable[[Shipped], None] | None = None,
    stop: asyncio.Event | None = None,
) -> Shipped:
    """Deliver *files*; return once all of them is acknowledged, or *stop* is set.

    *agent* is the agent id, by default made from the machine id, *host_name* the name in records.
    *labels* is an input's table: what is added to all lines, and how they are cut. *progress* is
    called whenever something was acknowledged.

    Raises `ConfigError` for files that can't be read. Raises `TransientError` if the receiver can't
    be reached, acknowledges nothing for *give_up_seconds*, or refuses a source for longer.
    """
    fingerprinter = Fingerprinter(
        agent or _machine_agent(host.disk), host_name or os.uname().nodename, host.disk
    )
    settings = labels or InputTable(paths=["/"])
    parts = _make_parts(host, output, settings, fingerprinter, len(files))
    _follow(files, settings, parts.tailer, fingerprinter, host.disk)

    shipment = _Shipment(parts, host.clock, give_up_seconds, progress)
    try:
        return await shipment.run(stop or asyncio.Event())
    finally:
        parts.file_log.flush()


def output_for(host: str, tls: ClientTlsConfig | Literal["off"], **settings: Any) -> OutputTable:
    """Return the output of a command line that names one receiver."""
    return OutputTable(hosts=[host], tls=tls, **settings)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What ships files."""

    registry: SourceRegistry
    tailer: Tailer
    delivery: Delivery
    file_log: FileLog


def _make_parts(
    host: Host,
    output: OutputTable,
    settings: InputTable,
    fingerprinter: Fingerprinter,
    max_open_files: int,
) -> _Parts:
    """Return the parts that ship files. No file is followed yet."""
    clock, log = host.clock, structlog.get_logger("agent")
    registry = SourceRegistry(fingerprinter.host, fingerprinter.agent, FileInputs([settings]))
    send_queue, file_log = SendQueue(), FileLog(log, clock)

    def make_encoders(output: OutputTable) -> Encoders:
        return Encoders(
            fingerprinter.agent, fingerprinter.host, clock, packing_of(output), file_log
        )

    # All files stay open, deleted ones too, and none is looked for under other names.
    encoders = ConnectionEncoders(send_queue, make_encoders)
    tailer = Tailer(
        registry,
        send_queue,
        fingerprinter=fingerprinter,
        disk=host.disk,
        clock=clock,
        encoder_of=encoders.encoder_for,
        open_files=OpenFiles(
            host.disk, clock, log, max_open_files=max_open_files, close_idle_seconds=0.0
        ),
        deleted_files=DeletedFiles(math.inf, sys.maxsize),
        inputs=None,
        log=log,
        file_log=file_log,
    )

    make_services = partial(
        SessionServices,
        registry=registry,
        input=tailer,
        source_reader=SourceReader(tailer, clock, encoders.encoder_for),
        clock=clock,
        executor=host.executor,
        random=host.random,
        log=log,
        file_log=file_log,
    )
    delivery = Delivery(
        output,
        make_services,
        send_queue=send_queue,
        spread=SourceSpread(registry, send_queue, encoders, clock),
        encoders=encoders,
        transport=host.transport,
        clock=host.clock,
        patient=False,
    )
    return _Parts(registry, tailer, delivery, file_log)


def _machine_agent(disk: Disk) -> str:
    try:
        return machine_agent_id(disk)
    except OSError as error:
        remedy = f"this machine has no id to make one from ({os_error_text(error)}): name one"
        raise ConfigError("agent ship", [Mistake("agent id", "", remedy)]) from error


def _follow(
    files: Sequence[str],
    settings: InputTable,
    tailer: Tailer,
    fingerprinter: Fingerprinter,
    disk: Disk,
) -> None:
    """Follow each file once, by however many names it is given.

    Raises `ConfigError`, which names all files that can't be read.
    """
    mistakes = []
    for name in files:
        path = os.path.abspath(name)
        try:
            stat = disk.stat(path)
            if not stat.is_file:
                mistakes.append(Mistake("file", name, "it is no regular file"))
                continue
            if suffix_of(path):
                mistakes.append(Mistake("file", name, "it is compressed: unpack it first"))
                continue
            name = disk.real_path(path)
            place = FileLocation(
                path,
                name,
                fingerprinter.mount_of(os.path.dirname(name)),
                stat.device,
                stat.inode,
                stat.birth_ns,
            )
            # a second name of a file that was named before
            if place.key in tailer.followed:
                continue

            generation = Generation(place, settings, impatient=True)
            tailer.open_files.open_file(generation)
            tailer.follow_file(
                FollowedFile(generation, counting=Counting.MANY, ships_unfinished=True)
            )
        except OSError as error:
            if error.errno in HANDLE_ERRORS:
                # All files that follow would fail in the same way.
                remedy = (
                    f"no more than {len(tailer.followed)} of {len(files)} can be open: raise "
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
        parts: _Parts,
        clock: Clock,
        give_up_seconds: float,
        progress: Callable[[Shipped], None] | None,
    ) -> None:
        self._registry = parts.registry
        self._tailer = parts.tailer
        self._delivery = parts.delivery
        self._clock = clock
        self._files = len(parts.tailer.followed)  # those that have ended are not followed any more
        self._give_up_seconds = give_up_seconds  # longest time without progress
        self._progress = progress  # called whenever something was acknowledged

    async def run(self, stop: asyncio.Event) -> Shipped:
        """Deliver all files; return what was delivered then, or when *stop* is set."""
        self._tailer.poll_all()
        sources = self._registry.sources
        for source in sources:
            # only the receiver knows what it has
            source.registration.require()
        # empty files have no first line, hence no source
        if not sources:
            return self._shipped()

        try:
            async with asyncio.TaskGroup() as group:
                connection = group.create_task(self._delivery.run(), name="ship-connection")
                stopping = group.create_task(self._wake_on(stop), name="ship-stop")
                shipped = await self._wait(stop)
                connection.cancel()
                stopping.cancel()
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        return shipped

    async def _wake_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._delivery.note_change()

    async def _wait(self, stop: asyncio.Event) -> Shipped:
        """Return what was delivered once all was acknowledged, or *stop* was set."""
        clock = self._clock
        # when something was acknowledged or answered last (s), and how much was by then
        progress_at, last = clock.monotonic(), (0, 0)
        # why nothing is acknowledged, for people
        problem = "it acknowledges nothing"
        while True:
            shipped = self._shipped()
            # a new connection has no problem yet: keep that of the one before it
            problem = shipped.problem or problem
            if self._progress is not None:
                self._progress(shipped)
            if shipped.complete or stop.is_set():
                return shipped
            self._check_refusals()

            # answers to registrations are progress, too: ten thousand of them take a while
            session = self._delivery.session
            state = (
                shipped.bytes + shipped.gap_bytes,
                session.progress if session is not None else 0,
            )
            if state != last:
                progress_at, last = clock.monotonic(), state
            left = progress_at + self._give_up_seconds - clock.monotonic()
            if left <= 0:
                raise TransientError(
                    f"gave up after {self._give_up_seconds:g} s without progress: {problem}"
                )
            await self._delivery.wait_for_change(left)
            await clock.sleep(_REST_SECONDS)

    def _waiting_reason(self) -> str:
        """Return why a source does not register on the connection there is; "" if none waits."""
        return next(
            (
                source.registration.problem
                for source in self._registry.sources
                if source.state is SourceState.IDLE and source.registration.problem
            ),
            "",
        )

    def _check_refusals(self) -> None:
        """Raise `TransientError` if a source is refused for longer than we wait for progress."""
        now = self._clock.monotonic()
        for source in self._registry.sources:
            registration = source.registration
            refused = registration.state is SourceState.PAUSED
            # pauses double: those before this one took about as long again
            if refused and registration.retry_at - now > self._give_up_seconds / 2:
                raise TransientError(registration.problem)

    def _shipped(self) -> Shipped:
        registry = self._registry
        total = Acknowledged()
        total.add(registry.finished)
        for source in registry.sources:
            total.add(source.acknowledged)

        left = sum(
            source.generation.seen - source.position
            for source in registry.sources
            if source.generation is not None
        )
        return Shipped(
            files=self._files,
            events=total.events,
            bytes=total.bytes,
            gap_bytes=total.gap_bytes,
            total_bytes=sum(
                followed.generation.seen for followed in self._tailer.followed.values()
            ),
            left=max(0, left),
            complete=all(_is_complete(source) for source in registry.sources),
            problem=self._delivery.problem or self._waiting_reason(),
        )


def _is_complete(source: Source) -> bool:
    return source.state is SourceState.OPEN and not source.is_behind
