"""Standard input, pipes, sockets and syslog: what can't be read again, by way of the spool.

Theory of operation. Readers (`agent.inputs.spool.readers`) hand what they read to the channel of
their input, which appends it to a segment of a store of this agent alone, in the directory `spool`
of the state directory. The segment is the source's bytes (`SpooledStream`). What was acknowledged
is freed a little later. A source ends with its input: at the end of standard input, or once no
table names the input any more; its segment is deleted when its end record is acknowledged and the
checkpoint says so.

A stop takes what is in the kernel's buffers, and closes pipes and datagram sockets before the spool
is sent: what is written then is refused, not lost.

After a restart, or a crash at any point, the segments say what there is: those of inputs that go on
are appended to, the others are sent and ended. A line that a reader had read, and that was not yet
durable, is lost with the process; nothing else is, and nothing comes twice.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from agent.config.spooled import PipeTable, SocketTable, SpooledTable, StdinTable
from agent.inputs.local.ports import LocalInputs
from agent.inputs.spool.channel import SpoolChannel
from agent.inputs.spool.kept_open import KeptOpen
from agent.inputs.spool.readers import Reader
from agent.inputs.spool.spool import Spool
from agent.inputs.spool.stream import SpooledStream
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.paths import path_from_text
from agent.sources.queue import SendQueue
from agent.sources.readable import InputKind, SourceTruncatedError
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import ConfigError, TransientError, UnavailableError
from logdrive.host.clock import Clock
from logdrive.model.numbers import is_closed
from logdrive.records.runs import REMOVED, GapOrEndMark

_LOOK_SECONDS: Final = 0.25
"""Seconds between two looks at what was acknowledged and what waits."""
_KEYS: Final = {"address": "listen"}
"""The table's key by the transport's."""
_STOP_SECONDS: Final = 10.0
"""Limit on the time that a stop waits for the disk."""


class SpoolInput:
    """The agent's `Input` and `InputService` for spooled sources."""

    kind: Final = InputKind.SPOOL

    def __init__(
        self,
        tables: Mapping[str, SpooledTable],
        spool: Spool,
        registry: SourceRegistry,
        send_queue: SendQueue,
        *,
        local: LocalInputs,
        clock: Clock,
        log: Any,
    ) -> None:
        """Read *tables*, by their keys in the file; none of them where only what an earlier run
        left is to be sent.
        """
        self.finished = asyncio.Event()
        self.channels = [
            SpoolChannel(
                key,
                table,
                self._make_stream,
                self._on_grown,
                self._on_ended,
                has_room=spool.has_room,
                clock=clock,
                log=log,
            )
            for key, table in tables.items()
        ]
        self._readers: list[tuple[Reader, SpoolChannel]] = []
        self._spool = spool
        self._registry = registry
        self._send_queue = send_queue
        self._local = local
        self._clock = clock
        self._log = log
        self._sources: dict[SpooledStream, Source] = {}
        self._reading: set[asyncio.Task[None]] = set()  # tasks of readers
        self._keeping: list[asyncio.Task[None]] = []  # tasks that look at their paths

    def add_reader(self, reader: Reader, channel: SpoolChannel) -> None:
        """Read with *reader* for *channel*, from the agent's start on."""
        self._readers.append((reader, channel))

    # `InputService` ------------------------------------------------------------------------------

    async def begin(self, entries: Iterable[CheckpointEntry]) -> None:
        """Open the spool and restore its sources; open what is read."""
        known = {(path_from_text(entry.path), entry.birth_ns): entry for entry in entries}
        await self._spool.open()
        for stream in self._spool.streams(channel.table for channel in self.channels):
            self._restore(stream, known.pop(_key_of(stream), None))
        for entry in known.values():
            self._restore_lost(entry)
        for reader, channel in self._readers:
            with _naming(channel.key):
                await reader.open()

    async def run(self) -> None:
        """Read until cancelled. Raises `StorageError` once the spool can keep nothing more."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._spool.wait_for_failure(), name="spool")
            group.create_task(self._look_repeatedly(), name="spool-look")
            for channel in self.channels:
                group.create_task(channel.run(), name=f"spool-{channel.table.name}")
            self._keeping = [
                group.create_task(self._keep_open(reader, channel).run(), name="spool-keep")
                for reader, channel in self._readers
                if isinstance(channel.table, PipeTable | SocketTable)
            ]
            self._reading = {
                group.create_task(self._read(reader, channel), name=f"read-{channel.table.name}")
                for reader, channel in self._readers
            }

    def _keep_open(self, reader: Reader, channel: SpoolChannel) -> KeptOpen:
        table = channel.table
        assert isinstance(table, PipeTable | SocketTable)
        return KeptOpen(reader, table.path, table.name, self._local, self._clock, self._log)

    async def _read(self, reader: Reader, channel: SpoolChannel) -> None:
        await reader.run()
        # only standard input ends by itself; another reader was stopped, and goes on later
        if isinstance(channel.table, StdinTable) and reader.at_end:
            await channel.finish()

    async def stop_reading(self) -> None:
        """Read no more; return once what was read is durable, or the disk takes nothing."""
        for task in self._keeping:
            task.cancel()
        for reader, channel in self._readers:
            await reader.stop()
            channel.stop_waiting()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                if self._reading:
                    await asyncio.wait(self._reading)
                for channel in self.channels:
                    await channel.flush()
        except TimeoutError:
            self._log.warning("ended with bytes read that the spool did not take: they are lost")

    async def close(self) -> None:
        """Close what is read, and the spool."""
        for reader, _ in self._readers:
            reader.close()
        await self._spool.close()

    # Streams and their sources -------------------------------------------------------------------

    def _restore(self, stream: SpooledStream, entry: CheckpointEntry | None) -> None:
        """Make the source of a *stream* that is in the spool; *entry* is the checkpoint's."""
        segment = stream.segment
        if is_closed(segment.acknowledged) or (entry is not None and entry.done is not None):
            if entry is not None:
                entry.done = entry.done or self._clock.now_ms()
                self._registry.add_ended(entry)
            segment.delete()
            return

        channel = next((c for c in self.channels if c.table.name == segment.name), None)
        # what this process reads from its standard input does not go on an earlier one's
        goes_on = channel is not None and not isinstance(channel.table, StdinTable)
        if goes_on and channel is not None and channel.stream is None and not segment.closed:
            channel.stream = stream
        else:
            if channel is not None:
                channel.add_former(stream)
            if not segment.closed:
                stream.end_input()
        self._add_source(stream, entry)

    def _restore_lost(self, entry: CheckpointEntry) -> None:
        """Restore a source whose bytes are not in the spool: it has ended."""
        if entry.done is not None:
            self._registry.add_ended(entry)
            return
        if entry.ended is None:
            self._log.warning(
                "spool lost: what was not sent of it is a gap", input=path_from_text(entry.path)
            )
        source = self._registry.restore_source(entry, None, None)
        mark = GapOrEndMark(entry.ended or REMOVED, exact=entry.ended is not None)
        seen = max(entry.seen, source.position)
        source.end_generation_at(mark, 0, seen, self._clock.now_ms())
        self._send_queue.enqueue(source, self._clock.monotonic())
        self._registry.mark_changed()

    def _add_source(self, stream: SpooledStream, entry: CheckpointEntry | None) -> None:
        identity = stream.identify(self._registry.agent, self._registry.host)
        if entry is None:
            entry = stream.make_entry(identity)
        entry.number = max(entry.number, stream.segment.acknowledged)
        source = self._registry.restore_source(entry, stream, identity)
        stream.resume_from(source.number)
        self._sources[stream] = source
        if stream.ended:
            source.close_when_complete()
        self._registry.mark_changed()
        self._enqueue(source)

    async def _make_stream(self, table: SpooledTable) -> SpooledStream:
        """Make a segment and its source, for the first bytes of an input."""
        stream = await self._spool.make_stream(table)
        self._add_source(stream, None)
        return stream

    def _on_grown(self, stream: SpooledStream) -> None:
        stream.on_grown(self._clock.monotonic())
        self._registry.mark_changed()
        self._enqueue(self._sources[stream])

    def _on_ended(self, stream: SpooledStream) -> None:
        stream.end_input()
        self._sources[stream].close_when_complete()
        self._enqueue(self._sources[stream])

    def _enqueue(self, source: Source) -> None:
        if source.has_more:
            self._send_queue.enqueue(source, self._clock.monotonic())

    # What goes on --------------------------------------------------------------------------------

    async def _look_repeatedly(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            for stream, source in list(self._sources.items()):
                self._look_at(stream, source)
            for channel in self.channels:
                channel.look_at_lost()
            if not self._sources and all(task.done() for task in self._reading):
                self.finished.set()

    def _look_at(self, stream: SpooledStream, source: Source) -> None:
        """Free what was acknowledged of *stream*, and let go of a last line that waits (P3)."""
        if (damage := stream.segment.take_damage()) is not None:
            self._tell_damage(source, damage)
        with contextlib.suppress(TransientError):
            if stream.retired:
                del self._sources[stream]
                # the checkpoint must say that it has ended before its bytes are gone
                self._registry.call_after_write(stream.segment.delete)
                self._registry.mark_changed()
            elif not is_closed(source.number):
                stream.segment.free_acknowledged(source.number)
        if stream.unread:
            self._release(stream)
            self._enqueue(source)

    def _release(self, stream: SpooledStream) -> None:
        """Release a last event or line of *stream*, if it is time (rule P3)."""
        quiet = self._clock.monotonic() - stream.grown_at
        multiline = stream.settings.multiline
        if multiline is not None and quiet >= multiline.max_seconds:
            stream.release_last_event()
        quiet_seconds = getattr(stream.settings, "quiet_seconds", None)
        if quiet_seconds is not None and quiet >= quiet_seconds:
            stream.release_last_line()

    # `Input` -------------------------------------------------------------------------------------

    def open_source(self, source: Source) -> None:
        """Do nothing: the spool is open."""

    def verify_source(self, source: Source) -> bool:
        """Return True: what is in the spool does not change."""
        return True

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        """Log the *error*: what the disk does not return is a gap when it is looked at again."""
        self._tell_damage(source, error)
        self._registry.mark_changed()

    def _tell_damage(self, source: Source, error: Exception) -> None:
        self._log.warning(
            "spool damaged: the bytes are a gap",
            input=self._registry.path_of(source),
            reason=str(error),
        )


@contextlib.contextmanager
def _naming(table: str) -> Iterator[None]:
    """Add the key of *table* to a `ConfigError` of what can't be opened or bound, raised inside."""
    try:
        yield
    except ConfigError as error:
        above = f"{table}.tls" if error.file == "tls" else table
        mistakes = [
            replace(mistake, key=f"{above}.{_KEYS.get(mistake.key, mistake.key)}".rstrip("."))
            for mistake in error.mistakes
        ]
        kind = UnavailableError if isinstance(error, UnavailableError) else ConfigError
        raise kind("agent", mistakes) from error


def _key_of(stream: SpooledStream) -> tuple[str, int]:
    return stream.segment.name, stream.segment.birth_ns
