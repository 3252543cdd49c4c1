"""`logdrive.wire.s2.queries`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2.queries import (
    ListQuery,
    ReadQuery,
    parse_list_query,
    parse_read_query,
)
from logdrive.wire.s2.sse import LastEventId
from tests.logdrive.wire.s2.samples import refusal, u64s

BAD_QUERY = (400, "bad_query")
INVALID = (422, "invalid")

starts = st.sampled_from(["seq_num", "timestamp", "tail_offset"])
bounds = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("count", "bytes", "wait"), u64s) | {"clamp": st.booleans()}
)


@given(starts, u64s, bounds)
def test_a_query_is_read_as_it_was_written(
    start: str, number: int, bound: dict[str, int | bool]
) -> None:
    query = ReadQuery(**{start: number}, **bound)  # type: ignore[arg-type]
    assert parse_read_query(query.encode()) == query


@given(st.builds(ListQuery, st.text(max_size=9), st.text(max_size=9), st.integers(1, 1000)))
def test_a_query_of_a_list_is_read_as_it_was_written(query: ListQuery) -> None:
    assert parse_list_query(query.encode()) == query


def test_without_parameters_a_read_begins_at_the_tail_and_follows() -> None:
    assert parse_read_query("") == ReadQuery()
    assert parse_read_query("other=1&clamp=false") == ReadQuery()
    assert ReadQuery().may_follow


@pytest.mark.parametrize(
    ("raw", "follows"),
    [
        ("count=1", False),
        ("bytes=1", False),
        ("until=1", False),
        ("count=1&wait=0", False),
        ("count=1&wait=1", True),
        ("wait=0", True),
        ("seq_num=5", True),
    ],
)
def test_a_bounded_read_follows_only_if_it_waits(raw: str, follows: bool) -> None:
    assert parse_read_query(raw).may_follow is follows


@pytest.mark.parametrize("key", ["seq_num", "timestamp", "tail_offset", "count", "bytes", "until"])
@pytest.mark.parametrize("value", ["", "-1", "x", "1.5", "+1", "%2B1", "²", "1_0", str(2**64)])
def test_what_is_no_number_is_refused(key: str, value: str) -> None:
    assert refusal(parse_read_query, f"{key}={value}") == BAD_QUERY


@pytest.mark.parametrize(
    "raw", ["clamp=", "clamp=1", "clamp=True", "wait=x", "count=1&count=1", "count=%ff", "a&" * 200]
)
def test_other_malformed_queries_are_refused(raw: str) -> None:
    assert refusal(parse_read_query, raw) == BAD_QUERY


@pytest.mark.parametrize(
    "raw",
    [
        "seq_num=1&timestamp=1",
        "seq_num=1&tail_offset=1",
        "timestamp=0&tail_offset=0",
        "timestamp=5&until=5",
        "timestamp=6&until=5",
    ],
)
def test_values_that_contradict_each_other_are_refused(raw: str) -> None:
    assert refusal(parse_read_query, raw) == INVALID


def test_a_unary_read_has_limits_of_its_own() -> None:
    assert ReadQuery().unary() == ReadQuery(count=1000, bytes=1 << 20)
    assert not ReadQuery().unary().may_follow
    query = ReadQuery(count=2000, bytes=2 << 20, wait=61)
    assert query.unary() == ReadQuery(count=1000, bytes=1 << 20, wait=60)
    small = ReadQuery(seq_num=3, count=0, bytes=0, wait=0)
    assert small.unary() == small


def test_a_read_goes_on_after_its_last_event() -> None:
    query = ReadQuery(tail_offset=9, count=10, bytes=100, until=7, wait=5, clamp=True)
    assert query.resumed(LastEventId(41, 4, 150)) == ReadQuery(
        seq_num=42, count=6, bytes=0, until=7, wait=5, clamp=True
    )
    assert ReadQuery(timestamp=1).resumed(LastEventId(2**64 - 1, 1, 1)).seq_num == 2**64 - 1


def test_a_list_has_at_most_a_thousand_items() -> None:
    for raw, limit in (("", 1000), ("limit=0", 1000), ("limit=5", 5), ("limit=1500", 1000)):
        assert parse_list_query(raw) == ListQuery(limit=limit)
    assert parse_list_query("prefix=a%2F&start_after=b+c") == ListQuery("a/", "b c")
    assert refusal(parse_list_query, "limit=-1") == BAD_QUERY
