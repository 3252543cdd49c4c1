"""Keys and values, as JSON and as logfmt: well-known ones are columns, all others are kept."""

import json
from typing import Any

import pytest

from logdrive.pipeline.formats.catalog import make_format, recognize
from logdrive.pipeline.formats.format import FormatOptions
from tests.logdrive.pipeline.formats.log_lines import log_lines, parse, utc

NOON = utc(2026, 1, 2, 12)


def test_well_known_keys_of_json_become_columns_and_the_others_rest() -> None:
    line = (
        '{"@timestamp":"2026-01-02T12:00:00Z","severity":"WARNING","msg":"say \\"hi\\"",'
        '"logger":"shop.cart","service":"shop","traceId":"ab","status":404,"duration_ms":12.5,'
        '"user":{"id":12345678901234567890123, "ok":1.50},"n":null}'
    )
    assert parse("json", [line]) == [
        {
            "time": NOON,
            "level": "warn",
            "message": 'say "hi"',
            "logger": "shop.cart",
            "service_name": "shop",
            "trace_id": "ab",
            "status": 404,
            "seconds": 0.0125,
            "rest": '{"user":{"id":12345678901234567890123, "ok":1.50},"n":null}',
        }
    ]


def test_values_of_logfmt_without_quotes_may_begin_and_end_with_any_character() -> None:
    line = 'level=info city=Malmö from=åland x=é took=12mé quoted="ö é"'
    (found,) = parse("logfmt", [line])
    assert "reason" not in found
    assert json.loads(found["rest"]) == {
        "city": "Malmö",
        "from": "åland",
        "x": "é",
        "took": "12mé",
        "quoted": "ö é",
    }


def test_pairs_of_logfmt_become_columns_and_the_others_rest() -> None:
    line = r'ts=2026-01-02T12:00:00Z lvl=eror msg="say \"hi\" \x" took=12ms n=7 ok=true e= p="a b"'
    assert parse("logfmt", [line]) == [
        {
            "time": NOON,
            "level": "eror",
            "message": r'say "hi" \x',
            "seconds": 0.012,
            "rest": '{"n":7,"ok":true,"e":"","p":"a b"}',
        }
    ]


@pytest.mark.parametrize(
    "time",
    [
        '"2026-01-02T13:00:00+01:00"',
        '"2026-01-02 12:00:00"',
        '"2026/01/02 12:00:00.000000000 UTC"',
        "1767355200",
        "1767355200.0",
        '"1767355200"',
        "1767355200000",
        "1767355200000000",
        "1767355200000000000",
    ],
)
def test_times_are_text_or_numbers_of_any_unit(time: str) -> None:
    assert parse("json", [f'{{"time":{time}}}']) == [{"time": NOON}]


def test_a_time_that_is_none_is_a_reason_or_stays_where_it_is() -> None:
    lines = ['{"time":"2026-02-30T12:00:00Z"}', '{"time":"soon"}', '{"time":[]}', '{"time":-1}']
    assert parse("json", lines) == [
        {"reason": "no such time"},
        {"rest": '{"time":"soon"}'},
        {"rest": '{"time":[]}'},
        {"rest": '{"time":-1}'},
    ]


def test_a_value_that_its_column_cannot_hold_stays_in_rest() -> None:
    lines = [
        '{"status":"none","level":30}',
        '{"status":99999}',
        '{"duration":12}',
        '{"status":"200"}',
    ]
    assert parse("json", lines) == [
        {"level": "info", "rest": '{"status":"none"}'},
        {"rest": '{"status":99999}'},
        {"rest": '{"duration":12}'},
        {"status": 200},
    ]


def test_of_two_keys_of_a_column_one_counts_and_the_other_is_kept() -> None:
    assert parse("json", ['{"msg":"b","message":"a"}', '{"msg":"b"}']) == [
        {"message": "a", "rest": '{"msg":"b"}'},
        {"message": "b"},
    ]
    assert parse("logfmt", ["a=1 a=2"]) == [{"rest": '{"a":2}'}]
    assert parse("logfmt", ["a=007 b=1e3"]) == [{"rest": '{"a":"007","b":"1e3"}'}]


def test_keys_of_the_options_have_columns_of_their_type() -> None:
    options = FormatOptions(
        columns={"order": "int", "price": "float", "paid": "bool", "user": "string", "due": "time"}
    )
    line = '{"order":7,"price":1.5,"paid":true,"user":{"a":1},"due":"2026-01-02T12:00:00Z","x":1}'
    values: dict[str, Any] = {"order": 7, "price": 1.5, "paid": True, "user": '{"a":1}'}
    values |= {"due": NOON, "rest": '{"x":1}'}
    assert parse("json", [line], options) == [values]
    other = '{"order":"many","price":"dear","paid":"maybe"}'
    assert parse("json", [other], options) == [{"rest": other}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": "decimal"}, "a has no such type"),
        ({"path": "string"}, "a column path already"),
        ({"message": "string"}, "a column message already"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_format("json", FormatOptions(columns=columns))


def test_a_stack_in_json_has_a_fingerprint() -> None:
    trace = r"E\nFooException: a\n\tat b.C.d(C.java:12)"
    first, second = parse(
        "json", [f'{{"stack_trace":"{trace}"}}', f'{{"error":"{trace.replace("12", "345")}"}}']
    )
    assert first["fingerprint"] == second["fingerprint"]
    assert "fingerprint" not in parse("json", ['{"error":"no such file"}'])[0]


@pytest.mark.parametrize(
    "line", ["[1]", "1", '"x"', "", "{", '{"a":1}x', '{"a":1},{"b":2}', '{"a":"\0"}', None]
)
def test_what_is_no_object_has_a_reason(line: str | None) -> None:
    assert parse("json", ['{"msg":"before"}', line, '{"msg":"after"}']) == [
        {"message": "before"},
        {"reason": "no JSON object"},
        {"message": "after"},
    ]


@pytest.mark.parametrize("line", ["hello world", "a=1", "hello a=1 b=2", 'a="1 b=2', "a=1\x01 b=2"])
def test_what_is_no_list_of_pairs_has_a_reason(line: str) -> None:
    assert parse("logfmt", [line]) == [{"reason": "no logfmt line"}]


def test_both_are_recognized() -> None:
    assert recognize(log_lines(['{"a":1}'])) == "json"
    assert recognize(log_lines(["level=info msg=x"])) == "logfmt"
