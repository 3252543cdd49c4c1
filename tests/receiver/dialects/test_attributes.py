"""Which attributes of a source are accepted: none that breaks later readers (rule R4, E 7)."""

import orjson
import pytest

from logdrive.model.limits import ATTRIBUTES_DEPTH
from receiver.dialects.attributes import parse_attributes


def nested(depth: int) -> bytes:
    """Return attributes with *depth* tables and lists inside one another."""
    return b'{"fields":{"a":' + b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}"


def test_all_keys_are_optional_and_kept() -> None:
    given = {
        "host": "web-1",
        "agent": {"id": "a"},
        "path": "/var/log/a",
        "fields": {"team": [1, {"b": None}]},
        "tags": ["x"],
        "resend": True,
    }
    found = parse_attributes(orjson.dumps(given))
    assert (found.host, found.path, found.tags, found.resend) == (
        "web-1",
        "/var/log/a",
        ("x",),
        True,
    )
    assert found.fields == given["fields"]
    assert parse_attributes(b"{}").fields == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b'{"host":1}',
        b'{"colour":"red"}',
        b'{"path":"\xff"}',
        b'{"path":"\\ud800"}',
        b'{"fields":{"a":1e999}}',
        b"{}{}",
    ],
)
def test_what_is_no_such_object_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^attributes that can't be used: .+"):
        parse_attributes(data)


def test_depth_is_limited_and_breadth_is_not() -> None:
    assert parse_attributes(nested(ATTRIBUTES_DEPTH)).fields
    assert parse_attributes(b'{"fields":{"a":[' + b",".join([b"[[]]"] * 3000) + b"]}}").fields
    for depth in (ATTRIBUTES_DEPTH + 1, 200, 8000):
        with pytest.raises(ValueError, match="more than 32 tables and lists inside one another"):
            parse_attributes(nested(depth))
