"""The agent put together: started and drained in the order in which data flows."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, TypeVar

import structlog

from agent.config.agent_table import LOCK_NAME, STATE_DIR_REMEDY
from agent.config.config import AgentConfig
from agent.config.files import InputTable
from agent.failures import first_cause
from agent.inputs.files.paths.watcher import DirectoryWatcher, NoWatcher, Watcher
from agent.inputs.files.poll_intervals import nap_seconds
from agent.inputs.files.start_position import decide_start
from agent.inputs.files.taken_positions import TakenPositions
from agent.inputs.local.ports import LocalInputs
from agent.inputs.services import is_of_file
from agent.operations import Operations
from agent.parts import make_parts
from agent.reload import LiveConfig, Reloader
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.checkpoint.file import CheckpointDamagedError
from agent.sources.first_run import FirstRunSource
from agent.sources.incarnation_search import Counting
from agent.sources.registration import SourceState
from agent.status import Status
from logdrive.errors import Mistake, UnavailableError, file_error_text, os_error_text
from logdrive.host.heap import without_collections
from logdrive.host.host import Host
from logdrive.host.service_manager import ServiceManager

_POLLS_AT_ONCE: Final = 256
"""Files that are looked at before other tasks run."""
_REST_SECONDS: Final = 0.02
"""While draining, what is left is looked at no more often than this: a look at a file that lacks a
handle may itself be the next change.
"""
_HANDLE_LOOK_SECONDS: Final = 0.1
"""While draining, files that lack a handle are looked at this often."""

_T = TypeVar("_T")

MakeWatcher = Callable[[Callable[[], None]], Watcher]


class Agent:
    """One agent. Call `run` once; `status` may be called while it runs.

    *local* opens what this host's programs write into, by default the real pipes and sockets.
    *open_files* is how many files the process may open. *when_idle* is called when nothing was
    acknowledged for a minute after something was. *reloader* says when to follow another
    configuration. *service_manager* is told how it goes; with *control_socket* the agent answers
    operators there.
    """

    def __init__(
        self,
        config: AgentConfig,
        *,
        host: Host,
        local: LocalInputs | None = None,
        open_files: int = sys.maxsize,
        when_idle: Callable[[], None] = lambda: None,
        service_manager: ServiceManager | None = None,
        control_socket: bool = False,
        reloader: Reloader | None = None,
        log: Any = None,
    ) -> None:
        self._host = host
        self._reloader = reloader
        self._log = log if log is not None else structlog.get_logger("agent")
        self._parts = make_parts(
            config,
            host=host,
            local=local,
            open_files=open_files,
            when_idle=when_idle,
            log=self._log,
        )
        self._config = LiveConfig(config, self._parts, self._log)
        self.operations = Operations(
            config,
            self._parts,
            host=host,
            manager=service_manager or ServiceManager(),
            listens=control_socket,
            log=self._log,
        )
        self.registry = self._parts.registry
        self.send_queue = self._parts.send_queue
        self.tailer = self._parts.tailer
        self.connection = self._parts.connection

    async def run(self, stop: asyncio.Event, make_watcher: MakeWatcher = DirectoryWatcher) -> None:
        """Deliver until *stop* is set, then drain.

        Raises `ConfigError` or `StorageError` if it can't start or go on.
        """
        with contextlib.ExitStack() as held:
            self._hold_state_dir(held)
            held.callback(self._parts.file_log.flush)
            try:
                async with self.operations.running():
                    with without_collections():
                        await self._begin()
                    self.operations.on_started()
                    await self._live(stop, self._watcher(make_watcher))
            except ExceptionGroup as failures:
                raise first_cause(failures) from failures
            finally:
                await self._parts.input_services.close()

    def _hold_state_dir(self, held: contextlib.ExitStack) -> None:
        state_dir = self._config.now.agent.state_dir
        try:
            self._host.disk.make_directory(state_dir)
            held.enter_context(self._host.disk.lock(os.path.join(state_dir, LOCK_NAME)))
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
            return make(self._parts.scanner.wake_event.set)
        except OSError as error:
            rescan = self._config.now.agent.rescan_seconds
            self._log.warning(
                "the kernel does not tell of new files: scans find them",
                reason=file_error_text(error),
                rescan_seconds=rescan,
            )
            return NoWatcher()

    async def reload(self, config: AgentConfig) -> list[str]:
        """Follow *config* from now on; return the keys that hold only after a restart.

        Connections and files that it concerns change once nothing of them is in flight, which may
        be after the return. Raises `ConfigError`, and changes nothing, where certificates that it
        names can't be used.
        """
        fixed = self._config.change(config)
        self.operations.on_configured(self._config.now)
        return fixed

    def status(self) -> Status:
        """Return the status of the agent and of every source."""
        return Status.collect(self.registry, self.tailer.followed.values(), self.connection)

    # Beginning -----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Restore the checkpoint and find files and their starts, before any is read (G1, P2)."""
        first_run = True
        try:
            checkpoint = self._parts.checkpoint_file.load_checkpoint(self.registry.agent)
        except CheckpointDamagedError as error:
            self._log.warning(
                "checkpoint can't be used: starting as without one",
                reason=str(error),
                moved_to=error.aside,
            )
            # a file that this agent wrote shows that it ran before
            checkpoint, first_run = None, not error.ours

        entries = checkpoint.entries if checkpoint is not None else []
        if checkpoint is not None:
            self.registry.restore_copies(checkpoint.copies)
            # checkpoints of older agents say only when they were written
            self.registry.note_scan(checkpoint.scanned or checkpoint.written)
            if self.tailer.compressed is not None:
                self.tailer.compressed.set_last_run(self.registry.scanned_ms)
        from_end = self._parts.file_inputs.first_from_end
        # the store's answer for the agent's own source decides where files start (rule P2)
        if from_end is not None or any(entry.undecided for entry in entries):
            labels = from_end or InputTable(paths=["/"])
            arrival = FirstRunSource(
                self.registry,
                self.send_queue,
                self._host.clock,
                self._parts.checkpoint_file.path,
                labels,
                self._log,
            )
            entries[:] = [entry for entry in entries if entry.origin != arrival.origin]

        others = [entry for entry in entries if not is_of_file(entry)]
        entries[:] = [entry for entry in entries if is_of_file(entry)]
        async for _ in _in_turns(self._parts.restorer.restore_each(_take_out(entries))):
            pass
        await self._parts.input_services.begin(others)
        self._parts.file_log.flush()  # all that the checkpoint brings is known now
        # without a checkpoint, only the store knows which counts exist (rule G3); and with one, of
        # lives that came since it was written
        self.registry.set_uncounted(checkpoint is None or checkpoint.uncounted)
        await self._parts.scanner.scan_inputs(
            Counting.MANY if self.registry.uncounted else Counting.AFTER, at_start=True
        )
        if checkpoint is None and first_run:
            await self._propose_starts()
        else:
            async for _ in _in_turns(self.tailer.poll_each()):
                pass

        self._log.info(
            "files found",
            living=len(self.tailer.followed),
            ended=len(self.registry.ended),
            checkpoint=checkpoint is not None,
        )

    async def _propose_starts(self) -> None:
        """Look at all files, and find where to start in each before the store is asked (rule P2).

        That is where another shipper stopped whose positions were taken over; else the end, if the
        input says so and the store does not know this agent.
        """
        taken = TakenPositions(self._host.disk, self._config.now.agent.state_dir)
        has_taken = taken.load()  # nearly all agents take over nothing
        # there may be more files than handles
        skipping = [
            followed
            async for followed in _in_turns(
                self.tailer.poll_in_turn(taken.has if has_taken else None)
            )
            if not (has_taken and taken.apply_to(followed.generation))
            and decide_start(followed.generation, self._host.clock.now_ms())
        ]
        taken.check_readable(
            followed.generation.place
            for followed in self.tailer.followed.values()
            if followed.trouble
        )
        for followed in skipping:
            assert followed.source is not None, "it has a first line"
            followed.source.await_start_decision()
        if skipping or has_taken:
            await self._parts.checkpointer.write_now()
        if has_taken:
            taken.remove()

    # Living and ending ---------------------------------------------------------------------------

    async def _live(self, stop: asyncio.Event, watcher: Watcher) -> None:
        ended = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._parts.checkpointer.run(ended), name="agent-checkpoint")
                summary = group.create_task(self._parts.summary.run(), name="agent-summary")
                reading = group.create_task(self._parts.input_services.run(), name="agent-inputs")
                connection = group.create_task(self.connection.run(), name="agent-connection")
                reloading = group.create_task(self._reload_when_asked(), name="agent-reload")
                watching = group.create_task(
                    self._parts.certificates.run(), name="agent-certificates"
                )
                finding = [
                    group.create_task(self._tail(), name="agent-tail"),
                    group.create_task(self._unpack(), name="agent-unpack"),
                    group.create_task(
                        self._parts.scanner.scan_repeatedly(
                            watcher, self._parts.restorer.retry_absent
                        ),
                        name="agent-scan",
                    ),
                ]

                try:
                    await self._wait_for_end(stop)
                    self.operations.on_draining()
                    await self._linger()
                    # draining looks for files itself, and must come to an end
                    for task in (reloading, watching, *finding):
                        task.cancel()
                    await self._parts.input_services.stop_reading()
                    await self._drain()
                finally:
                    reloading.cancel()
                    watching.cancel()
                    summary.cancel()
                    reading.cancel()
                    connection.cancel()
                    # the checkpoint is written once more, with what was acknowledged last
                    ended.set()
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        finally:
            watcher.stop_watching()

    async def _unpack(self) -> None:
        """Survey compressed files, as far as there are any."""
        if self.tailer.compressed is not None:
            await self.tailer.compressed.run()

    async def _reload_when_asked(self) -> None:
        if self._reloader is not None:
            await self._reloader.run(self.reload, self._log)

    async def _wait_for_end(self, stop: asyncio.Event) -> None:
        """Return once *stop* is set, or nothing can come any more and all is acknowledged."""
        waits = [
            asyncio.ensure_future(wait)
            for wait in (stop.wait(), self._parts.input_services.wait_until_finished())
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _tail(self) -> None:
        """Look at files as they are due, a batch at a time."""
        while True:
            wait = self.tailer.poll_due(_POLLS_AT_ONCE)
            # more files are due already: only let other tasks run
            nap = nap_seconds(wait, len(self.tailer.followed)) if wait != 0.0 else 0.0
            await self._host.clock.sleep(nap)

    async def _linger(self) -> None:
        """Go on for `linger_seconds`: what writes the files is stopped meanwhile."""
        if seconds := self._config.now.agent.linger_seconds:
            self._log.info("lingering before draining", seconds=seconds)
            await self._host.clock.sleep(seconds)

    async def _drain(self) -> None:
        """Deliver what is there now, for at most `drain_seconds`."""
        until = self._host.clock.monotonic() + self._config.now.agent.drain_seconds
        self._log.info("draining", seconds=self._config.now.agent.drain_seconds)
        await self._parts.scanner.scan_inputs()
        self.tailer.poll_all()
        if self._config.now.agent.files_end_with_agent:
            self.tailer.release_last_lines()

        while (left := until - self._host.clock.monotonic()) > 0:
            # Files that were read give their handles to those that lack one.
            lacking = self.tailer.poll_waiting()
            if self.connection.is_settled and not lacking and not self._is_outstanding(until):
                break
            await self.connection.wait_for_change(
                min(left, _HANDLE_LOOK_SECONDS) if lacking else left
            )
            await self._host.clock.sleep(_REST_SECONDS)

        if undelivered := self._parts.summary.undelivered(self.connection.problem):
            self._log.warning(
                "ended with lines undelivered: they follow after the next start",
                **undelivered,
                **self._parts.summary.totals(),
            )
        else:
            self._log.info("drained", **self._parts.summary.totals())

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


async def _in_turns(files: Iterator[_T]) -> AsyncIterator[_T]:
    """Yield what *files* does, and let other tasks run after some: there may be 100,000."""
    for number, file in enumerate(files, 1):
        yield file
        if number % _POLLS_AT_ONCE == 0:
            await asyncio.sleep(0)


async def run_agent(
    config: AgentConfig,
    *,
    host: Host,
    stop: asyncio.Event,
    make_watcher: MakeWatcher = DirectoryWatcher,
    open_files: int = sys.maxsize,
    when_idle: Callable[[], None] = lambda: None,
    service_manager: ServiceManager | None = None,
    control_socket: bool = False,
    reloader: Reloader | None = None,
) -> None:
    """Run an agent until *stop* is set and it has drained; see `Agent`."""
    agent = Agent(
        config,
        host=host,
        open_files=open_files,
        when_idle=when_idle,
        service_manager=service_manager,
        control_socket=control_socket,
        reloader=reloader,
    )
    await agent.run(stop, make_watcher)
