"""How everything stands, for people and for --json."""

from collections.abc import Collection
from typing import Any

import msgspec

from agent.delivery.connection import Connector
from agent.inputs.files.followed import Followed
from agent.sources.checkpoint import shown
from agent.sources.registry import SourceRegistry
from agent.sources.source import SourceState


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One source.

    *position* is acknowledged, *seen* the file's size as last seen; *problem* what went wrong last.
    """

    path: str
    origin: str
    count: int
    state: str
    position: int
    seen: int
    store: str | None
    events: int
    bytes: int
    gap_bytes: int
    acknowledged_ms: int
    problem: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The agent. *host* is the receiver it is connected to, "" for none."""

    agent: str
    host: str
    problem: str
    files: int
    ended: int
    absent: int
    unread_bytes: int
    sources: list[SourceStatus]

    @classmethod
    def of(
        cls, book: SourceRegistry, files: Collection[Followed], connection: Connector
    ) -> "Status":
        """Return how *book*, the *files* that are followed and *connection* stand now."""
        troubles = {followed.source: followed.trouble for followed in files}
        sources = [
            SourceStatus(
                path=shown(book.path(source)),
                origin=str(source.origin),
                count=source.count,
                state=source.state.name.lower()
                if source.ended is None or source.state is SourceState.DONE
                else "ending",
                position=source.position,
                seen=source.generation.seen
                if source.generation is not None
                else entry.seen
                if entry is not None
                else 0,
                store=str(source.store) if source.store is not None else None,
                events=source.acknowledged.events,
                bytes=source.acknowledged.bytes,
                gap_bytes=source.acknowledged.gap_bytes,
                acknowledged_ms=source.acknowledged.at_ms,
                problem=source.problem or troubles.get(source, ""),
            )
            for source, entry in book.sources.items()
        ]
        return cls(
            agent=book.agent,
            host=connection.host,
            problem=connection.problem,
            files=len(files),
            ended=len(book.ended),
            absent=len(book.absent),
            unread_bytes=sum(followed.generation.unread for followed in files),
            sources=sources,
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as the object that --json prints."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result
