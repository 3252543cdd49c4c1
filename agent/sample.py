"""`logdrive agent check --sample`: what each step of an input does to the lines of a file.

Only the beginning of the file is read, and unpacked if its name says that it is compressed. Nothing
is sent, and no state of the agent is touched.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from agent.config.config import AgentConfig
from agent.config.events import EventsTable
from agent.delivery.source_steps import make_steps
from agent.events.cutting.make import HEAD_BYTES, make_cutter
from agent.events.event import Event, SourceAbout
from agent.events.formats.auto import AutoFormat
from agent.events.formats.line_format import LineFormat
from agent.events.processors.counters import RuleCounters
from agent.inputs.files.compressed.codecs import DamagedError, IncompleteError, open_unpacker
from agent.inputs.files.paths.globs import FileInputs
from agent.inputs.files.paths.suffixes import suffix_of
from agent.sources.paths import printable_path
from logdrive.errors import ConfigError, Mistake, os_error_text
from logdrive.host.disk import Disk, File
from logdrive.records.chunk import CHUNK_BYTES, TextChunk

_MOST_EVENTS: Final = 65_536
"""Events of a sample: a line each has at least one byte, and few lines are as short."""


@dataclass(frozen=True, slots=True)
class EventShown:
    """An event as it is at one time."""

    message: str
    """Its text."""

    fields: dict[str, Any]
    """What is known of it, by key."""

    flags: list[str]
    """What happened to it, such as "redacted"."""


@dataclass(frozen=True, slots=True)
class EventChange:
    """What one step did to one event."""

    step: str
    """The step's name, as in `SampleStep`."""

    after: EventShown | None
    """The event afterwards; None if it was dropped."""


@dataclass(frozen=True, slots=True)
class SampledEvent:
    """One event of the sample."""

    start: int
    """The position of its first byte."""

    end: int
    """The position after its last byte, the line end included."""

    cut: EventShown
    """The event as it was cut from the file's bytes."""

    left_out: int = 0
    """Bytes of it that are over the limit on an event."""

    changes: list[EventChange] = field(default_factory=list)
    """What the steps did to it, in their order; steps that left it alone are missing."""

    @property
    def is_line(self) -> bool:
        """Whether it is a whole line."""
        return not self.cut.flags and "\n" not in self.cut.message


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule of a processor did."""

    rule: str
    """Its name."""

    events: int
    """Events that it changed."""

    matches: int
    """Places in which it replaced something."""


@dataclass(slots=True)
class SampleStep:
    """What one step did to all events."""

    step: str
    """Its name: the format's, or the key of the processor and its action."""

    events: int
    """Events that came to it."""

    changed: int = 0
    """Events whose message, fields or flags it changed."""

    dropped: int = 0
    """Events that it dropped."""

    dropped_bytes: int = 0
    """The bytes of these in the file."""

    unread: int = 0
    """Events that do not have the format."""

    rules: list[RuleResult] = field(default_factory=list)
    """What its rules did, where it has several."""


@dataclass(frozen=True, slots=True)
class SampleReport:
    """What becomes of a file's first lines."""

    file: str
    """Its path."""

    input: str
    """The key of the input's table."""

    bytes: int
    """Bytes that were read of it, and became events."""

    sent: int
    """Events that are left."""

    plain: bool
    """Whether each line is an event, in UTF-8, as where nothing else is configured."""

    steps: list[SampleStep]
    """What each step did, in their order."""

    events: list[SampledEvent]
    """All events."""


def check_sample(
    config: AgentConfig,
    path: str,
    table_key: str | None,
    *,
    disk: Disk,
    monotonic: Callable[[], float],
) -> SampleReport:
    """Play the steps of an input on the first lines of the file *path*.

    *table_key* is the input's key; None for the first whose paths match the file, or the only one.
    Raises `ConfigError` if there is no such input, or the file can't be read.
    """
    key, table = _find_table(config, path, table_key)
    data, whole = _read_sample(path, disk)
    cutter = make_cutter(table, data[:HEAD_BYTES])
    end, open_end = cutter.end_of_events(data, 0, whole=whole, final=not whole, settled=not whole)
    if end == 0:
        return SampleReport(printable_path(path), key, 0, 0, table.has_plain_lines, [], [])

    counters = RuleCounters()
    about = SourceAbout(path, config.agent.host or "", config.agent.id or "")
    chunk = TextChunk(0, data, 0, end, open_end)

    def first_events(size: int) -> list[Event]:
        return [event for event in cutter.cut_events(chunk, size) if event.start < size]

    source_events = make_steps(table, about, first_events, lambda name: None, counters, monotonic)
    events = cutter.cut_events(chunk, _MOST_EVENTS)
    end = events[-1].end
    player = _Player(events)
    event_format = source_events.format
    if event_format is not None:
        event_format.parse_events(events)
        known = event_format if isinstance(event_format, LineFormat | AutoFormat) else None
        step = player.note(f"format {known.name}" if known is not None else "format", events)
        step.unread = known.counts.failed if known is not None else 0
    for number, processor in enumerate(source_events.processors):
        events = processor.process_events(events)
        step = player.note(f"processor[{number}] {table.processor[number].action}", events)
        step.rules += [
            RuleResult(counter.rule, counter.events, counter.matches)
            for counter in counters.of_table(table)
            if counter.number == number and counter.rule
        ]
    sampled = list(player.sampled.values())
    return SampleReport(
        printable_path(path), key, end, len(events), table.has_plain_lines, player.steps, sampled
    )


class _Player:
    """Compares events before and after each step."""

    def __init__(self, events: list[Event]) -> None:
        self.steps: list[SampleStep] = []
        self.sampled = {
            event.start: SampledEvent(event.start, event.end, _show(event), event.left_out)
            for event in events
        }
        self._last = {start: sampled.cut for start, sampled in self.sampled.items()}

    def note(self, name: str, events: list[Event]) -> SampleStep:
        """Compare *events* with what they were before the step of that *name*."""
        step = SampleStep(name, len(self._last))
        now = {event.start: _show(event) for event in events}
        for start, before in self._last.items():
            after = now.get(start)
            if after == before:
                continue
            sampled = self.sampled[start]
            sampled.changes.append(EventChange(name, after))
            if after is None:
                step.dropped += 1
                step.dropped_bytes += sampled.end - sampled.start
            else:
                step.changed += 1
        self._last = now
        self.steps.append(step)
        return step


def _show(event: Event) -> EventShown:
    # a copy: later steps change fields in place
    fields = orjson.loads(orjson.dumps(event.fields))
    return EventShown(event.message, fields, list(event.flags))


def _read_sample(path: str, disk: Disk) -> tuple[bytes, bool]:
    """Return the first bytes of the file, unpacked, and whether it may have more.

    Raises `ConfigError`.
    """
    suffix = suffix_of(path)
    try:
        with contextlib.closing(disk.open(path)) as file:
            data = _unpack(file, suffix) if suffix else file.pread(CHUNK_BYTES, 0)
    except OSError as error:
        raise ConfigError("--sample", [Mistake(path, "", os_error_text(error))]) from error
    except DamagedError as error:
        remedy = f"it can't be unpacked as {suffix} ({error}): name it otherwise if it is plain"
        raise ConfigError("--sample", [Mistake(path, "", remedy)]) from error
    except IncompleteError as error:
        remedy = f"its bytes end before {suffix} does: it was cut, or is still being written"
        raise ConfigError("--sample", [Mistake(path, "", remedy)]) from error
    return data, len(data) == CHUNK_BYTES


def _unpack(file: File, suffix: str) -> bytes:
    unpacker, data = open_unpacker(file, suffix), bytearray()
    while piece := unpacker.read(CHUNK_BYTES - len(data)):
        data += piece
        if len(data) == CHUNK_BYTES:
            break
    return bytes(data)


def _find_table(config: AgentConfig, path: str, key: str | None) -> tuple[str, EventsTable]:
    tables = dict(config.tables())
    if key is not None:
        if key in tables:
            return key, tables[key]
        remedy = f"there is no such input: there are {', '.join(tables)}"
        raise ConfigError("--input", [Mistake(key, "", remedy)])

    found: EventsTable | None = None
    if path.startswith("/"):
        found = FileInputs(config.input).settings_for(path)
    if found is None and len(tables) == 1:
        (found,) = tables.values()
    for name, table in tables.items():
        if table is found:
            return name, table
    remedy = f"no input's paths match it: name one with --input, of {', '.join(tables)}"
    raise ConfigError("--sample", [Mistake(path, "", remedy)])
