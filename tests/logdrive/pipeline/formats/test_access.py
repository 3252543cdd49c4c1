"""Access logs: each field with its type, and a reason for each line that is none."""

import pytest

from tests.logdrive.pipeline.formats.log_lines import parse, utc

COMMON = '10.0.0.7 - ann [17/May/2015:10:05:03 +0200] "GET /a/b?c=d HTTP/1.1" 200 203023'


def test_a_common_line_becomes_typed_columns() -> None:
    assert parse("access", [COMMON]) == [
        {
            "client": "10.0.0.7",
            "user": "ann",
            "method": "GET",
            "url_path": "/a/b",
            "url_query": "c=d",
            "protocol": "HTTP/1.1",
            "status": 200,
            "bytes": 203023,
            "time": utc(2015, 5, 17, 8, 5, 3),
        }
    ]


def test_a_combined_line_has_referer_and_agent_and_what_a_server_adds() -> None:
    (row,) = parse("access", [f'{COMMON} "http://a/" "Mozilla/5.0 (X)" 0.125 shop "x"'])
    assert (row["referer"], row["agent"]) == ("http://a/", "Mozilla/5.0 (X)")
    assert (row["seconds"], row["extra"]) == (0.125, 'shop "x"')


def test_quotes_within_quotes_are_read() -> None:
    line = r'::1 - - [17/May/2015:10:05:03 +0000] "GET /\"x\" HTTP/2.0" 404 - "-" "a \"b\\ \x16"'
    (row,) = parse("access", [line])
    assert row["url_path"] == '/"x"'
    assert row["agent"] == r'a "b\ \x16'
    assert not {"bytes", "referer", "user", "reason"} & set(row)


@pytest.mark.parametrize("request_", ["-", "", r"\x16\x03\x01", "GET", "get / HTTP/1.1", "GET / X"])
def test_a_request_that_is_none_is_kept_as_it_is(request_: str) -> None:
    (row,) = parse("access", [f'::1 - - [17/May/2015:10:05:03 +0000] "{request_}" 400 0 "-" "-"'])
    assert row["status"] == 400
    assert row.get("request", "-") == (request_ or "-")
    assert not {"method", "url_path", "protocol", "reason"} & set(row)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (COMMON.replace(" 200 ", " 099 "), "status is not 100 to 599"),
        (COMMON.replace(" 200 ", " 600 "), "status is not 100 to 599"),
        (COMMON.replace(" 200 ", " none "), "no access line"),
        (COMMON.replace("17/May", "31/Feb"), "no such time"),
        (COMMON.replace("17/May", "17/Mai"), "no such time"),
        (COMMON.replace(":10:05:03", ":23:59:60"), "no such time"),
        (f'{COMMON} "-" "cut off', "no access line"),
        (f"{COMMON}9999999999999999999", "no access line"),
        ("", "no access line"),
        (None, "no access line"),
    ],
)
def test_a_line_that_is_none_has_a_reason_and_no_values(line: str | None, reason: str) -> None:
    assert parse("access", [line]) == [{"reason": reason}]
