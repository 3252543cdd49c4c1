"""The agent put together: started and drained in the order in which data flows."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import structlog

from agent.config import STATE_DIR_REMEDY, AgentConfig, InputTable
from agent.delivery.connection import Connector
from agent.delivery.dialect import SessionServices
from agent.delivery.encoders import Encoders, packing_of
from agent.delivery.reader import SourceReader
from agent.failures import first_cause
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.globs import FileInputs
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.poll_intervals import nap_seconds
from agent.inputs.files.restore import Restorer
from agent.inputs.files.scanner import Scanner
from agent.inputs.files.start_position import decide_start
from agent.inputs.files.tail import Tailer
from agent.inputs.files.watcher import DirectoryWatcher, NoWatcher, Watcher
from agent.sources.checkpoint import CheckpointDamagedError, CheckpointEntry, CheckpointFile
from agent.sources.checkpointer import Checkpointer
from agent.sources.file_log import FileLog
from agent.sources.first_run import FirstRunSource
from agent.sources.identity import Fingerprinter, machine_agent_id
from agent.sources.incarnation_search import Counting
from agent.sources.queue import SendQueue
from agent.sources.registration import SourceState
from agent.sources.registry import SourceRegistry
from agent.status import Status
from agent.summary import AgentSummary
from logdrive.errors import ConfigError, Mistake, UnavailableError, file_error_text, os_error_text
from logdrive.host.disk import Disk
from logdrive.host.host import Host

_POLLS_AT_ONCE: Final = 256
"""Files that are looked at before other tasks run."""
_REST_SECONDS: Final = 0.02
"""While draining, what is left is looked at no more often than this: a look at a file that lacks a
handle may itself be the next change.
"""
_HANDLE_LOOK_SECONDS: Final = 0.1
"""While draining, files that lack a handle are looked at this often."""
_RESERVED_HANDLES: Final = 128
"""Handles that no file takes: for the connection, the checkpoint and the watches."""

MakeWatcher = Callable[[Callable[[], None]], Watcher]


class Agent:
    """One agent. Call `run` once; `status` may be called while it runs.

    *open_files* is how many files the process may open. *when_idle* is called when nothing was
    acknowledged for a minute after something was.
    """

    def __init__(
        self,
        config: AgentConfig,
        *,
        host: Host,
        open_files: int = sys.maxsize,
        when_idle: Callable[[], None] = lambda: None,
        log: Any = None,
    ) -> None:
        self._config = config
        self._host = host
        self._log = log if log is not None else structlog.get_logger("agent")
        self._file_log = FileLog(self._log, host.clock)  # lines of which each file may have one

        # what is known of sources
        agent = resolve_agent_id(config, host.disk)
        host_name = config.agent.host or os.uname().nodename
        self._fingerprinter = Fingerprinter(agent, host_name, host.disk)  # makes origin ids
        self._inputs = FileInputs(config.input)  # which files to follow
        self.registry = SourceRegistry(host_name, agent, self._inputs)
        self.send_queue = SendQueue()  # sources that need to register or have data to send

        # from files to the receiver
        encoders = Encoders(agent, host_name, host.clock, packing_of(config.output))
        self.tailer = self._make_tailer(encoders, open_files)
        self.connection = Connector(self._make_services(encoders), host.transport, encoders)
        self._scanner = self._make_scanner()  # finds files that inputs match
        self._restorer = self._make_restorer()  # finds the files of the checkpoint's entries

        # what is kept and logged
        self._summary = AgentSummary(
            self.registry, self.tailer.followed, host.clock, self._log, when_idle=when_idle
        )
        self._file = CheckpointFile(host.disk, config.agent.state_dir)
        self._checkpointer = Checkpointer(
            self.registry,
            self._file,
            clock=host.clock,
            executor=host.executor,
            keep_days=config.agent.keep_ended_days,
            log=self._log,
        )

    def _make_tailer(self, encoders: Encoders, open_files: int) -> Tailer:
        settings = self._config.agent
        return Tailer(
            self.registry,
            self.send_queue,
            fingerprinter=self._fingerprinter,
            disk=self._host.disk,
            clock=self._host.clock,
            encoder_of=encoders.encoder_for,
            open_files=OpenFiles(
                self._host.disk,
                self._host.clock,
                self._log,
                max_open_files=settings.max_open_files,
                close_idle_seconds=settings.close_idle_seconds,
                handles=open_files - min(_RESERVED_HANDLES, open_files // 2),
            ),
            deleted_files=DeletedFiles(settings.keep_removed_days, settings.keep_removed_bytes),
            log=self._log,
            file_log=self._file_log,
        )

    def _make_services(self, encoders: Encoders) -> SessionServices:
        host = self._host
        return SessionServices(
            registry=self.registry,
            send_queue=self.send_queue,
            input=self.tailer,
            source_reader=SourceReader(self.tailer, host.clock, encoders.encoder_for),
            clock=host.clock,
            executor=host.executor,
            random=host.random,
            settings=self._config.output,
            log=self._log,
            file_log=self._file_log,
        )

    def _make_scanner(self) -> Scanner:
        return Scanner(
            self._inputs,
            self.registry,
            self.tailer,
            disk=self._host.disk,
            clock=self._host.clock,
            rescan_seconds=self._config.agent.rescan_seconds,
            file_log=self._file_log,
        )

    def _make_restorer(self) -> Restorer:
        return Restorer(
            self._inputs,
            self.registry,
            self.tailer,
            self._fingerprinter,
            self._host.disk,
            self._host.clock,
            self._log,
            self._file_log,
        )

    async def run(self, stop: asyncio.Event, make_watcher: MakeWatcher = DirectoryWatcher) -> None:
        """Deliver until *stop* is set, then drain.

        Raises `ConfigError` or `StorageError` if it can't start or go on.
        """
        with contextlib.ExitStack() as held:
            self._hold_state_dir(held)
            held.callback(self._file_log.flush)
            await self._begin()
            await self._live(stop, self._watcher(make_watcher))

    def _hold_state_dir(self, held: contextlib.ExitStack) -> None:
        state_dir = self._config.agent.state_dir
        try:
            self._host.disk.make_directory(state_dir)
            held.enter_context(self._host.disk.lock(os.path.join(state_dir, "lock")))
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
        """Return a watcher, or `NoWatcher` where the kernel gives none: scans find files, too."""
        try:
            return make(self._scanner.wake_event.set)
        except OSError as error:
            rescan = self._config.agent.rescan_seconds
            self._log.warning(
                "the kernel does not tell of new files: scans find them",
                reason=file_error_text(error),
                rescan_seconds=rescan,
            )
            return NoWatcher()

    def status(self) -> Status:
        """Return the status of the agent and of every source."""
        return Status.collect(self.registry, self.tailer.followed.values(), self.connection)

    # Beginning -----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Restore the checkpoint and find files and their starts, before any is read (G1, P2)."""
        first_run = True
        try:
            checkpoint = self._file.load_checkpoint(self.registry.agent)
        except CheckpointDamagedError as error:
            self._log.warning(
                "checkpoint can't be used: starting as without one",
                reason=str(error),
                moved_to=error.aside,
            )
            # a file that this agent wrote shows that it ran before
            checkpoint, first_run = None, not error.ours

        entries = checkpoint.entries if checkpoint is not None else []
        from_end = self._inputs.first_from_end
        # the store's answer for the agent's own source decides where files start (rule P2)
        if from_end is not None or any(entry.undecided for entry in entries):
            labels = from_end or InputTable(paths=["/"])
            arrival = FirstRunSource(
                self.registry, self.send_queue, self._host.clock, self._file.path, labels, self._log
            )
            entries[:] = [entry for entry in entries if entry.origin != arrival.origin]

        self._restorer.restore_entries(_take_out(entries))
        self._file_log.flush()  # all that the checkpoint brings is known now
        # without a checkpoint, only the store knows which counts exist (rule G3)
        await self._scanner.scan_inputs(Counting.KNOWN if checkpoint is not None else Counting.MANY)
        self.tailer.poll_all()
        if checkpoint is None and first_run:
            await self._propose_starts()

        self._log.info(
            "files found",
            living=len(self.tailer.followed),
            ended=len(self.registry.ended),
            checkpoint=checkpoint is not None,
        )

    async def _propose_starts(self) -> None:
        """Find the end of each file, to start there if the store does not know this agent.

        The checkpoint holds that before the store is asked (rule P2).
        """
        skipping = [
            followed
            for followed in self.tailer.followed.values()
            if decide_start(followed.generation)
        ]
        for followed in skipping:
            assert followed.source is not None, "it has a first line"
            followed.source.await_start_decision()
        if skipping:
            await self._checkpointer.write_now()

    # Living and ending ---------------------------------------------------------------------------

    async def _live(self, stop: asyncio.Event, watcher: Watcher) -> None:
        ended = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._checkpointer.run(ended), name="agent-checkpoint")
                summary = group.create_task(self._summary.run(), name="agent-summary")
                connection = group.create_task(self.connection.run(), name="agent-connection")
                finding = [
                    group.create_task(self._tail(), name="agent-tail"),
                    group.create_task(
                        self._scanner.scan_repeatedly(watcher, self._restorer.retry_absent),
                        name="agent-scan",
                    ),
                ]

                try:
                    await stop.wait()
                    # draining looks for files itself, and must come to an end
                    for task in finding:
                        task.cancel()
                    await self._drain()
                finally:
                    summary.cancel()
                    connection.cancel()
                    # the checkpoint is written once more, with what was acknowledged last
                    ended.set()
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        finally:
            watcher.stop_watching()

    async def _tail(self) -> None:
        """Look at files as they are due, a batch at a time."""
        while True:
            wait = self.tailer.poll_due(_POLLS_AT_ONCE)
            # more files are due already: only let other tasks run
            nap = nap_seconds(wait, len(self.tailer.followed)) if wait != 0.0 else 0.0
            await self._host.clock.sleep(nap)

    async def _drain(self) -> None:
        """Deliver what is there now, for at most `drain_seconds`."""
        until = self._host.clock.monotonic() + self._config.agent.drain_seconds
        self._log.info("draining", seconds=self._config.agent.drain_seconds)
        await self._scanner.scan_inputs()
        self.tailer.poll_all()

        while (left := until - self._host.clock.monotonic()) > 0:
            # Files that were read give their handles to those that lack one.
            lacking = self.tailer.poll_waiting()
            if self.connection.is_settled and not lacking and not self._is_outstanding(until):
                break
            await self.connection.wait_for_change(
                min(left, _HANDLE_LOOK_SECONDS) if lacking else left
            )
            await self._host.clock.sleep(_REST_SECONDS)

        if undelivered := self._summary.undelivered(self.connection.problem):
            self._log.warning(
                "ended with lines undelivered: they follow after the next start",
                **undelivered,
                **self._summary.totals(),
            )
        else:
            self._log.info("drained", **self._summary.totals())

    def _is_outstanding(self, until: float) -> bool:
        """Return whether a source has something that can still be sent before *until*."""
        return any(
            source.is_behind
            and not (source.state is SourceState.PAUSED and source.registration.retry_at > until)
            for source in self.registry.sources
        )


def _take_out(entries: list[CheckpointEntry]) -> Iterator[CheckpointEntry]:
    """Yield *entries* in their order; each leaves the list, so that its memory serves what is made
    of the next one.
    """
    entries.reverse()
    while entries:
        yield entries.pop()


def resolve_agent_id(config: AgentConfig, disk: Disk) -> str:
    """Return the agent's id: the configured one, else one made from the machine id.

    Raises `ConfigError` if there is neither.
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


async def run_agent(
    config: AgentConfig,
    *,
    host: Host,
    stop: asyncio.Event,
    make_watcher: MakeWatcher = DirectoryWatcher,
    open_files: int = sys.maxsize,
    when_idle: Callable[[], None] = lambda: None,
) -> None:
    """Run an agent until *stop* is set and it has drained; see `Agent`."""
    agent = Agent(
        config,
        host=host,
        open_files=open_files,
        when_idle=when_idle,
    )
    await agent.run(stop, make_watcher)
