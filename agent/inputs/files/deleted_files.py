"""Limits how long deleted files are held open, by age and by bytes.

A deleted file takes space on the disk for as long as it is open, and no tool shows it: without
limits a long outage of the receiver could fill the disk unseen.
"""

from typing import Final

from agent.sources.place import FileKey

_DAY_SECONDS: Final = 86_400.0


class DeletedFiles:
    """Deleted files with unread bytes, oldest first."""

    def __init__(self, most_days: float, most_bytes: int) -> None:
        """Set the limits: `keep_removed_days` for each file, `keep_removed_bytes` for all."""
        self.set_limits(most_days, most_bytes)
        self._waiting: dict[FileKey, tuple[float, int]] = {}  # since when (s), unread bytes
        self._bytes = 0  # unread bytes of all

    def set_limits(self, most_days: float, most_bytes: int) -> None:
        """Use other limits from now on; see the constructor."""
        self._most_seconds = most_days * _DAY_SECONDS  # limit on a file's age since its removal
        self._most_bytes = most_bytes

    def track_unread(self, key: FileKey, unread: int, now: float) -> str:
        """Record that a deleted file has *unread* bytes; return why to close it, "" for no reason.

        Call it at each look at a deleted file; *now* is the monotonic clock's, in seconds.
        """
        if not unread:
            self.untrack(key)
            return ""

        since, before = self._waiting.get(key, (now, 0))
        self._waiting[key] = since, unread
        self._bytes += unread - before

        if now - since > self._most_seconds:
            return f"it has waited for {(now - since) / _DAY_SECONDS:.1f} days (keep_removed_days)"
        # only the oldest is closed, then the next one if that was not enough
        if self._bytes > self._most_bytes and next(iter(self._waiting)) == key:
            return f"{self._bytes} bytes of deleted files wait (keep_removed_bytes)"
        return ""

    def untrack(self, key: FileKey) -> None:
        """Stop tracking a file: it was linked again, read to its end, or closed."""
        self._bytes -= self._waiting.pop(key, (0.0, 0))[1]
