"""Lines of applications, in the layouts of well-known programs and libraries."""

from typing import Any

import pytest

from logdrive.pipeline.formats.application import LAYOUTS
from logdrive.pipeline.formats.catalog import recognize
from tests.logdrive.pipeline.formats.log_lines import log_lines, parse, utc

MESSAGE = {"message": "it: works"}
EXAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "bgl",
        "- 1117838570 2005.06.03 R02 2005-06-03-15.42.50.675872 R02 RAS KERNEL INFO it: works",
        {
            "time": utc(2005, 6, 3, 22, 42, 50, 675872),
            "node": "R02",
            "logger": "KERNEL",
            "level": "info",
            "rest": '{"alert":"-","type":"RAS"}',
        },
    ),
    (
        "hpc",
        "2286759 full partition status 1061219795 -1 it: works",
        {
            "time": utc(2003, 8, 18, 15, 16, 35),
            "node": "full",
            "logger": "partition",
            "rest": '{"id":"2286759","state":"status","flag":"-1"}',
        },
    ),
    (
        "hdfs",
        "081109 203615 148 INFO dfs.DataNode$PacketResponder: it: works",
        {
            "time": utc(2008, 11, 9, 20, 36, 15),
            "pid": 148,
            "level": "info",
            "logger": "dfs.DataNode$PacketResponder",
        },
    ),
    (
        "spark",
        "17/06/09 20:10:40 WARN executor.Executor: it: works",
        {"time": utc(2017, 6, 9, 20, 10, 40), "level": "warn", "logger": "executor.Executor"},
    ),
    (
        "zookeeper",
        "2015-07-29 17:41:44,747 - INFO  [QuorumPeer[myid=1]/0:0:2181:FastLeader@774] - it: works",
        {
            "time": utc(2015, 7, 29, 17, 41, 44, 747000),
            "level": "info",
            "thread": "QuorumPeer[myid=1]/0:0:2181",
            "logger": "FastLeader",
            "rest": '{"line":"774"}',
        },
    ),
    (
        "hadoop",
        "2015-10-18 18:01:47,978 FATAL [IPC Server handler 26 on 62270] o.a.Foo: it: works",
        {
            "time": utc(2015, 10, 18, 18, 1, 47, 978000),
            "level": "fatal",
            "thread": "IPC Server handler 26 on 62270",
            "logger": "o.a.Foo",
        },
    ),
    (
        "openstack",
        "nova-api.log 2017-05-16 00:00:00.008 25746 INFO nova.wsgi [req-3 a - - -] it: works",
        {
            "time": utc(2017, 5, 16, 0, 0, 0, 8000),
            "pid": 25746,
            "level": "info",
            "logger": "nova.wsgi",
            "rest": '{"file":"nova-api.log","request":"req-3 a - - -"}',
        },
    ),
    (
        "healthapp",
        "20171223-2:5:29:6|Step_LSC|30002312|it: works",
        {"time": utc(2017, 12, 23, 2, 5, 29, 6000), "logger": "Step_LSC", "pid": 30002312},
    ),
    (
        "android",
        "02-17 16:13:38.811  1702  2395 D WindowManager: it: works",
        {
            "time": utc(2026, 2, 17, 16, 13, 38, 811000),
            "pid": 1702,
            "thread": "2395",
            "level": "debug",
            "logger": "WindowManager",
        },
    ),
    (
        "klog",
        "E0102 15:04:05.123456   12345 main.go:123] it: works",
        {
            "time": utc(2026, 1, 2, 15, 4, 5, 123456),
            "level": "error",
            "pid": 12345,
            "logger": "main.go",
            "rest": '{"line":"123"}',
        },
    ),
    (
        "apache_error",
        "[Sun Dec 04 04:47:44.5 2005] [core:crit] [pid 7:tid 8] [client 1.2.3.4:5] it: works",
        {
            "time": utc(2005, 12, 4, 4, 47, 44, 500000),
            "level": "fatal",
            "logger": "core",
            "pid": 7,
            "thread": "8",
            "rest": '{"client":"1.2.3.4:5"}',
        },
    ),
    (
        "nginx_error",
        "2016/10/25 14:49:34 [error] 1234#5678: *9 it: works",
        {
            "time": utc(2016, 10, 25, 14, 49, 34),
            "level": "error",
            "pid": 1234,
            "thread": "5678",
            "rest": '{"connection":"9"}',
        },
    ),
    (
        "spring",
        "2026-01-02T03:04:05.678Z  INFO 1 --- [main] o.s.b.Application   : it: works",
        {
            "time": utc(2026, 1, 2, 3, 4, 5, 678000),
            "level": "info",
            "pid": 1,
            "thread": "main",
            "logger": "o.s.b.Application",
        },
    ),
    (
        "logback",
        "2026-01-02 03:04:05,678 [main] INFO  o.s.Application - it: works",
        {
            "time": utc(2026, 1, 2, 3, 4, 5, 678000),
            "level": "info",
            "thread": "main",
            "logger": "o.s.Application",
        },
    ),
    (
        "python",
        "2026-01-02 03:04:05,678 - shop.cart - WARNING - it: works",
        {"time": utc(2026, 1, 2, 3, 4, 5, 678000), "level": "warn", "logger": "shop.cart"},
    ),
    (
        "ruby",
        "I, [2026-01-02T03:04:05.678901 #1234]  INFO -- cart: it: works",
        {
            "time": utc(2026, 1, 2, 3, 4, 5, 678901),
            "level": "info",
            "pid": 1234,
            "logger": "cart",
        },
    ),
    (
        "application",
        "[2026-01-02 03:04:05] [ERROR] [worker 1] shop.cart: it: works",
        {
            "time": utc(2026, 1, 2, 3, 4, 5),
            "level": "error",
            "thread": "worker 1",
            "logger": "shop.cart",
        },
    ),
    (
        "go",
        "2009/11/10 23:00:00.123456 main.go:12: it: works",
        {
            "time": utc(2009, 11, 10, 23, 0, 0, 123456),
            "logger": "main.go",
            "rest": '{"line":"12"}',
        },
    ),
    ("timed", "2026-01-02T03:04:05Z it: works", {"time": utc(2026, 1, 2, 3, 4, 5)}),
]


@pytest.mark.parametrize(("name", "line", "values"), EXAMPLES, ids=[one[0] for one in EXAMPLES])
def test_a_line_is_recognized_and_becomes_columns(
    name: str, line: str, values: dict[str, Any]
) -> None:
    assert recognize(log_lines([line])) == name
    assert parse(name, [line, "other"]) == [values | MESSAGE, {"reason": f"no {name} line"}]


def test_each_layout_has_an_example() -> None:
    assert {one[0] for one in EXAMPLES} == set(LAYOUTS)


def test_lines_with_and_without_a_level_are_one_format() -> None:
    with_level, without = "2026-01-02 03:04:05 INFO hello", "2026-01-02 03:04:06 started: x"
    lines = [with_level] * 19 + [without]
    assert recognize(log_lines(lines)) == "application"
    assert parse("application", lines)[19] == {
        "message": "started: x",
        "time": utc(2026, 1, 2, 3, 4, 6),
    }


def test_a_line_of_no_known_layout_is_not_recognized() -> None:
    assert recognize(log_lines(["once upon a time", "there was a line"])) is None
    assert recognize(log_lines([])) is None
    assert recognize(log_lines(["", None, "\tat a.b(C.java:1)"])) is None


def test_a_source_is_recognized_by_nine_lines_of_ten() -> None:
    good, bad = EXAMPLES[0][1], "once upon a time"
    assert recognize(log_lines([good] * 9 + [bad])) == "bgl"
    assert recognize(log_lines([good] * 8 + [bad] * 2)) is None
