"""The hot loops give what the plain codec gives, for any append and any events."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from logdrive.services.numbering.heads import MAGIC
from logdrive.services.numbering.positions import Position
from logdrive.services.numbering.walk import NO_LIMIT, walk
from logdrive.services.s2.server.log.encoding import LogSettings, encode_append
from logdrive.services.s2.server.log.encryption import opener
from logdrive.services.s2.server.log.hot import (
    BatchEncoder,
    Limits,
    ParsedAppend,
    of_input,
    parse_append,
)
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.protobuf import (
    decode_append_input,
    decode_read_batch,
    encode_append_input,
    is_read_batch,
)
from logdrive.wire.s2.records import (
    AppendInput,
    ReadBatch,
    Record,
    SequencedRecord,
    check_input,
    metered_size,
)

T = TypeVar("T")
NOW = 1_700_000_000_000

short = st.binary(min_size=1, max_size=5)
texts = st.one_of(st.binary(max_size=20), st.binary(min_size=120, max_size=140))
body = st.one_of(texts, st.just(MAGIC), st.just(b"x" * 17_000), st.just(MAGIC + bytes(30)))
usual = st.builds(Record, body, st.lists(st.tuples(short, short), max_size=3).map(tuple))
any_record = st.builds(
    Record,
    body,
    st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    st.none() | st.integers(0, 2**64 - 1),
)
plain = st.builds(Record, body)
inputs = st.builds(
    AppendInput,
    st.one_of(
        *(st.lists(one, min_size=1, max_size=20).map(tuple) for one in (plain, usual, any_record))
    ),
    st.none() | st.integers(0, 2**64 - 1),
    st.none() | st.text(max_size=40),
)
seq_nums = st.sampled_from([0, 1, 100, 127, 128, 16_380, 2**21 - 3, 2**40])


def outcome(parse: Callable[[T], ParsedAppend], given: T) -> ParsedAppend | int:
    """Return what *parse* returns, or the status that it refuses *given* with."""
    try:
        return parse(given)
    except S2Error as error:
        return error.status


def plainly(data: bytes) -> ParsedAppend:
    return of_input(decode_append_input(data))


def read_back(parsed: ParsedAppend) -> ReadBatch:
    encoded = encode_append(parsed, NOW, LogSettings(uncapped=True), None)
    limits = Limits(1000, NO_LIMIT, NO_LIMIT, NO_LIMIT)
    encoder = BatchEncoder("s", Position(0, 0, 0), limits, opener(None), careful=False)
    encoder.add_events(NOW, encoded.events)
    return decode_read_batch(encoder.encode())


@given(inputs, seq_nums, st.integers(1, 30), st.integers(1, 3000))
def test_what_was_appended_is_read(
    append: AppendInput, seq_num: int, count: int, nominal: int
) -> None:
    parsed = outcome(parse_append, encode_append_input(append))
    wanted = outcome(of_input, append)
    if isinstance(wanted, int):
        assert parsed == wanted
        return
    assert not isinstance(parsed, int)
    assert (parsed.count, parsed.metered) == (len(append.records), check_input(append))
    assert parsed.match_seq_num == append.match_seq_num
    assert parsed.fencing_token == append.fencing_token
    settings = LogSettings(uncapped=True)
    encoded = encode_append(parsed, NOW, settings, None)
    slow = encode_append(wanted, NOW, settings, None)
    assert (encoded.count, encoded.first, encoded.latest) == (slow.count, slow.first, slow.latest)
    assert encoded.commands == slow.commands

    begin = Position(0, seq_num, 0)
    end = walk("s", begin, NOW, encoded.events)
    assert end == (len(encoded.events), seq_num + encoded.count, encoded.latest)

    # in batches that are cut anywhere
    at = begin
    found: list[SequencedRecord] = []
    while at != end:
        limits = Limits(count, nominal, NO_LIMIT, NO_LIMIT)
        encoder = BatchEncoder("s", at, limits, opener(None), careful=False)
        encoder.add_events(NOW, memoryview(encoded.events)[at.offset :])
        batch = encoder.encode()
        assert is_read_batch(batch)
        records = decode_read_batch(batch).records
        assert len(records) == encoder.count <= count
        assert sum(map(metered_size, records)) == encoder.metered
        assert encoder.metered <= nominal or encoder.count == 1
        assert encoder.full or encoder.position == end
        found += records
        at = encoder.position
    assert [(r.seq_num, r.body, r.headers) for r in found] == [
        (n, r.body, r.headers) for n, r in enumerate(append.records, seq_num)
    ]
    latest = 0
    for sent, record in zip(append.records, found, strict=True):
        latest = max(latest, NOW if sent.timestamp is None else sent.timestamp)
        assert record.timestamp == latest


@given(st.binary(max_size=200))
def test_garbage_is_refused_as_the_plain_codec_refuses_it(data: bytes) -> None:
    found, wanted = outcome(parse_append, data), outcome(plainly, data)
    if isinstance(wanted, int) or isinstance(found, int):
        assert found == wanted
    else:
        assert (found.count, found.metered) == (wanted.count, wanted.metered)


@given(inputs, st.data())
def test_a_message_with_a_few_bytes_changed_is_taken_as_the_plain_codec_takes_it(
    append: AppendInput, data: st.DataObject
) -> None:
    message = bytearray(encode_append_input(append))
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    found, wanted = outcome(parse_append, bytes(message)), outcome(plainly, bytes(message))
    if isinstance(wanted, int) or isinstance(found, int):
        assert found == wanted
        return
    assert (found.count, found.metered) == (wanted.count, wanted.metered)
    assert (found.match_seq_num, found.fencing_token) == (
        wanted.match_seq_num,
        wanted.fencing_token,
    )
    assert read_back(found) == read_back(wanted)
