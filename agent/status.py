"""Status of the agent and of each source: for people, and for --json."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from agent.delivery.delivery import Delivery
from agent.events.event import FormatCounts
from agent.inputs.files.followed import FollowedFile
from agent.inputs.unread import count_unread_bytes
from agent.lag import LagMeter
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.paths import path_from_text, printable_path
from agent.sources.registration import SourceState
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.model.numbers import position_of

ENDING, ENDED, ABSENT = "ending", "ended", "absent"
"""States beside those of `SourceState`: its end record waits for its acknowledgement; it was
acknowledged; the file of the checkpoint's entry can't be looked for, or no input names it.
"""
STATES: Final = (
    *(state.name.lower() for state in SourceState if state is not SourceState.DONE),
    ENDING,
    ENDED,
    ABSENT,
)
"""The states that operators see; what is done goes at once."""


_ABSENT_PROBLEM: Final = "its file can't be looked for, or no input names it"


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One source. Sizes and positions are in bytes."""

    path: str
    """The path that its lines are known by: the one that its file was found under."""

    origin: str
    """Its origin id (rule G2)."""

    count: int
    """Which of the generations that look alike it is (rule G3)."""

    state: str
    """A `SourceState` in lower case, or `ENDING`, `ENDED` or `ABSENT`."""

    position: int
    """The acknowledged position."""

    seen: int
    """The largest size of the file that was seen."""

    store: str | None
    """Id of the store that has its bytes; None before the first answer."""

    events: int
    """Events acknowledged since the start."""

    bytes: int
    """Bytes of its file acknowledged since the start."""

    gap_bytes: int
    """Bytes of gaps acknowledged since the start: they were not sent."""

    acknowledged_ms: int
    """When it was acknowledged last, in milliseconds since the epoch; 0 for never."""

    problem: str
    """What went wrong last, "" for nothing."""

    lag_bytes: int = 0
    """Bytes that were seen and that no acknowledgement covers."""

    lag_seconds: float = 0.0
    """How long the oldest of them that can be sent have waited at least (`agent.lag`)."""

    rate: float = 0.0
    """Bytes acknowledged a second, lately."""

    format: str = ""
    """The format of its lines, "" for none."""

    parsed: int = 0
    """Lines read that had the format."""

    failed: int = 0
    """Lines read that did not."""

    truncated: int = 0
    """Events read of which a part was left out, as they were over the limit on their bytes."""

    name: str = ""
    """Where its file was seen last, if that is another path: it was rotated, or a link leads there;
    else "".
    """


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The agent as a whole. Sizes are in bytes."""

    agent: str
    """The agent's id."""

    host: str
    """The receiver it is connected to, several with commas between, "" for none."""

    problem: str
    """What went wrong with the connection last, "" for nothing."""

    files: int
    """How many files are followed."""

    ended: int
    """How many sources have ended and are still in the checkpoint."""

    absent: int
    """How many entries of the checkpoint have files that can't be looked for, or no input."""

    unread_bytes: int
    """Bytes of all inputs but the journal that were seen and not read."""

    sources: list[SourceStatus]
    """All living sources, or those that were asked for."""

    @classmethod
    def collect(
        cls, registry: SourceRegistry, files: Collection[FollowedFile], connection: Delivery
    ) -> "Status":
        """Return the status now, with all living sources; *files* are those that are followed."""
        reporter = SourceReporter(registry, files)
        return cls(
            agent=registry.agent,
            host=connection.host,
            problem=connection.problem,
            files=len(files),
            ended=len(registry.ended),
            absent=len(registry.absent),
            unread_bytes=count_unread_bytes(registry.sources, files),
            sources=[reporter.describe(source) for source in registry.sources],
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result


class SourceReporter:
    """Describes sources at one moment: *now*, in monotonic seconds, by *lag*."""

    def __init__(
        self,
        registry: SourceRegistry,
        files: Collection[FollowedFile],
        lag: LagMeter | None = None,
        now: float = 0.0,
    ) -> None:
        self._registry = registry
        self._lag = lag if lag is not None else LagMeter()
        self._now = now
        # of files that can't be read, which their sources do not know
        self._troubles = {
            followed.source: followed.trouble for followed in files if followed.trouble
        }

    def problem_of(self, source: Source) -> str:
        """Return what went wrong last with *source*; "" for nothing."""
        return source.registration.problem or self._troubles.get(source, "")

    def describe(self, source: Source) -> SourceStatus:
        """Return the status of a living source."""
        event_format = source.events.format if source.events is not None else None
        counts = event_format.counts if event_format is not None else FormatCounts()
        return SourceStatus(
            path=printable_path(self._registry.path_of(source)),
            origin=str(source.origin),
            count=source.count,
            state=state_of(source),
            position=source.position,
            seen=_seen(source, self._registry.sources[source]),
            store=str(source.store) if source.store is not None else None,
            events=source.acknowledged.events,
            bytes=source.acknowledged.bytes,
            gap_bytes=source.acknowledged.gap_bytes,
            acknowledged_ms=source.acknowledged.at_ms,
            problem=self.problem_of(source),
            lag_bytes=source.unacknowledged_bytes,
            lag_seconds=round(self._lag.seconds_of(source, self._now), 3),
            rate=round(self._lag.rate_of(source), 1),
            format=event_format.name if event_format is not None else "",
            parsed=counts.parsed,
            failed=counts.failed,
            truncated=source.events.truncated if source.events is not None else 0,
            name=_other_name(source),
        )


def describe_entry(entry: CheckpointEntry) -> SourceStatus:
    """Return the status of an *entry* of the checkpoint, ended or absent, that is no source now."""
    ended = entry.done is not None
    position = position_of(entry.number) if entry.number > 0 else 0
    return SourceStatus(
        path=printable_path(path_from_text(entry.path)),
        origin=str(entry.origin),
        count=entry.count,
        state=ENDED if ended else ABSENT,
        position=position,
        seen=max(entry.seen, position),
        store=str(entry.store) if entry.store is not None else None,
        events=0,
        bytes=0,
        gap_bytes=0,
        acknowledged_ms=entry.acknowledged,
        problem=entry.ended or ("" if ended else _ABSENT_PROBLEM),
        lag_bytes=0 if ended else max(0, entry.seen - position),
    )


def state_of(source: Source) -> str:
    """Return the state of a living source, as `SourceStatus` has it."""
    if source.ended is None or source.state is SourceState.DONE:
        return source.state.name.lower()
    return ENDING


def _other_name(source: Source) -> str:
    """Return where a source's file was seen last, "" for the path that it was found under."""
    if source.living is None or source.living.place.name == source.living.place.path:
        return ""
    return printable_path(source.living.place.name)


def _seen(source: Source, entry: CheckpointEntry | None) -> int:
    """Return the largest size that was seen of a source's file."""
    if source.generation is not None:
        return source.generation.seen
    return entry.seen if entry is not None else 0
