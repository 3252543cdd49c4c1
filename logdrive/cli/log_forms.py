"""Forms of log lines: for people, for programs that read JSON, and for the journal of systemd."""

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal

import orjson

LogForm = Literal["auto", "console", "json", "journal"]

_PRIORITIES: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""The journal's priorities (sd-daemon(3)) by structlog's levels."""
ERROR_PREFIX: Final = f"<{_PRIORITIES['error']}>"
"""What a line of an error begins with, for the journal."""
_KEY_ORDER: Final = ["timestamp", "level", "event"]


def choose_form(form: LogForm, environ: Mapping[str, str]) -> LogForm:
    """Return the form for "auto": the journal's if that reads our standard error, else people's.

    JOURNAL_STREAM names the journal's socket by device and inode. A program that was started by a
    service, and whose output goes elsewhere, has the variable, too.
    """
    if form != "auto":
        return form
    stream = environ.get("JOURNAL_STREAM", "")
    try:
        stat = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return "console"  # closed, or no file
    return "journal" if stream == f"{stat.st_dev}:{stat.st_ino}" else "console"


def make_processors(form: LogForm) -> list[Any]:
    """Return structlog's last processors: what adds the time, and what makes a line of an event."""
    import structlog  # not sooner: see `import_structlog`

    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    fields = structlog.processors.LogfmtRenderer(key_order=_KEY_ORDER, bool_as_flag=False)
    if form == "json":
        return [stamp, _render_json]
    if form == "journal":
        # it has time and level itself
        plain = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)
        return [_JournalRenderer(plain)]
    return [stamp, structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else fields]


def _render_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    ordered = {key: event[key] for key in _KEY_ORDER if key in event}
    return orjson.dumps(ordered | dict(event), default=str).decode()


class _JournalRenderer:
    """Makes a line as the journal reads it: `<4>event="connection failed" reason=…`."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain  # makes the line without its priority

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        priority = _PRIORITIES.get(event.pop("level", "info"), _PRIORITIES["info"])
        return f"<{priority}>{self._plain(logger, method, event)}"
