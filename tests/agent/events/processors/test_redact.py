"""Redact: nothing of a secret leaves, neither in the message nor anywhere else in the record."""

import sys
from types import FrameType
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.formats import FormatTable
from agent.events.event import Event
from agent.events.formats.make import make_format
from agent.events.forms import EventForm, FullForm, LeanForm, PairForm
from agent.events.processors.escapes import undo_escapes
from agent.events.processors.redact_rules import MOST_MATCHES
from logdrive.model.records import REDACTED
from tests.agent.events.processors.steps import Steps, with_fields

ALL = "processor = [{ redact = { presets = ['card', 'token', 'email'] } }]"
FORMS: list[EventForm] = [LeanForm(), FullForm({}, "/a", "0f"), PairForm([])]


def records(event: Event) -> bytes:
    """Return the records of *event* in all forms."""
    return b"\n".join(form.encode_event(event, 0) for form in FORMS)


@pytest.mark.parametrize(
    ("line", "redacted"),
    [
        ("paid with 4111 1111 1111 1111 12/29", "paid with [redacted card] 12/29"),
        ("card=378282246310005;", "card=[redacted card];"),
        ("5555-5555-5555-4444", "[redacted card]"),
        ("from alice.b+c@mail.example.org now", "from [redacted email] now"),
        ("GET /?u=bob%40example.com HTTP/1.1", "GET /?u=[redacted email] HTTP/1.1"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted token]"),
        ('{"password": "a \\"b\\" c", "x": 1}', '{"password": "[redacted token]", "x": 1}'),
        ("db_password=hunter2 ok", "db_password=[redacted token] ok"),
        ("?api_key=k1&x=2", "?api_key=[redacted token]&x=2"),
        ("postgres://app:pass@db/x", "postgres://app:[redacted token]@db/x"),
        ("key AKIAIOSFODNN7EXAMPLE", "key [redacted token]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----[redacted token]-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_presets_replace_what_they_are_for(line: str, redacted: str) -> None:
    (event,) = Steps(ALL).of_events(Event(0, len(line) + 1, line))

    assert event.message == redacted
    assert event.flags == (REDACTED,)


@pytest.mark.parametrize(
    "line",
    [
        "order 4111111111111112",  # the check digit is wrong
        "at 1700000000000000000 ns",
        "2024-03-05 12:34:56,789 INFO 10.2.3.4 -> 10.2.3.5",
        "job@ done, see @home",
        "tokens are fine, and a password too",
    ],
)
def test_presets_leave_other_lines_alone(line: str) -> None:
    event = Event(0, len(line) + 1, line)

    assert Steps(ALL).of_events(event) == [Event(0, len(line) + 1, line)]


def test_a_pattern_of_ones_own_replaces_its_groups_or_all_of_it() -> None:
    all_of_it = Steps("processor = [{ redact = { pattern = 'pin=\\d+', replacement = 'PIN' } }]")
    groups = Steps("processor = [{ redact = { pattern = 'pin=(\\d+)(x)?', name = 'pin' } }]")

    assert all_of_it.messages("pin=12 pin=3 pin") == ["PIN PIN pin"]
    assert groups.messages("pin=12 pin=3x", "ä pin=1 ö", "x", "") == [
        "pin=[redacted pin] pin=[redacted pin][redacted pin]",
        "ä pin=[redacted pin] ö",
        "x",
        "",
    ]
    assert groups.counts() == [("redact", "pin", 2, 0)]
    assert [counter.matches for counter in groups.counters.of_table(groups.table)] == [4]


@pytest.mark.parametrize(
    ("message", "fields", "original"),
    [
        # the same text in a field, and in a nested one
        ("mail s3cret@example.org", {"a": {"b": ["s3cret@example.org"]}}, None),
        # only in a field
        ("x", {"mail": "s3cret@example.org"}, None),
        # as the name of a field
        ('{"s3cret@example.org":1}', {"s3cret@example.org": 1}, None),
        # hidden by an escape in the message, but not in the field
        (r'{"m":"s3cret\u0040example.org"}', {"m": "s3cret@example.org"}, None),
        (r'{"m":"s3cret\u0040example.org"}', {}, None),
        # the same again, where no name stands before it
        ("password=s3cret, or s3cret", {}, None),
        # with its name in the message, alone in a field
        ("password=s3cret", {"password": "s3cret"}, None),
        ('password="a s3cret"', {"password": "a s3cret"}, None),
        (r'password="a\"s3cret"', {"password": 'a"s3cret'}, None),
        # the line's exact bytes
        ("s3cret@example.org \ufffd", {}, b"s3cret@example.org \xff"),
        # the bytes of a wrapper that the format took off, and what it did not take
        ("hello", {}, b'{"log":"hello","attrs":{"mail":"s3cret@example.org"}}'),
    ],
)
def test_no_part_of_a_secret_is_left_in_any_record(
    message: str, fields: dict[str, Any], original: bytes | None
) -> None:
    event = with_fields(message, fields, original)
    (redacted,) = Steps(ALL).of_events(event)

    assert b"s3cret" not in records(redacted)
    assert redacted.flags == (REDACTED,)
    assert redacted.original is None
    assert redacted.encoding == ""


def test_without_groups_what_a_pattern_names_is_not_left_in_a_field() -> None:
    steps = Steps("processor = [{ redact = { pattern = 'pin=\\d+' } }]")
    (event,) = steps.of_events(with_fields("pin=123 x=y", {"pin": 123, "x": "y", "n": 12}))

    assert event.fields == {"pin": "[redacted pattern]", "x": "y", "n": 12}


def test_numbers_are_redacted_and_others_stay_numbers() -> None:
    number = orjson.Fragment(b"4111111111111111000000000000000000000")
    fields = {"card": 4111111111111111, "n": 7, "ok": True, "none": None, "f": 1.5, "big": number}
    (event,) = Steps(ALL).of_events(with_fields("x", fields))

    assert event.fields["card"] == "[redacted card]"
    assert {key: event.fields[key] for key in ("n", "ok", "none", "f")} == {
        "n": 7,
        "ok": True,
        "none": None,
        "f": 1.5,
    }
    assert event.fields["big"] is number


@pytest.mark.parametrize("pattern", ["x(?:.*y)?", "x(.*y)?"])
def test_after_too_many_matches_the_rest_of_a_line_is_replaced(pattern: str) -> None:
    # each search looks at all that is left of the line
    steps = Steps(f"processor = [{{ redact = {{ pattern = '{pattern}', replacement = '*' }} }}]")
    (event,) = steps.of_events(Event(0, 200_001, "x" * 200_000))

    assert event.message.strip("x") in ("*", "*" * (MOST_MATCHES + 1))


def test_after_too_many_matches_no_secret_is_left_in_a_field() -> None:
    # the rule sees the name before a secret in the message alone
    fields = {"all": {f"{n}_password": f"{n:04}s3cret" for n in range(MOST_MATCHES + 100)}, "n": 7}
    (event,) = Steps(ALL).of_events(with_fields(orjson.dumps(fields).decode(), fields, None))

    assert "s3cret" not in str(event)


@pytest.mark.parametrize("groups", [False, True])
def test_many_secrets_are_not_looked_for_one_by_one_in_many_fields(groups: bool) -> None:
    count, calls = 1_000, 0
    pattern = "pin=(\\w+)" if groups else "pin=\\w+"
    fields = {f"f{n}": f"{n:04} is no secret" for n in range(count)}
    secrets = {f"s{n}": f"pin={n:04}" for n in range(count)}
    event = with_fields(orjson.dumps(secrets).decode(), fields | secrets, None)

    def count_call(_frame: FrameType, kind: str, _argument: Any) -> None:
        nonlocal calls
        calls += kind == "c_call"

    steps = Steps(f"processor = [{{ redact = {{ pattern = '{pattern}' }} }}]")
    sys.setprofile(count_call)
    try:
        steps.of_events(event)
    finally:
        sys.setprofile(None)
    assert calls < 500 * count
    assert "pin=0" not in str(event)


def test_what_is_added_later_is_not_redacted_and_what_is_added_before_is() -> None:
    steps = Steps(
        "processor = [{ add = { a = 'x@example.org' } }, { redact = { presets = ['email'] } }, "
        "{ add = { b = 'x@example.org' } }]"
    )
    (event,) = steps.of_lines(b"hello\n")

    assert event.fields == {"a": "[redacted email]", "b": "x@example.org"}
    assert event.message == "hello"


_SECRET = "s3cr@ét.org"


def _escaped(text: str, escape: list[bool]) -> str:
    """Return *text* within JSON, some characters escaped."""
    return "".join(
        f"\\u{ord(character):04x}" if hide else character
        for character, hide in zip(text, escape, strict=True)
    )


@settings(max_examples=100)
@given(
    st.lists(st.booleans(), min_size=len(_SECRET), max_size=len(_SECRET)),
    st.sampled_from(["{}", "mail={}", "<{}>", '"{}"', "a {}\nb"]),
    st.booleans(),
)
def test_no_escape_hides_a_secret_of_a_json_line(
    escape: list[bool], around: str, in_key: bool
) -> None:
    inner = orjson.dumps(around).decode()[1:-1].replace("{}", _escaped(_SECRET, escape))
    line = f'{{"{inner}":[1]}}' if in_key else f'{{"a":["{inner}"]}}'
    steps = Steps('format = "json"\n' + ALL)
    make_format(FormatTable(type="json"), lambda: None, lambda name: None).parse_events(
        events := [Event(0, len(line.encode()) + 1, line)]
    )
    assert _SECRET in str(events[0].fields)
    (event,) = steps.of_events(*events)

    said = records(event).decode()
    assert _SECRET not in said
    assert "s3cr" not in undo_escapes(said)
    assert REDACTED in event.flags
