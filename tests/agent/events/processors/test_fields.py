"""Rename, drop and add: fields by their names, with dots into nested ones."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.events.processors.steps import Steps, with_fields


def test_rename_takes_fields_out_of_nested_ones_and_puts_them_into_others() -> None:
    steps = Steps("processor = [{ rename = { 'a.b' = 'x', 'level' = 'log.level', no = 'n' } }]")
    (event,) = steps.of_events(with_fields("m", {"a": {"b": 1, "c": 2}, "level": "info"}))

    assert event.fields == {"a": {"c": 2}, "x": 1, "log": {"level": "info"}}
    assert steps.counts() == [("rename", "", 1, 0)]


def test_two_fields_can_change_places() -> None:
    steps = Steps("processor = [{ rename = { a = 'b', b = 'a' } }]")
    (event,) = steps.of_events(with_fields("m", {"a": 1, "b": 2}))

    assert event.fields == {"a": 2, "b": 1}


def test_drop_leaves_out_fields_of_either_spelling() -> None:
    steps = Steps("processor = [{ drop = ['a.b', 'c'] }]")
    (event,) = steps.of_events(with_fields("m", {"a.b": 1, "c": {"d": 2}, "e": 3}))

    assert event.fields == {"e": 3}
    assert event.message == "m"


def test_add_sets_fields_and_no_two_events_share_a_table() -> None:
    steps = Steps("processor = [{ add = { 'a.b' = 1, t = { u = [1] } } }, { drop = ['t.v'] }]")
    one, two = steps.of_events(with_fields("m", {"a": 5}), with_fields("n", {}))
    one.fields["t"]["u"].append(2)

    assert two.fields == {"a": {"b": 1}, "t": {"u": [1]}}
    assert one.fields["a"] == {"b": 1}


_FIELDS = st.recursive(
    st.integers(0, 3),
    lambda inside: st.dictionaries(st.sampled_from(["a", "b", "a.b"]), inside, max_size=3),
    max_leaves=6,
).filter(lambda value: isinstance(value, dict))


@given(_FIELDS)
def test_what_was_renamed_there_and_back_is_where_it_was(fields: dict[str, object]) -> None:
    before = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    steps = Steps("processor = [{ rename = { a = 'z' } }, { rename = { z = 'a' } }]")
    (event,) = steps.of_events(with_fields("m", fields))

    assert orjson.dumps(event.fields, option=orjson.OPT_SORT_KEYS) == before
