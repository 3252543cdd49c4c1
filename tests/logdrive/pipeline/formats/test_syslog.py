"""Syslog: RFC 3164, RFC 5424 and rsyslog's files, one after the other in one file, too."""

import orjson
import pytest

from logdrive.pipeline.formats.catalog import recognize
from tests.logdrive.pipeline.formats.log_lines import log_lines, parse, utc


def test_the_three_kinds_are_one_format() -> None:
    lines = [
        "<34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed",
        "2026-01-02T03:04:05.678901+01:00 mymachine kernel: oops: 1",
        r'<165>1 2003-10-11T22:14:15.003Z host app 111 ID47 [a@1 b="c \"d\]" e=""][f] message',
    ]
    first, second, third = parse("syslog", lines)
    assert first == {
        "facility": "auth",
        "level": "fatal",
        "hostname": "mymachine",
        "program": "su",
        "pid": 230,
        "message": "'su root' failed",
        "time": utc(2025, 10, 11, 22, 14, 15),
    }
    assert second == {
        "hostname": "mymachine",
        "program": "kernel",
        "message": "oops: 1",
        "time": utc(2026, 1, 2, 2, 4, 5, 678901),
    }
    assert orjson.loads(third.pop("rest")) == {"data": {"a@1": {"b": 'c "d]', "e": ""}, "f": {}}}
    assert third == {
        "facility": "local4",
        "level": "notice",
        "hostname": "host",
        "program": "app",
        "pid": 111,
        "message_id": "ID47",
        "message": "message",
        "time": utc(2003, 10, 11, 22, 14, 15, 3000),
    }


@pytest.mark.parametrize("number", range(3))
def test_each_kind_is_recognized(number: int) -> None:
    lines = [
        "Oct 11 22:14:15 mymachine su[230]: failed",
        "2026-01-02T03:04:05.678901+01:00 mymachine systemd[1]: Started cron.service.",
        "<165>1 2003-10-11T22:14:15.003Z host app - ID47 - message",
    ]
    assert recognize(log_lines([lines[number]] * 3)) == "syslog"


def test_nothing_is_null_in_rfc5424() -> None:
    assert parse("syslog", ["<0>1 - - - web - - \ufeffm", "<191>1 - - - - - -"]) == [
        {"facility": "kern", "level": "fatal", "message": "m", "rest": '{"process":"web"}'},
        {"facility": "local7", "level": "debug"},
    ]


@pytest.mark.parametrize(
    ("tag", "values"),
    [
        ("sshd(pam_unix)[19937]: check", {"program": "sshd(pam_unix)", "pid": 19937}),
        ("syslogd 1.4.1: check", {"program": "syslogd 1.4.1"}),
        ("-- root[2421]: check", {"program": "root", "pid": 2421}),
        ("check", {}),
    ],
)
def test_programs_name_themselves_in_several_ways(tag: str, values: dict[str, object]) -> None:
    (row,) = parse("syslog", [f"Jan  2 03:04:05 host {tag}"])
    assert row == values | {
        "hostname": "host",
        "message": "check",
        "time": utc(2026, 1, 2, 3, 4, 5),
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("<192>Oct 11 22:14:15 host su: x", "no syslog line"),
        ("Oct 32 22:14:15 host su: x", "no such time"),
        ("Feb 30 22:14:15 host su: x", "no such time"),
        ("<34>1 2003-10-11T22:14:60Z host app - - - x", "no such time"),
        ("<34>1 2003-10-11T22:14:00Z host app - - [a x", "no syslog line"),
        ("hello", "no syslog line"),
    ],
)
def test_a_line_that_is_none_has_a_reason(line: str, reason: str) -> None:
    assert parse("syslog", [line]) == [{"reason": reason}]
