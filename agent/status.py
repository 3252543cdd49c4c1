"""Status of the agent and of each source: for people, and for --json."""

from collections.abc import Collection
from typing import Any

import msgspec

from agent.delivery.connection import Connector
from agent.inputs.files.followed import FollowedFile
from agent.sources.checkpoint import CheckpointEntry
from agent.sources.paths import printable_path
from agent.sources.registration import SourceState
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One source. Sizes and positions are in bytes."""

    path: str
    """The path that its lines are known by."""

    origin: str
    """Its origin id (rule G2)."""

    count: int
    """Which of the generations that look alike it is (rule G3)."""

    state: str
    """A `SourceState` in lower case, or "ending": its end record is not acknowledged yet."""

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


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The agent as a whole. Sizes are in bytes."""

    agent: str
    """The agent's id."""

    host: str
    """The receiver it is connected to, "" for none."""

    problem: str
    """What went wrong with the connection last, "" for nothing."""

    files: int
    """How many files are followed."""

    ended: int
    """How many sources have ended and are still in the checkpoint."""

    absent: int
    """How many entries of the checkpoint have files that can't be looked for, or no input."""

    unread_bytes: int
    """Bytes of the followed files that were seen and not read."""

    sources: list[SourceStatus]
    """All living sources."""

    @classmethod
    def collect(
        cls, registry: SourceRegistry, files: Collection[FollowedFile], connection: Connector
    ) -> "Status":
        """Return the status now; *files* are those that are followed."""
        # of files that can't be read, which their sources do not know
        troubles = {followed.source: followed.trouble for followed in files}
        sources = [
            SourceStatus(
                path=printable_path(registry.path_of(source)),
                origin=str(source.origin),
                count=source.count,
                state=source.state.name.lower()
                if source.ended is None or source.state is SourceState.DONE
                else "ending",
                position=source.position,
                seen=_seen(source, entry),
                store=str(source.store) if source.store is not None else None,
                events=source.acknowledged.events,
                bytes=source.acknowledged.bytes,
                gap_bytes=source.acknowledged.gap_bytes,
                acknowledged_ms=source.acknowledged.at_ms,
                problem=source.registration.problem or troubles.get(source, ""),
            )
            for source, entry in registry.sources.items()
        ]

        return cls(
            agent=registry.agent,
            host=connection.host,
            problem=connection.problem,
            files=len(files),
            ended=len(registry.ended),
            absent=len(registry.absent),
            unread_bytes=sum(followed.generation.unread for followed in files),
            sources=sources,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result


def _seen(source: Source, entry: CheckpointEntry | None) -> int:
    """Return the largest size that was seen of a source's file."""
    if source.generation is not None:
        return source.generation.seen
    return entry.seen if entry is not None else 0
