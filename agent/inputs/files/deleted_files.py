"""How long deleted files are held open: nobody sees what they take of the disk, so that is bounded,
by age and by bytes (history 26).
"""

from typing import Final

from agent.sources.place import FileKey

_DAY_SECONDS: Final = 86_400.0


class DeletedFiles:
    """Deleted files that wait to be read, in the order in which they began to.

    One that is read to its end does not wait.
    """

    def __init__(self, most_days: float, most_bytes: int) -> None:
        self._most_seconds, self._most_bytes = most_days * _DAY_SECONDS, most_bytes
        self._waiting: dict[FileKey, tuple[float, int]] = {}  # since when, and how many bytes
        self._bytes = 0

    def excess(self, key: FileKey, unread: int, now: float) -> str:
        """Take notice that *unread* bytes of a file without a name wait; return why they must not
        any longer, "" where they may.
        """
        if not unread:
            self.forget(key)
            return ""
        since, before = self._waiting.get(key, (now, 0))
        self._waiting[key] = since, unread
        self._bytes += unread - before
        if now - since > self._most_seconds:
            return f"it has waited for {(now - since) / _DAY_SECONDS:.1f} days (keep_removed_days)"
        if self._bytes > self._most_bytes and next(iter(self._waiting)) == key:
            return f"{self._bytes} bytes of deleted files wait (keep_removed_bytes)"
        return ""

    def forget(self, key: FileKey) -> None:
        """It has a name again, is read to its end, or is held no longer."""
        self._bytes -= self._waiting.pop(key, (0.0, 0))[1]
