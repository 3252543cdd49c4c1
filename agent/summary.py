"""What the agent says of itself: one line a minute while something happens, and the sums at its
end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agent.inputs.files.followed import Followed
from agent.sources.place import FileKey
from agent.sources.registry import SourceRegistry
from agent.sources.source import Acknowledged, Source
from logdrive.host.clock import Clock

_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """What is acknowledged since the start, and what is left.

    *files* and *unread_bytes* are of files followed now.
    """

    lines: int
    bytes: int
    gap_bytes: int
    files: int
    behind: int
    unread_bytes: int

    @classmethod
    def of(cls, book: SourceRegistry, followed: Mapping[FileKey, Followed]) -> "DeliveryProgress":
        """Return how *book* and the files *followed* stand. About 1 µs a source."""
        total = Acknowledged()
        total.add(book.finished)
        for source in book.sources:
            total.add(source.acknowledged)
        behind = sum(map(_is_behind, book.sources))
        unread = sum(each.generation.unread for each in followed.values())
        return cls(total.events, total.bytes, total.gap_bytes, len(followed), behind, unread)


class AgentSummary:
    """Tells how far the agent is.

    *lines* and *bytes* are those of the minute; `total` tells those since the start.

    *when_idle* is called after the first minute in which nothing was acknowledged, and so again
    after each spell of work.
    """

    def __init__(
        self,
        book: SourceRegistry,
        followed: Mapping[FileKey, Followed],
        clock: Clock,
        log: Any,
        *,
        when_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._book, self._followed, self._clock, self._log = book, followed, clock, log
        self._when_idle = when_idle
        self._idle = False
        self._last = DeliveryProgress.of(book, followed)

    async def run(self) -> None:
        """Tell each minute, for ever, unless nothing was acknowledged and nothing is left."""
        while True:
            await self._clock.sleep(_SECONDS)
            last, now = self._last, DeliveryProgress.of(self._book, self._followed)
            self._last = now
            moved = (now.lines, now.bytes, now.gap_bytes) != (
                last.lines,
                last.bytes,
                last.gap_bytes,
            )
            if not moved and not self._idle:
                self._when_idle()
            self._idle = not moved
            if moved or now.behind:
                self._log.info(
                    "in the last minute",
                    lines=now.lines - last.lines,
                    bytes=now.bytes - last.bytes,
                    files=now.files,
                    sources_behind=now.behind,
                    unread_bytes=now.unread_bytes,
                )

    def total(self) -> dict[str, int]:
        """Return what was acknowledged since the start."""
        now = DeliveryProgress.of(self._book, self._followed)
        return {"lines": now.lines, "bytes": now.bytes, "files": now.files}

    def left(self, problem: str) -> dict[str, Any]:
        """Return what is not acknowledged, refused sources included, and why: the connection's
        *problem*, if any. {} for nothing.
        """
        sources = [source for source in self._book.sources if _is_behind(source)]
        if not sources:
            return {}
        why = problem or next(
            (source.problem for source in sources if source.problem), "there was not enough time"
        )
        return {
            "sources_left": len(sources),
            "bytes_left": sum(source.unacknowledged for source in sources),
            "reason": why,
        }


def _is_behind(source: Source) -> bool:
    return bool(source.kept) or source.has_more
