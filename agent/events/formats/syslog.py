r"""Syslog: RFC 3164 as files and networks have it, RFC 5424, and rsyslog's lines with ISO times.

    <34>Oct 11 22:14:15 mymachine su[230]: message
    2026-01-02T03:04:05.678901+01:00 mymachine su[230]: message
    <165>1 2003-10-11T22:14:15.003Z mymachine evntslog 111 ID47 [exampleSDID@32473 iut="3"] message

Fields are named as in the Elastic Common Schema, below `log.syslog`; `content` is the text behind
the head. Times of RFC 3164 have no year, so only the others become the event's time.
"""

import re
from typing import Any, Final

from agent.events.event import Event
from agent.events.record_parts import TIMESTAMP

_PRIORITY: Final = r"<(1[0-8]\d|19[01]|\d{1,2})>"
_ISO: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_BSD: Final = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
_HEAD: Final = re.compile(rf"(?:{_PRIORITY})?(?:({_BSD})|({_ISO})) +([^\s:]\S*+) ++")
_TAG: Final = re.compile(r"(?:-- )?([^\s:\[\]]++(?: \d[\d.]*+)?)(?:\[([^\]\s]{1,128})\])?:(?: |$)")
_RFC5424: Final = re.compile(
    rf"{_PRIORITY}[1-9]\d? (?:({_ISO})|-) (\S++) (\S++) (\S++) (\S++)"
    r' (?:-|((?:\[[^\s\]="]++(?: [^\s\]="]++="[^"\\\]]*+(?:\\.[^"\\\]]*+)*+")*+\])++))'
    r"(?: \ufeff?(.*))?",
    re.DOTALL,
)
_ELEMENT: Final = re.compile(
    r'\[([^\s\]="]++)((?: [^\s\]="]++="[^"\\\]]*+(?:\\.[^"\\\]]*+)*+")*+)\]', re.DOTALL
)
_PARAMETER: Final = re.compile(r' ([^\s\]="]++)="([^"\\\]]*+(?:\\.[^"\\\]]*+)*+)"', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\\]])')


def read_syslog(event: Event) -> dict[str, Any] | None:
    """Return the fields of a line; what is "-" there is left out."""
    line = event.message
    head = _HEAD.match(line)
    if head is None:
        return _read_rfc5424(line)
    priority, _, time, host = head.groups()
    syslog = _priority(priority)
    syslog["hostname"] = host
    tag = _TAG.match(line, head.end())
    if tag is not None:
        syslog["appname"] = tag[1]
        if tag[2] is not None:
            syslog["procid"] = tag[2]
    fields: dict[str, Any] = {"log": {"syslog": syslog}}
    if time is not None:
        fields[TIMESTAMP] = time
    fields["content"] = line[(tag or head).end() :]
    return fields


def _read_rfc5424(line: str) -> dict[str, Any] | None:
    found = _RFC5424.fullmatch(line)
    if found is None:
        return None
    priority, time, *names, data, content = found.groups()
    syslog = _priority(priority)
    for key, value in zip(("hostname", "appname", "procid", "msgid"), names, strict=True):
        if value != "-":
            syslog[key] = value
    if data:
        syslog["structured_data"] = {
            name: {key: _ESCAPED.sub(r"\1", value) for key, value in _PARAMETER.findall(inside)}
            for name, inside in _ELEMENT.findall(data)
        }
    fields: dict[str, Any] = {"log": {"syslog": syslog}, "content": content or ""}
    if time is not None:
        fields[TIMESTAMP] = time
    return fields


def _priority(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    facility, severity = divmod(int(text), 8)
    return {
        "priority": int(text),
        "facility": {"code": facility},
        "severity": {"code": severity},
    }
