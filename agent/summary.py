"""Summary of the agent for its log: a line a minute while something happens, totals at the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agent.inputs.files.followed import FollowedFile
from agent.inputs.unread import count_unread_bytes
from agent.sources.acknowledged import Acknowledged
from agent.sources.place import FileKey
from agent.sources.registry import SourceRegistry
from logdrive.host.clock import Clock

_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """What was acknowledged since the start, and what is left."""

    lines: int
    """Lines acknowledged since the start."""

    bytes: int
    """Bytes of files acknowledged since the start."""

    gap_bytes: int
    """Bytes of gaps acknowledged since the start."""

    files: int
    """Files followed now."""

    behind: int
    """Sources of which something was not acknowledged."""

    unread_bytes: int
    """Bytes of all inputs but the journal that were seen and not read."""

    @classmethod
    def measure(
        cls, registry: SourceRegistry, followed: Mapping[FileKey, FollowedFile]
    ) -> "DeliveryProgress":
        """Return the progress now; *followed* are the files. Takes about 1 µs a source."""
        total = Acknowledged()
        total.add(registry.finished)
        for source in registry.sources:
            total.add(source.acknowledged)
        behind = sum(source.is_behind for source in registry.sources)
        unread = count_unread_bytes(registry.sources, followed.values())
        return cls(total.events, total.bytes, total.gap_bytes, len(followed), behind, unread)


class AgentSummary:
    """Logs what was acknowledged in each minute.

    *when_idle* is called after the first minute in which nothing was acknowledged, and again after
    each spell of work.
    """

    def __init__(
        self,
        registry: SourceRegistry,
        followed: Mapping[FileKey, FollowedFile],
        clock: Clock,
        log: Any,
        *,
        when_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._registry = registry
        self._followed = followed
        self._clock = clock
        self._log = log
        self._when_idle = when_idle
        self._idle = False  # whether nothing was acknowledged in the last minute
        self._last = DeliveryProgress.measure(registry, followed)  # the progress a minute ago

    async def run(self) -> None:
        """Log each minute in which something was acknowledged or is left, until cancelled."""
        while True:
            await self._clock.sleep(_SECONDS)
            last, now = self._last, DeliveryProgress.measure(self._registry, self._followed)
            self._last = now
            moved = (now.lines, now.bytes, now.gap_bytes) != (
                last.lines,
                last.bytes,
                last.gap_bytes,
            )
            if not moved and not self._idle:
                self._when_idle()
            self._idle = not moved

            # a minute in which all was quiet needs no line
            if moved or now.behind:
                self._log.info(
                    "in the last minute",
                    lines=now.lines - last.lines,
                    bytes=now.bytes - last.bytes,
                    files=now.files,
                    sources_behind=now.behind,
                    unread_bytes=now.unread_bytes,
                )

    def totals(self) -> dict[str, int]:
        """Return what was acknowledged since the start, as fields of a log line."""
        now = DeliveryProgress.measure(self._registry, self._followed)
        return {"lines": now.lines, "bytes": now.bytes, "files": now.files}

    def undelivered(self, problem: str) -> dict[str, Any]:
        """Return what was not acknowledged, as fields of a log line; {} for nothing.

        Refused sources count, and files that no handle was left for. *problem* is the connection's,
        "" for none.
        """
        sources = [source for source in self._registry.sources if source.is_behind]
        lacking = [file for file in self._followed.values() if file.lacks_handle]
        if not sources and not lacking:
            return {}
        problems = [source.registration.problem for source in sources]
        problems += [file.trouble for file in lacking]
        return {
            "sources_left": len(sources),
            "files_without_handle": len(lacking),
            "bytes_left": sum(source.unacknowledged_bytes for source in sources),
            "reason": problem or next(filter(None, problems), "there was not enough time"),
        }
