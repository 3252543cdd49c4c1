r"""Lines that container runtimes write: CRI's, and those of Docker's driver json-file.

    2016-10-06T00:17:09.669794202Z stdout F message
    {"log":"message\n","stream":"stdout","time":"2016-10-06T00:17:09.669794202Z"}

The message becomes what the container wrote, and the line is its `original`. An event may have
several such lines, where the cutter has put together what belongs together.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from agent.events.event import Event
from agent.events.formats.event_text import replace_message
from agent.events.record_parts import TIMESTAMP

_ISO: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_CRI: Final = re.compile(rf"({_ISO}) (stdout|stderr) ([PF])(?::\S*)?(?: (.*))?", re.DOTALL)
_TIME: Final = re.compile(_ISO)

_Part = tuple[str, str, str, bool]
"""A line of a container: its text without line end, stream, time, and whether it goes on."""


def read_cri(event: Event) -> dict[str, Any] | None:
    """Return stream and time of CRI's lines."""
    return _read(event, _cri_part)


def read_docker(event: Event) -> dict[str, Any] | None:
    """Return stream and time of Docker's lines."""
    return _read(event, _docker_part)


def _read(event: Event, part_of: Callable[[str], _Part | None]) -> dict[str, Any] | None:
    texts: list[str] = []
    first: _Part | None = None
    goes_on = True  # so that nothing stands before the first
    for line in event.message.split("\n"):
        part = part_of(line.removesuffix("\r"))
        if part is None:
            return None
        first = first or part
        texts.append(part[0] if goes_on else "\n" + part[0])
        goes_on = part[3]
    if first is None:
        return None
    replace_message(event, "".join(texts))
    fields: dict[str, Any] = {"stream": first[1], TIMESTAMP: first[2]}
    if goes_on:
        fields["partial"] = True
    return fields


def _cri_part(line: str) -> _Part | None:
    found = _CRI.fullmatch(line)
    if found is None:
        return None
    time, stream, tag, text = found.groups("")
    return text, stream, time, tag == "P"


def _docker_part(line: str) -> _Part | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(value) is not dict:
        return None
    text, stream, time = value.get("log"), value.get("stream"), value.get("time")
    if type(text) is not str or stream not in ("stdout", "stderr"):
        return None
    if type(time) is not str or _TIME.fullmatch(time) is None:
        return None
    whole = text.endswith("\n")
    return text[:-1].removesuffix("\r") if whole else text, stream, time, not whole
