"""`logdrive.wire.s2.json`: round trips in both formats, and how strict reading is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.json import (
    Format,
    decode_append_ack,
    decode_append_input,
    decode_read_batch,
    decode_tail,
    encode_append_ack,
    encode_append_input,
    encode_read_batch,
    encode_tail,
    parse_format,
)
from logdrive.wire.s2.records import (
    AppendAck,
    AppendInput,
    ReadBatch,
    Record,
    SequencedRecord,
    StreamPosition,
    trim_record,
)
from tests.logdrive.wire.s2.samples import (
    acks,
    batches,
    inputs,
    positions,
    refusal,
    text_inputs,
)

BAD_JSON = (400, "bad_json")
INVALID = (422, "invalid")


def record_json(**fields: object) -> bytes:
    return json.dumps({"records": [fields]}).encode()


@given(inputs)
def test_an_append_in_base64_is_read_as_it_was_written(append: AppendInput) -> None:
    assert decode_append_input(encode_append_input(append, Format.BASE64), Format.BASE64) == append


@given(text_inputs)
def test_an_append_of_text_is_read_as_it_was_written(append: AppendInput) -> None:
    assert decode_append_input(encode_append_input(append, Format.RAW), Format.RAW) == append


@given(batches)
def test_a_batch_in_base64_is_read_as_it_was_written(batch: ReadBatch) -> None:
    assert decode_read_batch(encode_read_batch(batch, Format.BASE64), Format.BASE64) == batch


@given(acks, positions)
def test_acknowledgements_and_tails_are_read_as_they_were_written(
    ack: AppendAck, tail: StreamPosition
) -> None:
    assert decode_append_ack(encode_append_ack(ack)) == ack
    assert decode_tail(encode_tail(tail)) == tail


def test_the_shapes_are_those_of_the_protocol() -> None:
    position = StreamPosition(1, 2)
    assert encode_tail(position) == b'{"tail":{"seq_num":1,"timestamp":2}}'
    assert json.loads(encode_append_ack(AppendAck(position, position, position))) == {
        key: {"seq_num": 1, "timestamp": 2} for key in ("start", "end", "tail")
    }
    records = (
        SequencedRecord(1, 2, ((b"n", b""), (b"n", b"v")), b"body"),
        SequencedRecord(2, 2, (), b""),
    )
    assert json.loads(encode_read_batch(ReadBatch(records, position), Format.RAW)) == {
        "records": [
            {"seq_num": 1, "timestamp": 2, "headers": [["n", ""], ["n", "v"]], "body": "body"},
            {"seq_num": 2, "timestamp": 2},
        ],
        "tail": {"seq_num": 1, "timestamp": 2},
    }
    assert encode_read_batch(ReadBatch(()), Format.RAW) == b'{"records":[]}'


def test_commands_in_base64_are_those_of_the_protocol() -> None:
    data = record_json(headers=[["", "dHJpbQ=="]], body="AAAAAAAAACo=")
    assert decode_append_input(data, Format.BASE64).records == (trim_record(42),)


def test_all_of_a_record_may_be_missing_and_unknown_keys_are_ignored() -> None:
    data = b'{"records":[{},{"x":[{}],"timestamp":null}],"y":1,"match_seq_num":null}'
    assert decode_append_input(data, Format.RAW) == AppendInput((Record(b""), Record(b"")))


def test_bytes_that_are_not_utf_8_are_replaced_in_raw() -> None:
    batch = ReadBatch((SequencedRecord(0, 0, (), b"a\xffb"),))
    assert decode_read_batch(encode_read_batch(batch, Format.RAW), Format.RAW).records[0].body == (
        "a\ufffdb".encode()
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"[]",
        b"{}",
        b'{"records":null}',
        b'{"records":[]} x',
        b'{"records":[{"body":null}]}',
        b'{"records":[{"body":"\xff"}]}',
        b'{"records":[{"body":"\\ud800"}]}',
        b'{"records":[{"headers":null}]}',
        b'{"records":[{"headers":[["a"]]}]}',
        b'{"records":[{"headers":[["a","b","c"]]}]}',
        b'{"records":[{"headers":{"a":"b"}}]}',
        b'{"records":[{"timestamp":-1}]}',
        b'{"records":[{"timestamp":1.0}]}',
        b'{"records":[{"timestamp":"1"}]}',
        b'{"records":[{"timestamp":18446744073709551616}]}',
        b'{"records":[{}],"match_seq_num":-1}',
        b'{"records":[{}],"match_seq_num":true}',
        b'{"records":[{}],"fencing_token":1}',
        b'{"records":[{}],"fencing_token":"%b"}' % (b"x" * 37),
        b'{"records":[{}],"x":' + b"[" * 100_000,
        b'{"records":[{}],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_append_is_bad_json(data: bytes) -> None:
    assert refusal(lambda: decode_append_input(data, Format.RAW)) == BAD_JSON


def test_too_many_records_or_none_are_refused_before_they_are_made() -> None:
    for count in (0, 1001, 200_000):
        data = b'{"records":[' + b",".join([b"{}"] * count) + b"]}"
        assert refusal(decode_append_input, data, Format.RAW) == INVALID


@pytest.mark.parametrize(
    "text", ["a", "ab", "abc", "a===", "YQ", "YR==", "YQ==YQ==", "YQ== ", "Y Q==", "-_8=", "ü", "="]
)
def test_what_is_not_base64_is_invalid(text: str) -> None:
    for data in (record_json(body=text), record_json(headers=[["bg==", text]])):
        assert refusal(decode_append_input, data, Format.BASE64) == INVALID
    assert decode_append_input(record_json(body=text), Format.RAW).records[0].body == text.encode()


def test_formats_have_an_older_name_each() -> None:
    assert parse_format(None) is parse_format("raw") is parse_format("json") is Format.RAW
    assert parse_format("base64") is parse_format("json-binsafe") is Format.BASE64
    assert refusal(lambda: parse_format("hex")) == (400, "bad_header")


@given(st.binary(max_size=100) | st.text(max_size=100).map(str.encode))
def test_garbage_raises_nothing_else(data: bytes) -> None:
    for form in Format:
        with pytest.raises(S2Error):
            decode_append_input(b"[" + data, form)
        with pytest.raises(S2Error):
            decode_read_batch(b"[" + data, form)
