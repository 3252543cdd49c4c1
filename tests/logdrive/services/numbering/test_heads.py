"""Heads and fields of stored payloads, read without protobuf as protobuf reads them."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.services.numbering.heads import (
    COMMAND,
    HEAD_BYTES,
    decode_command,
    decode_head,
    encode_payload,
    split_fields,
)
from logdrive.services.s2.server.log.payload import decode_fields, encode_fields
from logdrive.wire.s2.records import Fence, Trim, fence_record, trim_record

HEADERS = st.lists(st.tuples(st.binary(max_size=200), st.binary(max_size=200)), max_size=4)


@given(headers=HEADERS, body=st.binary(max_size=20_000))
def test_what_was_written_is_split_into_its_headers_and_its_body(
    headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    assert split_fields(encode_fields(tuple(headers), body)) == (tuple(headers), body)


@given(st.binary(max_size=60))
def test_any_bytes_are_split_as_protobuf_does_or_are_none(data: bytes) -> None:
    found = split_fields(data)
    if found is not None:
        record = decode_fields(data)
        assert record is not None
        assert found == (record.headers, record.body)


@given(headers=HEADERS, body=st.binary(max_size=100), cut=st.integers(1, 400))
def test_a_field_that_is_cut_off_is_none(
    headers: list[tuple[bytes, bytes]], body: bytes, cut: int
) -> None:
    fields = encode_fields(tuple(headers), body)
    found = split_fields(fields[: max(0, len(fields) - cut)])
    assert found is None or found != (tuple(headers), body) or not fields


@pytest.mark.parametrize("token", ["", "me", "t" * 36])
def test_commands_are_found_in_their_fields(token: str) -> None:
    fence, trim = fence_record(token), trim_record(77)
    assert decode_command(encode_fields(fence.headers, fence.body)) == Fence(token)
    assert decode_command(encode_fields(trim.headers, trim.body)) == Trim(77)
    assert decode_command(encode_fields(((b"name", b"fence"),), b"")) is None
    assert decode_command(encode_fields(((b"", b"other"),), b"")) is None


def test_a_head_says_kind_time_and_size_and_anything_else_is_plain() -> None:
    payload = encode_payload(COMMAND, 5, 20, b"f" * 20)
    assert decode_head(payload, 0, len(payload)) == (COMMAND, 5, 20)
    for broken in (
        payload[:-9],  # shorter than what it meters
        b"\xffS3" + payload[3:],
        payload[:3] + b"X" + payload[4:],
        payload[:4] + b"\x02" + payload[5:],
        payload[: HEAD_BYTES - 1],
        encode_payload(COMMAND, 5, 20, b"f" * 200),
    ):
        assert decode_head(broken, 0, len(broken)) is None


def test_numbers_need_no_protobuf() -> None:
    program = (
        "import sys\n"
        "sys.modules['google'] = None\n"
        "import logdrive.services.numbering.segments\n"
        "assert not [name for name in sys.modules if name.startswith('google.')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
