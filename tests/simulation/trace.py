"""The trace of one history: its steps and what the programs logged, in the order of time."""

import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

import structlog

SPEAKER: ContextVar[str] = ContextVar("speaker", default="")
"""Name of the process that the present task belongs to."""

_AGAIN = "           … and again"  # in place of repeated lines
# fields of log messages that are left out
_DULL = {"peer", "identity", "dialect"}


class Trace:
    """Lines of time, speaker and text."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._thread = threading.get_ident()
        # time in seconds, speaker, text
        self.lines: list[tuple[float, str, str]] = []
        # "process: event" -> how often the process has logged the event
        self.heard: dict[str, int] = {}

    def add(self, who: str, text: str) -> None:
        """Add a line of the speaker *who*."""
        self.lines.append((self._now(), who, text))

    def text(self, last: int | None = None) -> str:
        """Return the trace for people, all of it or its *last* lines."""
        lines: list[str] = []
        before = ("", "")
        for at, who, what in self.lines:
            if (who, what) != before:
                lines.append(f"{at:9.3f}  {who:10} {what}")
            elif not lines[-1].endswith(_AGAIN):
                lines.append(_AGAIN)
            before = who, what
        shown = lines if last is None else lines[-last:]
        left_out = len(lines) - len(shown)
        return "\n".join([*([f"… {left_out} earlier lines"] if left_out else []), *shown])

    def digest(self) -> str:
        """Return a hash of every line."""
        return sha256(self.text().encode()).hexdigest()

    def _log(self, _: Any, level: str, event: MutableMapping[str, Any]) -> str:
        if threading.get_ident() != self._thread:  # a history has one: it is another test's
            raise structlog.DropEvent
        speaker, what = SPEAKER.get(), event.pop("event")
        key = f"{speaker}: {what}"
        self.heard[key] = self.heard.get(key, 0) + 1
        rest = " ".join(f"{name}={value}" for name, value in event.items() if name not in _DULL)
        self.add(speaker, f"{what} {rest}".rstrip())
        raise structlog.DropEvent


@contextmanager
def recorded(trace: Trace) -> Iterator[None]:
    """Send all log messages to *trace* inside the context."""
    before = structlog.get_config()
    structlog.configure(processors=[trace._log], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
