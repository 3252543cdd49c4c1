r"""Access logs of web servers: Apache's common and combined format, and nginx's.

    client ident user [17/May/2015:10:05:03 +0000] "request" status bytes "referer" "agent"

Fields are named as in the Elastic Common Schema.
"""

import re
from typing import Any, Final

from agent.events.event import Event
from agent.events.record_parts import TIMESTAMP

_QUOTED: Final = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_LINE: Final = re.compile(
    r"(\S++) \S++ (\S++) \[(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d:\d\d:\d\d) ([+-]\d\d)(\d\d)\] "
    rf"{_QUOTED} (\d{{3}}) (\d{{1,18}}|-)(?: {_QUOTED} {_QUOTED}(?: (.*))?)?\s*+",
    re.DOTALL,
)
_REQUEST: Final = re.compile(r"([A-Z][A-Z_-]{0,31}) (\S++)(?: HTTP/(\d(?:\.\d)?))?")
_MONTHS: Final = {
    name: f"{number:02}"
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}


def read_access(event: Event) -> dict[str, Any] | None:
    """Return the fields of a line; what is "-" there is left out."""
    found = _LINE.fullmatch(event.message)
    if found is None:
        return None
    client, user, day, month, year, clock, hours, minutes = found.group(*range(1, 9))
    request, status, size, referrer, agent, extra = found.group(*range(9, 15))
    if month not in _MONTHS:
        return None

    asked: dict[str, Any] = {}
    response: dict[str, Any] = {"status_code": int(status)}
    http: dict[str, Any] = {"request": asked, "response": response}
    fields: dict[str, Any] = {
        TIMESTAMP: f"{year}-{_MONTHS[month]}-{day}T{clock}{hours}:{minutes}",
        "source": {"address": client},
        "http": http,
    }
    parts = _REQUEST.fullmatch(request)
    if parts is not None:
        asked["method"], path, version = parts.groups()
        fields["url"] = {"original": path}
        if version:
            http["version"] = version
    else:
        fields["url"] = {"original": request}
    if size != "-":
        response["body"] = {"bytes": int(size)}
    if user != "-":
        fields["user"] = {"name": user}
    if referrer and referrer != "-":
        asked["referrer"] = referrer
    if agent and agent != "-":
        fields["user_agent"] = {"original": agent}
    if extra:
        fields["extra"] = extra
    return fields
