"""Access logs: each field with its type, and a reason for each line that is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.pipeline.formats.access import AccessFormat
from logdrive.pipeline.formats.access_cut import usual_lines
from logdrive.pipeline.formats.format import FormatOptions
from tests.logdrive.pipeline.formats.log_lines import log_lines, parse, rows, utc

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


WORDS = st.text("ab1.-é?/ ", max_size=5)
TIMES = st.sampled_from(
    [
        "17/May/2015:10:05:03 +0000",
        "29/Feb/2023:00:00:00 +0000",
        "29/Feb/2024:23:59:59 +1245",
        "01/jAN/0001:23:59:60 -0930",
        "01/Xyz/2020:00:00:00 +0000",
        "31/Dec/9999:23:59:59 -0001",
    ]
)


@st.composite
def nearly_usual(draw: st.DrawFn) -> str:
    """A line of the combined format, but for what its words may be."""
    client, user, path, referer, agent = (draw(WORDS) for _ in range(5))
    request = f"{draw(st.sampled_from(['GET', 'M-SEARCH', 'x']))} /{path} HTTP/{draw(WORDS)[:1]}1.1"
    status = draw(st.sampled_from(["200", "599", "600", "099"]))
    size = draw(st.integers(0, 10**20))
    line = f'1{client} - {user}a [{draw(TIMES)}] "{request}" {status} {size}'
    return line + draw(st.sampled_from([f' "{referer}" "{agent}"', "", f' "-" "{agent}" 0.5']))


@given(st.lists(nearly_usual(), max_size=8), st.integers(0, 3))
def test_usual_lines_that_are_cut_become_what_the_expression_makes_of_them(
    texts: list[str], first: int
) -> None:
    one, lines = AccessFormat(FormatOptions()), log_lines(texts)
    some = lines.slice(min(first, len(texts)), len(texts))
    assert rows(one.parse(some)) == rows(one.parse_any(some))


def test_lines_of_the_combined_format_are_usual() -> None:
    combined = f'{COMMON} "-" "curl/8"'
    usual = usual_lines(log_lines([combined, COMMON, combined.replace(" - ", ' "', 1)]).message)
    assert usual.to_pylist() == [True, False, False]
