"""Log lines about single files, of which a clean-up or a wrong permission may bring thousands.

The same line about several files within a second is one line with their number and an example; the
next follows a minute later at the earliest. A line about one file only is as it would be without.
"""

from typing import Any, Final

from logdrive.host.clock import Clock

_COUNTING_SECONDS: Final = 1.0
"""After the first file others are counted for so long before they are told together."""

_AGAIN_SECONDS: Final = 60.0
"""Between two lines with the same text."""


class _Group:
    """Files with the same line: how many, the path of the first, the words that all have alike."""

    def __init__(self) -> None:
        self.level = "warning"
        self.files = 0
        self.path = ""
        self.words: dict[str, Any] = {}
        self.since = 0.0
        self.told_at: float | None = None

    def add(self, path: str, words: dict[str, Any], now: float) -> None:
        """Count one file more."""
        if not self.files:
            self.path, self.words, self.since = path, words, now
        else:
            self.words = {
                key: self.words[key] for key in self.words if words.get(key) == self.words[key]
            }
        self.files += 1

    def is_due(self, now: float) -> bool:
        """Whether its line is to be written now."""
        if not self.files or now - self.since < _COUNTING_SECONDS:
            return False
        return self.told_at is None or now - self.told_at >= _AGAIN_SECONDS

    def take(self, now: float) -> dict[str, Any]:
        """Return what its line says, and count anew from here."""
        said = (
            {"path": self.path} if self.files == 1 else {"files": self.files, "example": self.path}
        )
        said |= self.words
        self.files, self.words, self.told_at = 0, {}, now
        return said


class FileLog:
    """Writes lines about files to *log*.

    `write_due` is called every second or so, `flush` at the end.
    """

    def __init__(self, log: Any, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._groups: dict[str, _Group] = {}

    def warning(self, event: str, path: str, **words: Any) -> None:
        """Warn of the file *path*, soon."""
        self._add("warning", event, path, words)

    def error(self, event: str, path: str, **words: Any) -> None:
        """Tell of an error with the file *path*, soon."""
        self._add("error", event, path, words)

    def write_due(self) -> None:
        """Write the lines whose time has come. Costs a comparison a kind of line."""
        now = self._clock.monotonic()
        for event, group in self._groups.items():
            if group.is_due(now):
                self._write(event, group, now)

    def flush(self) -> None:
        """Write all that is waiting."""
        now = self._clock.monotonic()
        for event, group in self._groups.items():
            if group.files:
                self._write(event, group, now)

    def _add(self, level: str, event: str, path: str, words: dict[str, Any]) -> None:
        group = self._groups.setdefault(event, _Group())
        group.level = level
        group.add(path, words, self._clock.monotonic())

    def _write(self, event: str, group: _Group, now: float) -> None:
        getattr(self._log, group.level)(event, **group.take(now))
