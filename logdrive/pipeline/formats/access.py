r"""Access logs of web servers: Apache's common and combined format, and nginx's.

    client ident user [17/May/2015:10:05:03 +0000] "request" status bytes "referer" "agent" seconds

Referer and agent may be missing, and so may the seconds that the request took. What follows is kept
as `extra`. A quote or backslash within quotes stands behind a backslash; other escapes, such as
`\x16`, are left as they are.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.access_cut import CutLines, usual_lines
from logdrive.pipeline.formats.arrays import to_booleans
from logdrive.pipeline.formats.format import FormatOptions, LogLines, ParsedLines
from logdrive.pipeline.formats.joining import join_parsed
from logdrive.pipeline.formats.matching import Groups, first_reason, match_groups, record_batch
from logdrive.pipeline.formats.patterns import NO_TIME, no_line
from logdrive.pipeline.formats.times import read_times

SCHEMA: Final = pa.schema(
    [
        pa.field("client", pa.string()),
        pa.field("user", pa.string()),
        pa.field("method", pa.string()),
        pa.field("url_path", pa.string()),
        pa.field("url_query", pa.string()),
        pa.field("protocol", pa.string()),
        pa.field("status", pa.int16()),
        pa.field("bytes", pa.int64()),
        pa.field("referer", pa.string()),
        pa.field("agent", pa.string()),
        pa.field("seconds", pa.float64()),
        pa.field("request", pa.string()),
        pa.field("extra", pa.string()),
    ]
)

_TIME = (
    r"(?P<day>\d\d)/(?P<month>[A-Za-z]{3})/(?P<year>\d{4})"
    r":(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d) (?P<zone>[+-]\d{4})"
)
_QUOTED = r'(?:[^"\\]|\\.)*'
_LINE = (
    rf"(?s)^(?P<client>\S+) \S+ (?P<user>\S+|{_QUOTED}) \[{_TIME}\] "
    rf'"(?P<request>{_QUOTED})" (?P<status>\d{{3}}) (?P<bytes>\d{{1,18}}|-)'
    rf'(?: "(?P<referer>{_QUOTED})" "(?P<agent>{_QUOTED})"'
    r'(?: "?(?P<seconds>\d{1,9}\.\d{1,9})"?)?(?: (?P<extra>.+))?)?\s*$'
)
_REQUEST = (
    r"(?s)^(?P<method>[A-Z][A-Z_-]{0,31}) (?P<url_path>[^ ?]+)(?:\?(?P<url_query>[^ ]*))?"
    r"(?: (?P<protocol>HTTP/\d(?:\.\d)?))?$"
)
_ESCAPED = r'\\(["\\])'
_STATUS = (100, 599)


class AccessFormat:
    """Access logs."""

    name = "access"
    table = "access"
    schema = SCHEMA

    def __init__(self, options: FormatOptions) -> None:
        self._zone = options.zone

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line. A request that is none, such as `-`, is kept as `request`.

        Costs about 1 µs a line of the combined format.
        """
        usual = usual_lines(lines.message)
        if not usual.true_count:
            return self.parse_any(lines)
        if not usual.false_count:
            return _cut(lines.message)
        rows = to_booleans(usual)
        return join_parsed(
            [_cut(lines.message.filter(usual)), self.parse_any(lines.filter(pc.invert(usual)))],
            np.concatenate([np.flatnonzero(rows), np.flatnonzero(~rows)]),
        )

    def parse_any(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line, usual or not: the same, at three times the cost."""
        groups = match_groups(lines.message, _LINE)
        times = read_times(groups, lines.received, self._zone)
        status = pc.fill_null(groups.number("status"), 0)
        no_status = pc.or_(pc.less(status, _STATUS[0]), pc.greater(status, _STATUS[1]))
        reasons = first_reason(
            len(lines),
            (pc.invert(groups.matched), no_line(self.name)),
            (no_status, "status is not 100 to 599"),
            (times.invalid, NO_TIME),
        )
        refused = reasons.is_valid()
        columns = record_batch(SCHEMA, _columns(groups, status), refused)
        return ParsedLines(columns, pc.if_else(refused, None, times.time), reasons)


def _cut(texts: pa.StringArray) -> ParsedLines:
    lines = CutLines(texts)
    time, invalid = lines.times()
    reasons = first_reason(len(texts), (invalid, NO_TIME))
    nulls = {field.name: pa.nulls(len(texts), field.type) for field in SCHEMA}
    return ParsedLines(record_batch(SCHEMA, nulls | lines.columns(), invalid), time, reasons)


def _columns(groups: Groups, status: pa.Int64Array) -> dict[str, pa.Array]:
    request = match_groups(groups.values["request"], _REQUEST)
    return {
        "client": groups.text("client", "-"),
        "user": _unescape(groups.text("user", "-")),
        "method": request.text("method"),
        "url_path": _unescape(request.text("url_path")),
        "url_query": _unescape(request.text("url_query")),
        "protocol": request.text("protocol"),
        "status": status,
        "bytes": groups.number("bytes", "-"),
        "referer": _unescape(groups.text("referer", "-")),
        "agent": _unescape(groups.text("agent", "-")),
        "seconds": groups.text("seconds").cast(pa.float64()),
        "request": _unescape(pc.if_else(request.matched, None, groups.text("request", "-"))),
        "extra": groups.text("extra"),
    }


def _unescape(texts: pa.StringArray) -> pa.StringArray:
    if not pc.any(pc.match_substring(texts, "\\")).as_py():
        return texts
    return pc.replace_substring_regex(texts, _ESCAPED, r"\1")
