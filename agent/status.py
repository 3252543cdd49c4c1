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
    origin: str
    count: int
    state: str
    # The acknowledged position.
    position: int
    # The largest size of the file that was seen.
    seen: int
    store: str | None
    # Totals of what was acknowledged since the start.
    events: int
    bytes: int
    gap_bytes: int
    acknowledged_ms: int
    # What went wrong last, "" for nothing.
    problem: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The agent."""

    agent: str
    # The receiver it is connected to, "" for none.
    host: str
    # What went wrong with the connection last, "" for nothing.
    problem: str
    # How many files are followed, and how many sources have ended or are absent.
    files: int
    ended: int
    absent: int
    unread_bytes: int
    sources: list[SourceStatus]

    @classmethod
    def collect(
        cls, registry: SourceRegistry, files: Collection[FollowedFile], connection: Connector
    ) -> "Status":
        """Return the status now; *files* are those that are followed."""
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
