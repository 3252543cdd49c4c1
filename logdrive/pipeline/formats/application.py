r"""Lines of applications: a time, a level, who says it, a message, in the layouts of well-known
programs and logging libraries.

Each layout is an expression; the groups become the columns, and others members of `rest`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from logdrive.pipeline.formats.format import FormatOptions, LogFormat
from logdrive.pipeline.formats.levels import LEVEL_WORDS
from logdrive.pipeline.formats.patterns import FirstOf, PatternFormat
from logdrive.pipeline.formats.traces import WithTraces

TABLE: Final = "application"
SCHEMA: Final = pa.schema(
    [
        pa.field("level", pa.string()),
        pa.field("logger", pa.string()),
        pa.field("thread", pa.string()),
        pa.field("pid", pa.int64()),
        pa.field("node", pa.string()),
        pa.field("message", pa.string()),
        pa.field("rest", pa.string()),
    ]
)

_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_FRACTION = r"(?:[.,](?P<fraction>\d{1,9}))?"
_ISO = (
    rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)[T ]{_CLOCK}{_FRACTION}"
    r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d))?"
)
_SLASHES = rf"(?P<year>\d{{4}})/(?P<month>\d\d)/(?P<day>\d\d) {_CLOCK}{_FRACTION}"
_WEEKDAY = (
    rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK}{_FRACTION}"
    r" (?P<year>\d{4})"
)
_LEVEL = f"(?P<level>{LEVEL_WORDS})"
_NAME = r"(?P<logger>[\w.$/<>-]+)"
_PID = r"(?P<pid>\d{1,18})"
_MESSAGE = r"(?P<message>.*)$"

LAYOUTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # - 1117838570 2005.06.03 NODE 2005-06-03-15.42.50.675872 NODE RAS KERNEL INFO message
        "bgl": r"^(?P<alert>\S+) (?P<epoch>\d{1,10}) [\d.]{10} (?P<node>\S+)"
        r" \d{4}-\d\d-\d\d-\d\d\.\d\d\.\d\d\.(?P<fraction>\d{6}) \S+ (?P<type>\S+)"
        rf" (?P<logger>\S+) (?P<level>\S+) ?{_MESSAGE}",
        # 134681 node-246 unix.hw state_change.unavailable 1077804742 1 message
        "hpc": r"^(?P<id>\d{1,18}) (?P<node>\S.*?) (?P<logger>\S+) (?P<state>\S+)"
        rf" (?P<epoch>\d{{9,10}}) (?P<flag>-?\d{{1,9}}) {_MESSAGE}",
        # 081109 203615 148 INFO dfs.DataNode$PacketResponder: message
        "hdfs": r"^(?P<year>\d\d)(?P<month>\d\d)(?P<day>\d\d)"
        r" (?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)"
        rf" {_PID} {_LEVEL} {_NAME}: ?{_MESSAGE}",
        # 17/06/09 20:10:40 INFO executor.Executor: message
        "spark": rf"^(?P<year>\d\d)/(?P<month>\d\d)/(?P<day>\d\d) {_CLOCK}"
        rf" {_LEVEL} +{_NAME}: ?{_MESSAGE}",
        # 2015-07-29 17:41:44,747 - INFO  [QuorumPeer[myid=1]:FastLeaderElection@774] - message
        "zookeeper": rf"^{_ISO} (?:\[myid:\d*\] )?- {_LEVEL} +"
        rf"\[(?P<thread>.*?):(?P<logger>[\w.$-]+)@(?P<line>\d+)\] - ?{_MESSAGE}",
        # 2015-10-18 18:01:47,978 INFO [main] org.apache.hadoop.Client: message
        "hadoop": rf"^{_ISO} {_LEVEL} +\[(?P<thread>.*?)\] {_NAME}: ?{_MESSAGE}",
        # nova-api.log 2017-05-16 00:00:00.008 25746 INFO nova.wsgi [req-… user project - - -] …
        "openstack": rf"^(?:(?P<file>\S+) )??{_ISO} {_PID} {_LEVEL} {_NAME}"
        rf" \[(?P<request>[^\]]*)\] ?{_MESSAGE}",
        # 20171223-22:15:29:606|Step_LSC|30002312|message
        "healthapp": r"^(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)"
        r"-(?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2}):(?P<millisecond>\d{1,3})"
        rf"\|(?P<logger>[^|]*)\|{_PID}\|{_MESSAGE}",
        # 03-17 16:13:38.811  1702  2395 D WindowManager: message
        "android": rf"^(?P<month>\d\d)-(?P<day>\d\d) {_CLOCK}\.(?P<fraction>\d{{3,9}})"
        rf" +{_PID} +(?P<thread>\d+) (?P<level>[VDIWEFA]) (?P<logger>[^:]*?) *: ?{_MESSAGE}",
        # I0102 15:04:05.123456   12345 file.go:123] message
        "klog": rf"^(?P<level>[IWEF])(?P<month>\d\d)(?P<day>\d\d) {_CLOCK}\.(?P<fraction>\d{{6}})"
        rf" +{_PID} (?P<logger>[^\s:]+):(?P<line>\d+)\] ?{_MESSAGE}",
        # [Sun Dec 04 04:47:44.1 2005] [core:error] [pid 35708:tid 43286] [client 1.2.3.4:5] message
        "apache_error": rf"^\[{_WEEKDAY}\] \[(?:(?P<logger>\w+):)?(?P<level>\w+)\]"
        r"(?: \[pid (?P<pid>\d{1,18})(?::tid (?P<thread>\d+))?\])?"
        rf"(?: \[client (?P<client>[^\]]*)\])? ?{_MESSAGE}",
        # 2016/10/25 14:49:34 [error] 1234#5678: *9 message
        "nginx_error": rf"^{_SLASHES} \[(?P<level>[a-z]+)\] {_PID}#(?P<thread>\d+):"
        rf" (?:\*(?P<connection>\d+) )?{_MESSAGE}",
        # 2026-01-02T03:04:05.678Z  INFO 1 --- [main] o.s.b.Application : message
        "spring": rf"^{_ISO} +{_LEVEL} {_PID} --- (?:\[(?P<application>[^\]]*)\] )?"
        rf"\[(?P<thread>[^\]]*)\] (?P<logger>\S+) +: ?{_MESSAGE}",
        # 2026-01-02 03:04:05,678 [main] INFO  o.s.Application - message
        "logback": rf"^{_ISO} \[(?P<thread>.*?)\] {_LEVEL} +{_NAME}(?: -|:) ?{_MESSAGE}",
        # 2026-01-02 03:04:05,678 - shop.cart - INFO - message
        "python": rf"^{_ISO} - {_NAME} - {_LEVEL} - ?{_MESSAGE}",
        # I, [2026-01-02T03:04:05.678901 #1234]  INFO -- cart: message
        "ruby": rf"^[A-Z], \[{_ISO} #(?P<pid>\d{{1,18}})\] +{_LEVEL} -- (?P<logger>[^:]*):"
        rf" ?{_MESSAGE}",
        # 2026-01-02 03:04:05 [INFO] [main] shop.cart: message, or parts of it
        "application": rf"^\[?{_ISO}\]?[ \t]+(?:[-|] )?[\[<(]?{_LEVEL}[\])>]?:?(?:[ \t]+[-|])?"
        r"(?:[ \t]+\[(?P<thread>[^\]]*)\])?(?:[ \t]+[-|])?"
        rf"(?:[ \t]+(?P<logger>[\w$-]+(?:\.[\w$-]+)+|\w+)(?: -|:))?(?:[ \t]+{_MESSAGE}|$)",
        # 2009/11/10 23:00:00.123456 main.go:12: message, as Go's package log writes
        "go": rf"^{_SLASHES} (?:(?P<logger>[\w./-]+\.go):(?P<line>\d+): )?{_MESSAGE}",
        # 2026-01-02T03:04:05Z message
        "timed": rf"^\[?{_ISO}\]?:?[ \t]+{_MESSAGE}",
    }
)
"""Expressions by the name of the format; `(?s)` goes before each."""


GENERAL_LAYOUTS: Final = ("go", "timed")
"""Layouts that nearly all lines with a time have."""


def application_format(layout: str, options: FormatOptions) -> LogFormat:
    """Return the format of *layout*, a name of `LAYOUTS`.

    `application` takes lines without a level, too.
    """
    lines = layout_lines(layout, options)
    if layout == TABLE:
        lines = FirstOf([lines, _lines(layout, "timed", options)])
    return WithTraces(lines)


def layout_lines(layout: str, options: FormatOptions) -> LogFormat:
    """Return the format of the lines of *layout* alone: no stack traces, no lines without level."""
    return _lines(layout, layout, options)


def _lines(name: str, layout: str, options: FormatOptions) -> LogFormat:
    return PatternFormat(name, TABLE, SCHEMA, f"(?s){LAYOUTS[layout]}", options)
