"""Formats read the fields of lines, and no line is lost or changed for want of its form."""

import json
from decimal import Decimal
from typing import Any, get_args

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.config.formats import FormatName, FormatTable
from agent.events.formats.containers import read_cri
from agent.events.formats.make import make_format
from agent.events.forms import LeanForm
from tests.agent.events.formats.reading import events_of, fields_of, read

BSD = "<34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed"
RFC5424 = (
    "<165>1 2003-10-11T22:14:15.003Z host.example evntslog 111 ID47 "
    '[a@1 iut="3" q="\\"x\\]"][b@2] \ufeffAn event'
)
COMBINED = (
    '83.149.9.216 - frank [17/May/2015:10:05:03 +0200] "GET /a?b=c HTTP/1.1" 200 203023 '
    '"http://x/" "Mozilla \\"5\\"" 0.005'
)
CRI = "2016-10-06T00:17:09.669794202Z stdout F log content"
DOCKER = '{"log":"a \\"b\\"\\n","stream":"stderr","time":"2016-10-06T00:17:09.669794202Z"}'
KLOG = "E0102 15:04:05.678901   12345 server.go:123] went wrong: x"

READ: dict[str, tuple[str, str, dict[str, Any]]] = {
    "json": ("json", '{"a":{"b":[1,null]},"c":"\\u00e4"}', {"a": {"b": [1, None]}, "c": "ä"}),
    "logfmt": (
        "logfmt",
        'level=info msg="order \\"7\\" placed" n=7 empty= x.y/z-1=true',
        {"level": "info", "msg": 'order "7" placed', "n": "7", "empty": "", "x.y/z-1": "true"},
    ),
    "bsd": (
        "syslog",
        BSD,
        {
            "log": {
                "syslog": {
                    "priority": 34,
                    "facility": {"code": 4},
                    "severity": {"code": 2},
                    "hostname": "mymachine",
                    "appname": "su",
                    "procid": "230",
                }
            },
            "content": "'su root' failed",
        },
    ),
    "bsd without priority and tag": (
        "syslog",
        "Jul  1 09:00:55 calvisitor-10-105-160-95 last message repeated 2 times",
        {
            "log": {"syslog": {"hostname": "calvisitor-10-105-160-95"}},
            "content": "last message repeated 2 times",
        },
    ),
    "iso": (
        "syslog",
        "2026-01-02T03:04:05.678901+01:00 mymachine su[230]: message",
        {
            "log": {"syslog": {"hostname": "mymachine", "appname": "su", "procid": "230"}},
            "@timestamp": "2026-01-02T03:04:05.678901+01:00",
            "content": "message",
        },
    ),
    "rfc5424": (
        "syslog",
        RFC5424,
        {
            "log": {
                "syslog": {
                    "priority": 165,
                    "facility": {"code": 20},
                    "severity": {"code": 5},
                    "hostname": "host.example",
                    "appname": "evntslog",
                    "procid": "111",
                    "msgid": "ID47",
                    "structured_data": {"a@1": {"iut": "3", "q": '"x]'}, "b@2": {}},
                }
            },
            "content": "An event",
            "@timestamp": "2003-10-11T22:14:15.003Z",
        },
    ),
    "rfc5424 of nothing": (
        "syslog",
        "<0>1 - - - - - -",
        {
            "log": {"syslog": {"priority": 0, "facility": {"code": 0}, "severity": {"code": 0}}},
            "content": "",
        },
    ),
    "combined": (
        "access",
        COMBINED,
        {
            "@timestamp": "2015-05-17T10:05:03+02:00",
            "source": {"address": "83.149.9.216"},
            "user": {"name": "frank"},
            "http": {
                "request": {"method": "GET", "referrer": "http://x/"},
                "response": {"status_code": 200, "body": {"bytes": 203023}},
                "version": "1.1",
            },
            "url": {"original": "/a?b=c"},
            "user_agent": {"original": 'Mozilla \\"5\\"'},
            "extra": "0.005",
        },
    ),
    "common": (
        "access",
        '::1 - - [17/May/2015:10:05:03 +0000] "-" 408 -',
        {
            "@timestamp": "2015-05-17T10:05:03+00:00",
            "source": {"address": "::1"},
            "http": {"request": {}, "response": {"status_code": 408}},
            "url": {"original": "-"},
        },
    ),
    "klog": (
        "klog",
        KLOG,
        {
            "log": {"level": "error"},
            "process": {"thread": {"id": 12345}},
            "caller": "server.go:123",
            "content": "went wrong: x",
        },
    ),
}


@pytest.mark.parametrize(("form", "line", "fields"), READ.values(), ids=READ)
def test_a_line_has_the_fields_of_its_form_and_stays_as_it_is(
    form: str, line: str, fields: dict[str, Any]
) -> None:
    (event,) = read(form, line + "\n")
    assert event.fields == fields
    assert (event.message, event.original, event.eol) == (line, None, "\n")


@pytest.mark.parametrize(
    ("form", "line", "message", "fields"),
    [
        ("cri", CRI, "log content", {"stream": "stdout"}),
        ("cri", CRI.replace(" F ", " P "), "log content", {"stream": "stdout", "partial": True}),
        ("cri", CRI.removesuffix(" log content"), "", {"stream": "stdout"}),
        ("docker", DOCKER, 'a "b"', {"stream": "stderr"}),
        (
            "docker",
            DOCKER.replace("\\n", ""),
            'a "b"',
            {"stream": "stderr", "partial": True},
        ),
    ],
)
def test_the_message_of_a_container_s_line_is_what_the_container_wrote(
    form: str, line: str, message: str, fields: dict[str, Any]
) -> None:
    (event,) = read(form, line + "\r\n")
    assert event.message == message
    assert event.original == line.encode()
    assert event.fields == fields | {"@timestamp": "2016-10-06T00:17:09.669794202Z"}


def test_lines_of_a_container_that_were_put_together_are_one_message() -> None:
    (event,) = events_of(b"x")
    parts = [CRI.replace(" F ", " P "), CRI, CRI]
    event.message = "\n".join(parts)
    assert read_cri(event) == {"stream": "stdout", "@timestamp": CRI[:30]}
    assert event.message == "log contentlog content\nlog content"
    assert event.original == "\n".join(parts).encode()


def test_what_is_in_a_container_s_line_or_a_syslog_message_may_have_a_form_of_its_own() -> None:
    fields = fields_of("cri", CRI.replace("log content", '{"a":1}'), content="json")
    assert fields == {"stream": "stdout", "@timestamp": CRI[:30], "a": 1}
    fields = fields_of("syslog", BSD.replace("'su root' failed", "a=1 b=2"), content="logfmt")
    assert (fields["a"], fields["b"], fields["content"]) == ("1", "2", "a=1 b=2")
    fields = fields_of("cri", CRI, content="json")
    assert fields["error"] == {"message": "content is not json", "type": "json"}
    assert "error" not in fields_of("cri", CRI, content="json", bad_lines="keep")


def test_the_first_line_of_a_csv_file_names_its_columns() -> None:
    first, second, third, fourth = read("csv", 'a,"b ""x""",a,\n1,"2,3",4,5\n1,2\n"1,2,3,4\n')
    assert first.fields == {}
    assert second.fields == {"a": "1", 'b "x"': "2,3", "a_3": "4", "column_4": "5"}
    assert third.fields == {"error": {"message": "not csv", "type": "csv"}}
    assert fourth.fields == third.fields
    assert fields_of("csv", "1;'2;3'", columns=["a", "b"], delimiter=";", quote="'") == {
        "a": "1",
        "b": "2;3",
    }


def test_a_csv_file_that_is_read_from_its_middle_has_the_columns_of_its_first_line() -> None:
    data = b"a,b\n1,2\n3,4\n"
    form = make_format(FormatTable(type="csv"), lambda: events_of(data), lambda _: None)
    (later,) = events_of(data)[2:]
    form.parse_events([later])
    assert later.fields == {"a": "3", "b": "4"}
    gone = make_format(FormatTable(type="csv"), lambda: None, lambda _: None)
    (later,) = events_of(data)[2:]
    gone.parse_events([later])
    assert later.fields == {"error": {"message": "not csv", "type": "csv"}}


def test_pairs_may_have_other_separators() -> None:
    options = {"pair_separator": ";", "value_separator": ":"}
    assert fields_of("key_value", 'a: 1; b : "x;y" ;nothing; c:d:e', **options) == {
        "a": "1",
        "b": "x;y",
        "c": "d:e",
    }
    assert fields_of("key_value", "some words a=1 b=2") == {"a": "1", "b": "2"}
    assert "error" in fields_of("key_value", "no pairs at all")


def test_fields_go_to_the_top_or_under_a_key_or_nowhere() -> None:
    line = '{"a":1}'
    assert fields_of("json", line) == {"a": 1}
    assert fields_of("json", line, fields="under") == {"json": {"a": 1}}
    assert fields_of("json", line, fields="under", key="app") == {"app": {"a": 1}}
    assert fields_of("json", line, fields="none") == {}
    assert fields_of("json", "no", fields="none") == {
        "error": {"message": "not json", "type": "json"}
    }
    assert fields_of("json", "no", bad_lines="keep") == {}


HOSTILE = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep in an object": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "just too deep": '{"a":' * 65 + "1" + "}" * 65,
    "many keys": "{" + ",".join(f'"{n}":{n}' for n in range(100_000)) + "}",
    "no number": '{"a":1e400}',
    "no integer": f'{{"a":{"9" * 400}}}',
    "lone surrogate": '{"a":"\\ud800"}',
    "not a number": '{"a":NaN}',
    "quotes": '"' * 100_000,
    "escaped quotes": '"' + '\\"' * 100_000,
    "pairs": "a=" * 100_000,
    "quoted pairs": 'a="' * 50_000,
    "spaces": " " * 200_000,
    "brackets": "<1>1 - - - - - " + '[a b="' * 50_000,
    "elements": "<1>1 - - - - - " + '[a b="c"]' * 20_000 + "[",
    "commas": "," * 100_000,
    "stdout": "2016-10-06T00:17:09Z stdout F:" + "x" * 200_000 + "\t",
    "digits": "1" * 200_000,
    "escapes": '1 - - [17/May/2015:10:05:03 +0200] "' + '\\"' * 100_000,
    "NUL": "\0" * 1000,
}


@pytest.mark.parametrize("form", get_args(FormatName))
@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_no_line_takes_more_than_its_length_or_makes_a_format_raise(form: str, line: str) -> None:
    # a search that is quadratic in these takes minutes
    (event,) = read(form, line)
    assert event.message == line
    assert event.original is None


def test_json_that_is_nested_too_deep_or_is_none_is_kept_as_text() -> None:
    for name in (
        "deep",
        "deep in an object",
        "just too deep",
        "no number",
        "no integer",
        "lone surrogate",
    ):
        assert fields_of("json", HOSTILE[name])["error"]["type"] == "json"
    assert fields_of("json", '{"a":' * 64 + "1" + "}" * 64).keys() == {"a"}
    assert fields_of("json", '{"a":"' + "{" * 500 + '"}') == {"a": "{" * 500}
    assert len(fields_of("json", HOSTILE["many keys"])) == 100_000


numbers = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**63) - 2, 2**64 + 2).map(str),
)


@settings(max_examples=300)
@given(numbers.filter(lambda text: "E" not in text))
@example("9223372036854775808")
@example("-9223372036854775809")
@example("18446744073709551616")
@example("0.1000000000000000055511151231257827")
@example("123456789.123456789")
def test_a_number_keeps_its_value_in_the_record(number: str) -> None:
    (event,) = read("json", f'{{"n":{number}}}')
    record = LeanForm().encode_event(event, 0)
    value = json.loads(record, parse_int=str, parse_float=str)["n"]
    assert Decimal(value) == Decimal(number)


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from([BSD, RFC5424, COMBINED, CRI, DOCKER, KLOG, "a=1 b=2", "", "x", "{}"])
    ),
    st.sampled_from(get_args(FormatName)),
    st.binary(max_size=3),
)
def test_the_bytes_of_each_line_are_there_whatever_the_format_makes_of_it(
    lines: list[str], form: str, odd: bytes
) -> None:
    data = b"".join(line.encode() + odd + b"\n" for line in lines)
    events = read(form, data)
    exact = [
        (event.message.encode() if event.original is None else event.original) + event.eol.encode()
        for event in events
    ]
    assert b"".join(exact) == data
    for event in events:
        assert orjson.loads(LeanForm().encode_event(event, 0))["message"] == event.message
