"""Times of lines: zones, years that a line does not say, and times that no clock shows."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.pipeline.formats.catalog import make_format
from logdrive.pipeline.formats.format import FormatOptions
from logdrive.pipeline.formats.zones import local_to_utc
from tests.logdrive.pipeline.formats.log_lines import RECEIVED, log_lines, parse, rows, utc

BERLIN = FormatOptions(zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("clock", "time"),
    [
        ("2026-03-29 01:59:59.999999", utc(2026, 3, 29, 0, 59, 59, 999999)),
        ("2026-03-29 02:30:00", utc(2026, 3, 29, 1, 30)),  # the clock skips it
        ("2026-03-29 03:00:00", utc(2026, 3, 29, 1)),
        ("2026-10-25 02:30:00", utc(2026, 10, 25, 0, 30)),  # the clock shows it twice
        ("2026-10-25 03:00:00", utc(2026, 10, 25, 2)),
        ("2026-07-01T12:00:00Z", utc(2026, 7, 1, 12)),
        ("2026-07-01 12:00:00,5 -0130", utc(2026, 7, 1, 13, 30, 0, 500000)),
        ("2026-07-01T12:00:00.1234567+05:30", utc(2026, 7, 1, 6, 30, 0, 123456)),
    ],
)
def test_a_time_is_in_its_own_zone_or_else_in_that_of_the_options(
    clock: str, time: datetime
) -> None:
    assert parse("timed", [f"{clock} x"], BERLIN) == [{"message": "x", "time": time}]


@pytest.mark.parametrize(
    "clock",
    [
        "2026-02-29 00:00:00",
        "2026-00-01 00:00:00",
        "2026-13-01 00:00:00",
        "2026-04-31 00:00:00",
        "2026-01-00 00:00:00",
        "2026-01-01 24:00:00",
        "2026-01-01 00:60:00",
        "2016-12-31 23:59:60",
        "0000-01-01 00:00:00",
        "9999-12-31 23:59:59 -01:00",
    ],
)
def test_a_time_that_no_clock_shows_is_a_reason(clock: str) -> None:
    assert parse("timed", [f"{clock} x"]) == [{"reason": "no such time"}]


@pytest.mark.parametrize(
    ("said", "time"),
    [
        ("Mar  1 11:59:59", utc(2026, 3, 1, 11, 59, 59)),
        ("Mar  2 11:59:59", utc(2026, 3, 2, 11, 59, 59)),  # a clock that is ahead
        ("Mar  2 12:00:01", utc(2025, 3, 2, 12, 0, 1)),
        ("Dec 31 23:59:59", utc(2025, 12, 31, 23, 59, 59)),
        ("Feb 29 00:00:00", utc(2024, 2, 29)),
    ],
)
def test_a_time_without_a_year_is_in_the_latest_that_fits_when_it_was_received(
    said: str, time: datetime
) -> None:
    (row,) = parse("syslog", [f"{said} host su: x"])
    assert row["time"] == time


def test_a_line_of_new_years_eve_that_comes_in_the_new_year_is_of_the_old_one() -> None:
    lines = log_lines(["Dec 31 23:59:58 host su: x", "Jan  1 00:30:00 host su: y"], utc(2026, 1, 1))
    parsed = make_format("syslog", BERLIN).parse(lines)
    times = [row["time"] for row in rows(parsed)]
    assert times == [utc(2025, 12, 31, 22, 59, 58), utc(2025, 12, 31, 23, 30)]


def test_without_a_year_and_without_received_there_is_no_time() -> None:
    parsed = make_format("syslog").parse(log_lines(["Mar  1 11:59:59 host su: x"], None))
    assert parsed.time.null_count == parsed.reasons.null_count == 1


def test_years_of_two_digits_are_of_this_century_up_to_68() -> None:
    years = [row["time"].year for row in parse("hdfs", [_hdfs("68"), _hdfs("69"), _hdfs("08")])]
    assert years == [2068, 1969, 2008]


def _hdfs(year: str) -> str:
    return f"{year}1109 203615 148 INFO dfs.DataNode: x"


@given(
    st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), max_size=20),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kolkata"]),
)
def test_a_local_time_is_what_the_zone_database_says(times: list[datetime], zone: str) -> None:
    local = np.array(times, "datetime64[us]").astype(np.int64)
    epoch = utc(1970, 1, 1)
    expected = [(one.replace(tzinfo=ZoneInfo(zone)) - epoch) for one in times]
    micros = [
        one.days * 86_400_000_000 + one.seconds * 1_000_000 + one.microseconds for one in expected
    ]
    assert local_to_utc(local, zone).tolist() == micros


def test_received_of_the_tests_is_what_the_expected_years_assume() -> None:
    assert utc(2026, 3, 1, 12) == RECEIVED


@pytest.mark.parametrize("zone", ["Mars/Base", "Europe", "../etc/passwd", ""])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="no such time zone"):
        make_format("access", FormatOptions(zone=zone))
