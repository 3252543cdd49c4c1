"""Log of single files: a clean-up or a wrong permission may bring the same line for thousands.

Lines with the same text about several files within a second become one line, with their number and
an example; the next one follows a minute later at the earliest. A line about one file only is the
same as in the log itself.
"""

from typing import Any, Final

from logdrive.host.clock import Clock

_COUNTING_SECONDS: Final = 1.0
"""How long further files are counted after the first one, before the line is written."""

_AGAIN_SECONDS: Final = 60.0
"""Shortest time between two lines with the same text."""


class _Group:
    """Files with the same line that was not written yet."""

    def __init__(self) -> None:
        self.level = "warning"  # name of the log's method
        self.paths: dict[str, None] = {}  # of the files, in order
        self.words: dict[str, Any] = {}  # the fields that all of them have in common
        self.since = 0.0  # when the first file came (monotonic, s)
        self.written_at: float | None = None  # when a line was written last (monotonic, s)

    def add(self, path: str, words: dict[str, Any], now: float) -> None:
        """Count a file, once however often it is told of."""
        if not self.paths:
            self.words, self.since = words, now
        else:
            self.words = {
                key: self.words[key] for key in self.words if words.get(key) == self.words[key]
            }
        self.paths[path] = None

    def is_due(self, now: float) -> bool:
        """Return whether the line is to be written now."""
        if not self.paths or now - self.since < _COUNTING_SECONDS:
            return False
        return self.written_at is None or now - self.written_at >= _AGAIN_SECONDS

    def take_fields(self, now: float) -> dict[str, Any]:
        """Return the fields of the line, and start counting again."""
        path = next(iter(self.paths))
        fields: dict[str, Any] = {"path": path}
        if len(self.paths) > 1:
            fields = {"files": len(self.paths), "example": path}
        fields |= self.words
        self.paths, self.words, self.written_at = {}, {}, now
        return fields


class FileLog:
    """Writes lines about files to *log*.

    Call `write_due` every second or so, and `flush` at the end.
    """

    def __init__(self, log: Any, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._groups: dict[str, _Group] = {}  # by the text of the line

    def info(self, event: str, path: str, **words: Any) -> None:
        """Write the information *event* about the file *path*, soon."""
        self._add("info", event, path, words)

    def warning(self, event: str, path: str, **words: Any) -> None:
        """Write the warning *event* about the file *path*, soon."""
        self._add("warning", event, path, words)

    def error(self, event: str, path: str, **words: Any) -> None:
        """Write the error *event* about the file *path*, soon."""
        self._add("error", event, path, words)

    def write_due(self) -> None:
        """Write the lines that are due. Takes a comparison for each text."""
        now = self._clock.monotonic()
        for event, group in self._groups.items():
            if group.is_due(now):
                self._write(event, group, now)

    def flush(self) -> None:
        """Write all lines that wait."""
        now = self._clock.monotonic()
        for event, group in self._groups.items():
            if group.paths:
                self._write(event, group, now)

    def _add(self, level: str, event: str, path: str, words: dict[str, Any]) -> None:
        group = self._groups.setdefault(event, _Group())
        group.level = level
        group.add(path, words, self._clock.monotonic())

    def _write(self, event: str, group: _Group, now: float) -> None:
        getattr(self._log, group.level)(event, **group.take_fields(now))
