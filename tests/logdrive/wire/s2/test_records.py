"""`logdrive.wire.s2.records`: sizes, limits and commands."""

import pytest
from hypothesis import given

from logdrive.wire.s2.frames import encode_frame
from logdrive.wire.s2.limits import (
    BATCH_BYTES,
    BATCH_HEADERS,
    FRAME_BYTES,
    RECORD_BYTES,
    U64_MAX,
)
from logdrive.wire.s2.protobuf import encode_read_batch
from logdrive.wire.s2.records import (
    AppendInput,
    Fence,
    ReadBatch,
    Record,
    SequencedRecord,
    StreamPosition,
    Trim,
    check_input,
    command_of,
    fence_record,
    metered_size,
    trim_record,
)
from tests.logdrive.wire.s2.samples import records, refusal, u64s

INVALID = (422, "invalid")


@given(records)
def test_a_metered_size_counts_eight_for_a_record_and_two_for_a_header(record: Record) -> None:
    texts = sum(len(name) + len(value) for name, value in record.headers)
    assert metered_size(record) == 8 + 2 * len(record.headers) + texts + len(record.body)


@given(u64s)
def test_a_command_says_what_it_was_made_for(seq_num: int) -> None:
    assert command_of(trim_record(seq_num)) == Trim(seq_num)
    assert command_of(fence_record(f"token {seq_num}")) == Fence(f"token {seq_num}")


@pytest.mark.parametrize("token", ["", "x" * 36, "ü" * 18])
def test_a_fencing_token_has_at_most_36_bytes(token: str) -> None:
    assert command_of(fence_record(token)) == Fence(token)
    assert refusal(lambda: command_of(fence_record(token + "x" * 37))) == INVALID


def test_a_record_without_an_empty_header_name_is_no_command() -> None:
    assert command_of(Record(b"")) is None
    assert command_of(Record(b"x" * 9, ((b"trim", b""), (b"n", b"trim")))) is None


@pytest.mark.parametrize(
    "record",
    [
        Record(b"", ((b"", b"other"),)),
        Record(b"", ((b"", b""),)),
        Record(b"x" * 37, ((b"", b"fence"),)),
        Record(b"\xff", ((b"", b"fence"),)),
        Record(b"", ((b"", b"trim"),)),
        Record(b"x" * 7, ((b"", b"trim"),)),
        Record(b"x" * 9, ((b"", b"trim"),)),
        Record(b"", ((b"", b"fence"), (b"n", b"v"))),
        Record(b"", ((b"n", b"v"), (b"", b"fence"))),
        Record(b"", ((b"", b"fence"), (b"", b"fence"))),
    ],
)
def test_what_looks_like_a_command_and_is_none_refuses_the_append(record: Record) -> None:
    assert refusal(lambda: command_of(record)) == INVALID
    assert refusal(lambda: check_input(AppendInput((Record(b"data"), record)))) == INVALID


def test_an_append_has_one_to_a_thousand_records() -> None:
    for count, expected in ((0, INVALID), (1, None), (1000, None), (1001, INVALID)):
        append = AppendInput((Record(b"x"),) * count)
        assert refusal(check_input, append) == expected


def test_a_record_has_at_most_a_mebibyte() -> None:
    assert check_input(AppendInput((Record(bytes(RECORD_BYTES - 8)),))) == RECORD_BYTES
    assert refusal(lambda: check_input(AppendInput((Record(bytes(RECORD_BYTES - 7)),)))) == INVALID
    record = Record(bytes(RECORD_BYTES - 12), ((b"n", b"v"),))
    assert check_input(AppendInput((record,))) == RECORD_BYTES
    longer = Record(bytes(RECORD_BYTES - 11), ((b"n", b"v"),))
    assert refusal(lambda: check_input(AppendInput((longer,)))) == INVALID


def test_an_append_has_at_most_a_mebibyte() -> None:
    half = Record(bytes(RECORD_BYTES // 2 - 8))
    assert check_input(AppendInput((half, half))) == RECORD_BYTES
    assert refusal(lambda: check_input(AppendInput((half, half, Record(b""))))) == INVALID


def test_the_fencing_token_of_an_append_has_at_most_36_bytes() -> None:
    for token, expected in (("", None), ("x" * 36, None), ("x" * 37, INVALID), ("ü" * 19, INVALID)):
        append = AppendInput((Record(b""),), fencing_token=token)
        assert refusal(check_input, append) == expected


@pytest.mark.parametrize(
    ("name", "value"), [(b"n", b""), (b"n", b"v"), (b"n", b"v" * 2), (b"n" * 64, b"v" * 64)]
)
@pytest.mark.parametrize("count", [1, 1000])
def test_what_can_be_appended_fits_a_frame_when_it_is_read(
    name: bytes, value: bytes, count: int
) -> None:
    most = (BATCH_BYTES - 8 * count) // (2 + len(name) + len(value))
    headers = ((name, value),) * (min(most, BATCH_HEADERS) // count)
    record = Record(b"", headers)
    rest = (BATCH_BYTES - count * metered_size(record)) // count
    record = Record(bytes(rest), headers)
    check_input(AppendInput((record,) * count))
    batch = ReadBatch(
        (SequencedRecord(U64_MAX, U64_MAX, headers, record.body),) * count,
        StreamPosition(U64_MAX, U64_MAX),
    )
    assert len(encode_frame(encode_read_batch(batch))) <= FRAME_BYTES + 3


def test_an_append_has_not_so_many_headers_that_it_could_not_be_read() -> None:
    headers = ((b"n", b""),) * (BATCH_HEADERS // 2)
    assert refusal(check_input, AppendInput((Record(b"", headers),) * 2)) is None
    more = (Record(b"", headers), Record(b"", headers), Record(b"", headers[:1]))
    assert refusal(check_input, AppendInput(more)) == INVALID
