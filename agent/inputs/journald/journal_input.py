"""The journal of systemd: one source a boot, read by journalctl.

Theory of operation. `journalctl -o export --follow` writes entries in their order, from the one
after a cursor on. The cursor is made of the position of the source that is furthest behind: its
boot, and the number of its last acknowledged entry. Each entry goes to the source of its boot
(`JournalBoot`), where it waits to be read; while too many wait, journalctl is not read. Nothing is
spooled: what is given up is read again, from the journal.

Numbers that the journal does not return are a gap, `vacuumed`: the entries were removed before they
were read, or the agent's user may not read them. A source ends once the journal has gone on with
another boot and nothing more comes of it for a while; entries that come later all the same are a
source of their own.

Following, journalctl leaves earlier boots out, unless it merges all journals that there are. So a
journalctl that does not follow reads up to the present first. One that ends before it should is
started again, after a pause that doubles.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from agent.config.journald import JournaldTable
from agent.inputs.journald.boot import JournalBoot
from agent.inputs.journald.entries import BootId, JournalEntry, cursor_after, entry_of
from agent.inputs.journald.export import ExportParser
from agent.inputs.local.ports import LocalInputs, RunningProgram
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.incarnation_search import Counting
from agent.sources.paths import path_from_text
from agent.sources.queue import SendQueue
from agent.sources.readable import InputKind, SourceTruncatedError
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import ProtocolError
from logdrive.host.clock import Clock
from logdrive.model.numbers import position_of
from logdrive.model.units import MIB

_KEPT_BYTES: Final = 8 * MIB
"""Limit on the memory of entries that wait, about."""
_LOOK_SECONDS: Final = 0.25
"""Seconds between two looks at what was acknowledged."""
_WAIT_SECONDS: Final = 1.0
"""Seconds between two looks, while journalctl is silent, at whether it is to end."""
_OVER_SECONDS: Final = 60.0
"""Seconds without an entry after which a boot before the last one is over."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
"""Pauses before journalctl is started again (s)."""


class JournalInput:
    """The agent's `Input` and `InputService` for the journal."""

    kind: Final = InputKind.JOURNALD

    def __init__(
        self,
        table: JournaldTable,
        registry: SourceRegistry,
        send_queue: SendQueue,
        *,
        local: LocalInputs,
        clock: Clock,
        log: Any,
    ) -> None:
        """Read the journal that *table* names."""
        self.finished = asyncio.Event()  # never set: the journal has no end
        self.sources: dict[BootId, tuple[JournalBoot, Source]] = {}  # in the order of the journal
        self._table = table
        self._registry = registry
        self._send_queue = send_queue
        self._local = local
        self._clock = clock
        self._log = log
        self._last: BootId | None = None  # the boot of the last entry
        self._heard_at = 0.0  # when journalctl said something last (monotonic, s)
        self._began_at = 0.0  # when it was started last (monotonic, s)
        self._pause = _FIRST_PAUSE
        self._again = False  # whether journalctl is to be started again, from another place
        self._stopped = asyncio.Event()

    # `InputService` ------------------------------------------------------------------------------

    async def begin(self, entries: Iterable[CheckpointEntry]) -> None:
        """Restore the sources of *entries*."""
        for entry in entries:
            if entry.done is not None:
                self._registry.add_ended(entry)
                continue
            boot, _, sequence = path_from_text(entry.name).partition("/")
            readable = JournalBoot(BootId(boot, sequence), self._table, start=entry.start)
            readable.seen = max(readable.seen, entry.seen)
            identity = readable.identify(self._registry.agent, self._registry.host)
            source = self._registry.restore_source(entry, readable, identity)
            readable.resume_from(entry.number)
            self.sources[readable.boot] = readable, source
            if entry.ended is not None:
                source.close_when_complete()

    async def run(self) -> None:
        """Read until cancelled. Raises `ConfigError` where there is no journalctl."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_repeatedly(), name="journal-look")
            group.create_task(self._read_repeatedly(), name="journal-read")

    async def stop_reading(self) -> None:
        """Read no more: what was not read is read after the next start."""
        self._stopped.set()

    async def close(self) -> None:
        """Do nothing: journalctl ends with `run`."""

    # Reading -------------------------------------------------------------------------------------

    async def _read_repeatedly(self) -> None:
        follows = False
        while not self._stopped.is_set():
            self._again = False
            # a directory has no journals but those that are meant, so all of them are followed
            follows = follows or self._table.directory is not None
            program = await self._local.start_program(self._command(follows=follows))
            try:
                problem = await self._read(program)
            finally:
                said = await program.end()
            if self._must_end or not (follows or problem or said):
                follows = not self._must_end
                continue
            follows = False
            self._log.warning(
                "journalctl ended: it is started again",
                reason=problem or said or "it gave no reason",
                after_seconds=self._pause,
            )
            await self._clock.sleep(self._pause)
            self._pause = min(_LONGEST_PAUSE, self._pause * 2)

    def _command(self, *, follows: bool) -> list[str]:
        """Return the command that writes what follows what is known."""
        command = [self._table.journalctl, "--output=export", "--no-pager", "--quiet"]
        if follows:
            command += ["--follow", "--no-tail"]
        if self._table.directory is not None:
            command += [f"--directory={self._table.directory}", "--merge"]
        self._began_at = self._clock.monotonic()
        for readable, _ in self.sources.values():
            readable.rewound = readable.passed = False
        behind = next((each for each, _ in self.sources.values()), None)
        if behind is not None:
            # an entry before the first one does as well: it need not be there
            command.append(f"--after-cursor={cursor_after(behind.boot, behind.wants)}")
        elif self._table.start == "boot" and not follows:
            command.append("--boot")
        return command

    async def _read(self, program: RunningProgram) -> str:
        """Read what *program* writes until it ends, or is to be started again; return why."""
        parser = ExportParser()
        while True:
            data = await self._read_some(program)
            if not data:
                return ""
            self._heard_at = self._clock.monotonic()
            try:
                entries = [entry_of(parsed) for parsed in parser.receive_data(data)]
            except ProtocolError as error:
                return str(error)
            if entries:
                self._pause = _FIRST_PAUSE
                self._add_entries(entries)

    async def _read_some(self, program: RunningProgram) -> bytes:
        """Return what comes next, once there is room for it; b"" at the end, or if it is to end."""
        while sum(each.kept_bytes for each, _ in self.sources.values()) > _KEPT_BYTES:
            if self._must_end:
                return b""
            await self._clock.sleep(_LOOK_SECONDS)
        read = asyncio.ensure_future(program.read())
        try:
            while not read.done():
                if self._must_end:
                    return b""
                await asyncio.wait({read}, timeout=_WAIT_SECONDS)
            return read.result()
        finally:
            read.cancel()

    @property
    def _must_end(self) -> bool:
        return self._again or self._stopped.is_set()

    def _add_entries(self, entries: list[JournalEntry]) -> None:
        touched = dict[Source, None]()
        for entry in entries:
            found = self._source_of(entry)
            if found is not None:
                found[0].add_entry(entry, self._heard_at)
                touched[found[1]] = None
            self._last = entry.boot
        for source in touched:
            self._enqueue(source)
        self._registry.mark_changed()

    def _source_of(self, entry: JournalEntry) -> tuple[JournalBoot, Source] | None:
        """Return the source of *entry*'s boot, made if it is new; None if it was sent.

        A source that has ended is followed by another one, for what comes later.
        """
        boot = entry.boot
        while True:
            found = self.sources.get(boot)
            if found is not None and (found[1].ended is None or entry.number < found[0].seen):
                return found
            readable = JournalBoot(boot, self._table, start=entry.number)
            identity = readable.identify(self._registry.agent, self._registry.host)
            ended = self._registry.ended.get(identity.stem)
            if found is None and ended is None:
                source = self._registry.add_generation(readable, identity, Counting.KNOWN)
                self.sources[boot] = readable, source
                return readable, source
            end = found[0].seen if found is not None else position_of(ended.number if ended else 0)
            if entry.number < end:
                return None
            boot = entry.boot.continued_at(end)

    # What goes on --------------------------------------------------------------------------------

    async def _look_repeatedly(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            for boot, (readable, source) in list(self.sources.items()):
                if readable.retired:
                    del self.sources[boot]
                    continue
                readable.drop_acknowledged(source.position)
                self._again = self._again or readable.rewound
            self._end_earlier_boots()

    def _end_earlier_boots(self) -> None:
        """End the sources of boots that the journal has left behind."""
        if self._last is None or self._again:
            return
        now = self._clock.monotonic()
        for readable, source in self.sources.values():
            silent = now - max(readable.heard_at, self._began_at) >= _OVER_SECONDS
            if readable.boot.boot != self._last.boot and silent and not readable.passed:
                readable.passed = True
                source.close_when_complete()
                self._enqueue(source)

    def _enqueue(self, source: Source) -> None:
        if source.has_more:
            self._send_queue.enqueue(source, self._clock.monotonic())

    # `Input` -------------------------------------------------------------------------------------

    def open_source(self, source: Source) -> None:
        """Do nothing: journalctl writes entries as they come."""

    def verify_source(self, source: Source) -> bool:
        """Return True: entries of the journal do not change."""
        return True

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        """Do nothing: what is read is in memory."""
