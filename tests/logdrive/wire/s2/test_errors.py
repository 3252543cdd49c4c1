"""`logdrive.wire.s2.errors`: bodies, what they mean to a client, answers that are not S2's."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2 import errors
from logdrive.wire.s2.errors import (
    FencingTokenMismatchError,
    RangeNotSatisfiableError,
    S2Error,
    SeqNumMismatchError,
    parse_error,
)
from logdrive.wire.s2.records import StreamPosition

# status, may be sent again, has changed nothing
TABLE = {
    "bad_frame": (400, False, True),
    "bad_header": (400, False, True),
    "bad_json": (400, False, True),
    "bad_path": (400, False, True),
    "bad_proto": (400, False, True),
    "bad_query": (400, False, True),
    "decryption_failed": (400, False, True),
    "authn": (401, False, True),
    "permission_denied": (403, False, True),
    "quota_exhausted": (403, False, True),
    "access_token_not_found": (404, False, True),
    "basin_not_found": (404, False, True),
    "stream_not_found": (404, False, True),
    "request_timeout": (408, True, False),
    "basin_deletion_pending": (409, False, True),
    "resource_already_exists": (409, False, True),
    "stream_deletion_pending": (409, False, True),
    "transaction_conflict": (409, True, False),
    "invalid": (422, False, True),
    "rate_limited": (429, True, True),
    "client_hangup": (499, False, False),
    "other": (500, True, False),
    "storage": (500, True, False),
    "not_implemented": (501, False, True),
    "hot_server": (502, True, True),
    "server_draining": (503, True, True),
    "unavailable": (503, True, False),
    "upstream_timeout": (504, True, False),
}


@pytest.mark.parametrize("code", TABLE)
def test_a_code_has_its_status_and_says_whether_to_try_again(code: str) -> None:
    make: Callable[[str], S2Error] = getattr(errors, code)
    error = make("why")
    assert (error.status, error.retryable, error.no_side_effect) == TABLE[code]
    body = json.loads(error.body())
    assert body["code"] == code
    assert "why" in body["message"]
    read = parse_error(error.status, error.body())
    assert (read.status, read.code, read.message) == (error.status, code, error.message)


def test_conditions_that_failed_say_what_is_there() -> None:
    assert FencingTokenMismatchError("t").body() == b'{"fencing_token_mismatch":"t"}'
    assert SeqNumMismatchError(7).body() == b'{"seq_num_mismatch":7}'
    unwritten = RangeNotSatisfiableError(StreamPosition(1, 2))
    assert unwritten.body() == b'{"tail":{"seq_num":1,"timestamp":2}}'


def test_conditions_that_failed_arrive_as_such() -> None:
    token = parse_error(412, b'{"fencing_token_mismatch":""}')
    assert isinstance(token, FencingTokenMismatchError)
    assert token.token == ""
    number = parse_error(412, b'{"seq_num_mismatch":0}')
    assert isinstance(number, SeqNumMismatchError)
    assert number.seq_num == 0
    unwritten = parse_error(416, b'{"tail":{"seq_num":1,"timestamp":2}}')
    assert isinstance(unwritten, RangeNotSatisfiableError)
    assert unwritten.tail == StreamPosition(1, 2)
    for error in (token, number, unwritten):
        assert not error.retryable
        assert error.no_side_effect


@pytest.mark.parametrize(
    "make", [errors.no_such_route, errors.method_not_allowed, errors.unsupported_media_type]
)
def test_errors_without_a_code_have_an_empty_body(make: Callable[[], S2Error]) -> None:
    assert make().body() == b""
    assert not make().retryable


def test_an_unknown_code_is_judged_by_its_status() -> None:
    assert parse_error(503, b'{"code":"new","message":"m"}').retryable
    assert not parse_error(503, b'{"code":"new","message":"m"}').no_side_effect
    assert not parse_error(400, b'{"code":"new","message":"m"}').retryable
    assert parse_error(400, b'{"code":"new","message":"m"}').no_side_effect


@given(st.integers(400, 599), st.binary(max_size=300))
def test_any_body_makes_an_error(status: int, body: bytes) -> None:
    error = parse_error(status, body)
    assert error.status == status
    error.body()


def test_a_body_that_is_not_s2s_is_shown_in_part() -> None:
    error = parse_error(502, b"<html>" * 1000)
    assert error.retryable
    assert error.message.startswith("<html>")
    assert len(error.message) <= 200
    assert parse_error(500, b'{"x":' + b"[" * 100_000).code is None


@pytest.mark.parametrize("digits", [b"-1", b"18446744073709551616", b"9" * 5000], ids=len)
def test_a_number_that_no_stream_has_is_not_taken(digits: bytes) -> None:
    for body in (
        b'{"seq_num_mismatch":%b}' % digits,
        b'{"tail":{"seq_num":%b,"timestamp":0}}' % digits,
        b'{"tail":{"seq_num":0,"timestamp":%b}}' % digits,
    ):
        assert type(parse_error(412, body)) is type(parse_error(416, body)) is S2Error
