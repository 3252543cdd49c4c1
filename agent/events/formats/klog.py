r"""Lines of klog and glog, which Kubernetes' components write:

    I0102 15:04:05.678901   12345 server.go:123] message

Its times have no year, so they don't become the event's time.
"""

import re
from typing import Any, Final

from agent.events.event import Event

_LINE: Final = re.compile(
    r"([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) ++(\d{1,18}) ([^\s:\]]++:\d{1,9})\] ?(.*)", re.DOTALL
)
_LEVELS: Final = {"I": "info", "W": "warning", "E": "error", "F": "fatal"}


def read_klog(event: Event) -> dict[str, Any] | None:
    """Return the fields of a line; `content` is the text behind its head."""
    found = _LINE.fullmatch(event.message)
    if found is None:
        return None
    level, _, thread, caller, content = found.groups()
    return {
        "log": {"level": _LEVELS[level]},
        "process": {"thread": {"id": int(thread)}},
        "caller": caller,
        "content": content,
    }
