r"""Syslog: RFC 3164 as files and networks have it, RFC 5424, and rsyslog's lines with ISO times.

<34>Oct 11 22:14:15 mymachine su[230]: message
2026-01-02T03:04:05.678901+01:00 mymachine su[230]: message
<165>1 2003-10-11T22:14:15.003Z mymachine evntslog 111 ID47 [exampleSDID@32473 iut="3"] message
"""

import re
from collections.abc import Mapping
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.format import FormatOptions, LogFormat
from logdrive.pipeline.formats.json_text import json_objects, json_strings
from logdrive.pipeline.formats.levels import severity_levels
from logdrive.pipeline.formats.matching import Groups
from logdrive.pipeline.formats.patterns import FirstOf, PatternFormat
from logdrive.pipeline.formats.traces import WithTraces

SCHEMA: Final = pa.schema(
    [
        pa.field("hostname", pa.string()),
        pa.field("program", pa.string()),
        pa.field("pid", pa.int64()),
        pa.field("facility", pa.string()),
        pa.field("level", pa.string()),
        pa.field("message_id", pa.string()),
        pa.field("message", pa.string()),
        pa.field("rest", pa.string()),
    ]
)

_PRIORITY = r"<(?P<priority>1[0-8]\d|19[01]|\d{1,2})>"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?"
_ISO = rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)T{_CLOCK}(?P<zone>Z|[+-]\d\d:\d\d)"
_PROGRAM = r"(?:-- )?(?P<program>[^\s:\[\]]+(?: \d[\d.]*)?)(?:\[(?P<pid>\d{1,18})\])?: ?"
_BSD = (
    rf"(?s)^(?:{_PRIORITY})?(?P<month>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK}"
    rf" (?P<hostname>[^\s:]\S*) +(?:{_PROGRAM})?(?P<message>.*)$"
)
_RSYSLOG = rf"(?s)^(?:{_PRIORITY})?{_ISO} (?P<hostname>\S+) {_PROGRAM}(?P<message>.*)$"
_RFC5424 = (
    rf"(?s)^{_PRIORITY}[1-9]\d? (?:{_ISO}|-) (?P<hostname>\S+) (?P<program>\S+)"
    r" (?P<process>\S+) (?P<message_id>\S+)"
    r" (?:-|(?P<data>(?:\[[^\s\]=\"]+(?: [^\s\]=\"]+=\"(?:[^\"\\\]]|\\.)*\")*\])+))"
    r"(?: \x{FEFF}?(?P<message>.*))?$"
)
_FACILITIES = pa.array(
    "kern user mail daemon auth syslog lpr news uucp cron authpriv ftp ntp audit alert clock "  # noqa: SIM905
    "local0 local1 local2 local3 local4 local5 local6 local7".split()
)
_ELEMENT = re.compile(r'\[([^\s\]="]+)((?: [^\s\]="]+="(?:[^"\\\]]|\\.)*")*)\]', re.DOTALL)
_PARAMETER = re.compile(r' ([^\s\]="]+)="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\\]])')


def syslog_format(options: FormatOptions) -> LogFormat:
    """Return the format of syslog's lines, of all kinds."""

    def of(pattern: str) -> PatternFormat:
        return PatternFormat("syslog", "syslog", SCHEMA, pattern, options, _derive, {"priority"})

    return WithTraces(FirstOf([of(_BSD), of(_RSYSLOG), of(_RFC5424)]))


def _derive(groups: Groups) -> Mapping[str, pa.Array]:
    priority = groups.number("priority")
    facility = pc.divide(priority, 8)
    columns = {
        "facility": _FACILITIES.take(facility),
        "level": severity_levels(pc.subtract(priority, pc.multiply(facility, 8))),
    }
    if "process" in groups.values:
        columns |= _derive_rfc5424(groups)
    return columns


def _derive_rfc5424(groups: Groups) -> Mapping[str, pa.Array]:
    process = groups.text("process", "-")
    numeric = pc.fill_null(pc.match_substring_regex(process, r"^\d{1,18}$"), False)
    return {
        "hostname": groups.text("hostname", "-"),
        "program": groups.text("program", "-"),
        "message_id": groups.text("message_id", "-"),
        "pid": pc.if_else(numeric, process, None).cast(pa.int64()),
        "rest": json_objects(
            len(process),
            {
                "process": json_strings(pc.if_else(numeric, None, process)),
                "data": _structured_data(groups.text("data")),
            },
        ),
    }


def _structured_data(texts: pa.StringArray) -> pa.StringArray:
    """Return structured data (RFC 5424, section 6.3) as JSON: id → name → value.

    Costs Python for each text that differs.
    """
    said = texts.dictionary_encode()
    read = pa.array([_read_elements(one) for one in said.dictionary.to_pylist()], pa.string())
    return read.take(said.indices)


def _read_elements(text: str) -> str:
    elements = {
        name: {key: _ESCAPED.sub(r"\1", value) for key, value in _PARAMETER.findall(inside)}
        for name, inside in _ELEMENT.findall(text)
    }
    return orjson.dumps(elements).decode()
