"""The agent put together: started and drained in the order in which data flows."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final

import structlog

from agent.config import STATE_DIR_REMEDY, AgentConfig, InputTable
from agent.delivery.connection import Connector
from agent.delivery.dialect import SessionServices
from agent.delivery.encoders import Encoders
from agent.delivery.reader import SourceReader
from agent.failures import first_cause
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.globs import FileInputs
from agent.inputs.files.restore import Restorer
from agent.inputs.files.start_position import decide_start
from agent.inputs.files.tail import Tailer
from agent.inputs.files.watcher import DirectoryWatcher, NoWatcher, Scanner, Watcher
from agent.sources.checkpoint import CheckpointDamagedError, CheckpointFile
from agent.sources.checkpointer import Checkpointer
from agent.sources.file_log import FileLog
from agent.sources.first_run import Arrival
from agent.sources.identity import Fingerprinter, machine_agent_id
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from agent.sources.source import Counting, Source, SourceState
from agent.status import Status
from agent.summary import AgentSummary
from logdrive.errors import ConfigError, Mistake, UnavailableError, file_error_text, os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.net.stream import Transport

_POLLS_AT_ONCE: Final = 256
_SHORTEST_NAP_SECONDS, _LONGEST_NAP_SECONDS = 0.01, 0.25
_FILES_PER_NAP_SECOND, _LONGEST_SHORTEST_NAP_SECONDS = 200_000, 0.1
"""With thousands of files one is due at any time: they are looked at in batches, a fortieth of the
least interval apart.
"""
_DRAIN_LOOK_SECONDS: Final = 0.02
_RESERVED_HANDLES: Final = 128
"""Of those the process may have: for its connection, its checkpoint and its watches, however many
files there are.
"""

MakeWatcher = Callable[[Callable[[], None]], Watcher]


class Agent:
    """One agent. `run` is its whole life; `status` may be asked at any time of it."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        clock: Clock,
        disk: Disk,
        transport: Transport,
        executor: Executor,
        random: Random,
        open_files: int = sys.maxsize,
        when_idle: Callable[[], None] = lambda: None,
        log: Any = None,
    ) -> None:
        self._config, self._clock, self._disk = config, clock, disk
        self._log = log if log is not None else structlog.get_logger("agent")
        agent, host = agent_id(config, disk), config.agent.host or os.uname().nodename
        self._namer = Fingerprinter(agent, host, disk)
        self._inputs = FileInputs(config.input)
        self.book = SourceRegistry(host, agent, self._inputs)
        self.demand = SendQueue()
        encoders = Encoders(agent, host, clock)
        self._file_log = FileLog(self._log, clock)
        self.tailer = Tailer(
            self.book,
            self.demand,
            namer=self._namer,
            disk=disk,
            clock=clock,
            encoder_of=encoders.of,
            max_open_files=config.agent.max_open_files,
            close_idle_seconds=config.agent.close_idle_seconds,
            handles=open_files - min(_RESERVED_HANDLES, open_files // 2),
            held=DeletedFiles(config.agent.keep_removed_days, config.agent.keep_removed_bytes),
            log=self._log,
            file_log=self._file_log,
        )
        producer = SourceReader(self.tailer, clock, encoders.of)
        services = SessionServices(
            self.book,
            self.demand,
            self.tailer,
            producer,
            clock,
            executor,
            random,
            config.output,
            self._log,
            self._file_log,
        )
        self.connection = Connector(services, transport, encoders)
        self._scanner = Scanner(
            self._inputs,
            self.book,
            self.tailer,
            disk=disk,
            clock=clock,
            rescan_seconds=config.agent.rescan_seconds,
            file_log=self._file_log,
        )
        self._restorer = Restorer(
            self._inputs,
            self.book,
            self.tailer,
            self._namer,
            disk,
            clock,
            self._log,
            self._file_log,
        )
        self._summary = AgentSummary(
            self.book, self.tailer.living, clock, self._log, when_idle=when_idle
        )
        self._file = CheckpointFile(disk, config.agent.state_dir)
        self._keeper = Checkpointer(
            self.book,
            self._file,
            clock=clock,
            executor=executor,
            keep_days=config.agent.keep_ended_days,
            log=self._log,
        )

    async def run(self, stop: asyncio.Event, make_watcher: MakeWatcher = DirectoryWatcher) -> None:
        """Ship until *stop*, then drain.

        Raises `ConfigError` or `StorageError` where it can't go on.
        """
        with contextlib.ExitStack() as held:
            self._hold_state_dir(held)
            held.callback(self._file_log.flush)
            await self._begin()
            await self._live(stop, self._watcher(make_watcher))

    def _hold_state_dir(self, held: contextlib.ExitStack) -> None:
        state_dir = self._config.agent.state_dir
        try:
            self._disk.make_directory(state_dir)
            held.enter_context(self._disk.lock(os.path.join(state_dir, "lock")))
        except BlockingIOError:
            remedy = "another agent runs with it: stop that one, or give this one its own"
            raise UnavailableError(
                "agent", [Mistake("agent.state_dir", state_dir, remedy)]
            ) from None
        except OSError as error:
            remedy = f"it can't be used ({os_error_text(error)}): {STATE_DIR_REMEDY}"
            raise UnavailableError(
                "agent", [Mistake("agent.state_dir", state_dir, remedy)]
            ) from error

    def _watcher(self, make: MakeWatcher) -> Watcher:
        """Return a watcher, or one that sees nothing where the kernel gives none: scans find all
        that it would.
        """
        try:
            return make(self._scanner.woken.set)
        except OSError as error:
            rescan = self._config.agent.rescan_seconds
            self._log.warning(
                "the kernel does not tell of new files: scans find them",
                reason=file_error_text(error),
                rescan_seconds=rescan,
            )
            return NoWatcher()

    def status(self) -> Status:
        """Return how every source stands."""
        return Status.of(self.book, self.tailer.living.values(), self.connection)

    # Beginning -----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Find out what there is, and where to start, before anything is read (rules G1, P2)."""
        first_run = True
        try:
            checkpoint = self._file.read(self.book.agent)
        except CheckpointDamagedError as error:
            self._log.warning(
                "checkpoint can't be used: starting as without one",
                reason=str(error),
                moved_to=error.aside,
            )
            checkpoint, first_run = None, not error.ours
        entries = checkpoint.entries if checkpoint is not None else []
        from_end = self._inputs.first_from_end
        if from_end is not None or any(entry.undecided for entry in entries):
            labels = from_end or InputTable(paths=["/"])
            arrival = Arrival(
                self.book, self.demand, self._clock, self._file.path, labels, self._log
            )
            entries = [entry for entry in entries if entry.origin != arrival.origin]
        self._restorer.restore(entries)
        self._file_log.flush()  # all that the checkpoint brings is known now
        await self._scanner.scan(Counting.KNOWN if checkpoint is not None else Counting.MANY)
        self.tailer.poll_all()
        if checkpoint is None and first_run:
            await self._propose_starts()
        self._log.info(
            "files found",
            living=len(self.tailer.living),
            ended=len(self.book.ended),
            checkpoint=checkpoint is not None,
        )

    async def _propose_starts(self) -> None:
        """Find where to start, should the store not know this agent: at the end.

        Durable before the store is asked (rule P2).
        """
        skipping = [
            followed
            for followed in self.tailer.living.values()
            if decide_start(followed.generation)
        ]
        for followed in skipping:
            assert followed.source is not None, "it has a first line"
            followed.source.undecided = True
        if skipping:
            await self._keeper.write()

    # Living and ending ---------------------------------------------------------------------------

    async def _live(self, stop: asyncio.Event, watcher: Watcher) -> None:
        ended = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keeper.run(ended), name="agent-checkpoint")
                summary = group.create_task(self._summary.run(), name="agent-summary")
                connection = group.create_task(self.connection.run(), name="agent-connection")
                finding = [
                    group.create_task(self._tail(), name="agent-tail"),
                    group.create_task(
                        self._scanner.run(watcher, self._restorer.retry), name="agent-scan"
                    ),
                ]
                try:
                    await stop.wait()
                    for task in finding:
                        task.cancel()
                    await self._drain()
                finally:
                    summary.cancel()
                    connection.cancel()
                    ended.set()
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        finally:
            watcher.close()

    async def _tail(self) -> None:
        """Look at files as they are due, several at each waking."""
        while True:
            wait = self.tailer.poll_due(_POLLS_AT_ONCE)
            batch = min(
                _LONGEST_SHORTEST_NAP_SECONDS, len(self.tailer.living) / _FILES_PER_NAP_SECOND
            )
            nap = (
                _LONGEST_NAP_SECONDS
                if wait is None
                else min(_LONGEST_NAP_SECONDS, max(_SHORTEST_NAP_SECONDS, batch, wait))
            )
            await self._clock.sleep(nap if wait != 0.0 else 0.0)

    def _outstanding(self, until: float) -> bool:
        return any(_is_outstanding(source, until) for source in self.book.sources)

    async def _drain(self) -> None:
        """Go on until all that is there now is acknowledged, for as long as the configuration
        allows.
        """
        until = self._clock.monotonic() + self._config.agent.drain_seconds
        self._log.info("draining", seconds=self._config.agent.drain_seconds)
        await self._scanner.scan()
        self.tailer.poll_all()
        while self._clock.monotonic() < until:
            waiting = self.tailer.poll_waiting()
            if self.connection.settled and not waiting and not self._outstanding(until):
                break
            await self._clock.sleep(_DRAIN_LOOK_SECONDS)
        if left := self._summary.left(self.connection.problem):
            self._log.warning(
                "ended with lines undelivered: they follow after the next start",
                **left,
                **self._summary.total(),
            )
        else:
            self._log.info("drained", **self._summary.total())


def _is_outstanding(source: Source, until: float) -> bool:
    """Tell whether *source* has something to send that can still be sent."""
    if source.state is SourceState.PAUSED and source.retry_at > until:
        return False
    return bool(source.kept) or source.has_more


def agent_id(config: AgentConfig, disk: Disk) -> str:
    """Return who this agent is.

    Raises `ConfigError` where neither the configuration nor the machine says so.
    """
    if config.agent.id is not None:
        return config.agent.id
    try:
        return machine_agent_id(disk)
    except OSError as error:
        remedy = (
            f"this machine has no id to make one from ({os_error_text(error)}): write one, "
            "different on each host"
        )
        raise ConfigError("agent", [Mistake("agent.id", "", remedy)]) from error


async def run(
    config: AgentConfig,
    *,
    clock: Clock,
    disk: Disk,
    transport: Transport,
    executor: Executor,
    random: Random,
    stop: asyncio.Event,
    make_watcher: MakeWatcher = DirectoryWatcher,
    open_files: int = sys.maxsize,
    when_idle: Callable[[], None] = lambda: None,
) -> None:
    """Run an agent until *stop* is set and it has drained.

    *open_files* is how many the process may have.

    *when_idle* is called when nothing was acknowledged for a minute after something was.
    """
    agent = Agent(
        config,
        clock=clock,
        disk=disk,
        transport=transport,
        executor=executor,
        random=random,
        open_files=open_files,
        when_idle=when_idle,
    )
    await agent.run(stop, make_watcher)
