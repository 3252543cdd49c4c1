"""Options of topics: blocks of R3, fixed fields before, quantities in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import NEVER, OPTIONS_BYTES, U64_MAX, UNLIMITED
from logdrive.wire.iggy.options import Durability, IggyCompression, TopicOptions
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.options import (
    GIVEN_OPTIONS,
    TOLD_OPTIONS,
    OptionValue,
    write_entry,
)
from logdrive.wire.iggy.payloads.quantities import parse_duration, parse_size
from logdrive.wire.iggy.replies import TopicDetails, TopicInfo
from logdrive.wire.iggy.replies_codec import decode_reply, encode_reply
from logdrive.wire.iggy.requests_codec import decode_request, encode_request
from logdrive.wire.iggy.revision import Revision

TEXT, BOOL, U32, U64 = 2, 3, 11, 12


def block(*entries: OptionValue) -> bytes:
    writer = PayloadWriter(Revision.R3)
    for entry in entries:
        write_entry(entry, writer)
    return writer.joined()


def given_options(data: bytes) -> TopicOptions:
    return GIVEN_OPTIONS.read(PayloadReader(Revision.R3, data))


def refused(data: bytes) -> Reason:
    with pytest.raises(IggyError) as caught:
        given_options(data)
    return caught.value.reason


def test_a_topic_that_is_durable_is_asked_for_with_these_bytes() -> None:
    options = TopicOptions(enforce_fsync=True, messages_required_to_save=1)
    asked = requests.CreateTopic("logs", "app", 2, options)
    code, payload = encode_request(Revision.R3, asked)
    assert code == 302
    assert payload == (
        b"\2\4logs\2\0\0\0\3app"
        b"\2\x0d\0\0\0enforce_fsync\3\1\0\0\0\1"
        b"\2\x19\0\0\0messages_required_to_save\x0b\4\0\0\0\1\0\0\0"
    )


def test_texts_are_read_as_quantities() -> None:
    data = block(
        OptionValue("message_expiry", TEXT, b"7 days"),
        OptionValue("max_topic_size", TEXT, b"1 GiB"),
        OptionValue("compression_algorithm", TEXT, b"gzip"),
        OptionValue("durability", TEXT, b"persisted"),
    )
    assert given_options(data) == TopicOptions(
        compression=IggyCompression.GZIP,
        expiry_us=7 * 86_400 * 1_000_000,
        max_size=2**30,
        durability=Durability.PERSISTED,
    )


@pytest.mark.parametrize(
    "entry",
    [
        OptionValue("message_expiry", TEXT, b"soon"),
        OptionValue("message_expiry", U64, b"\0\0\0\0"),
        OptionValue("messages_required_to_save", TEXT, b"12"),
        OptionValue("messages_required_to_save", U64, b"\xff" * 8),
        OptionValue("enforce_fsync", BOOL, b"\2"),
        OptionValue("compression_algorithm", TEXT, b"zstd"),
        OptionValue("durability", TEXT, b"\xff"),
    ],
    ids=lambda entry: f"{entry.key}-{entry.kind}",
)
def test_a_value_that_the_option_can_not_have_is_refused(entry: OptionValue) -> None:
    assert refused(block(entry)) is Reason.INVALID_OPTION_VALUE


def test_an_option_that_is_not_known_is_refused_in_a_request_and_skipped_in_a_reply() -> None:
    unknown = block(OptionValue("colour", TEXT, b"red"), OptionValue("enforce_fsync", BOOL, b"\1"))
    assert refused(unknown) is Reason.UNKNOWN_OPTION
    told = len(unknown).to_bytes(4, "little") + unknown
    assert TOLD_OPTIONS.read(PayloadReader(Revision.R3, told)) == TopicOptions(enforce_fsync=True)


def test_an_option_that_is_given_twice_is_refused() -> None:
    assert refused(block(*[OptionValue("segment_size", U64, bytes(8))] * 2)) is (
        Reason.INVALID_OPTION_VALUE
    )


def test_a_block_over_its_limits_is_refused() -> None:
    assert refused(bytes(OPTIONS_BYTES + 1)) is Reason.OPTIONS_TOO_BIG


def test_streams_and_users_have_no_options() -> None:
    option = block(OptionValue("enforce_fsync", BOOL, b"\1"))
    for asked in (requests.IggyCreateStream("logs"), requests.CreateUser("ann", "secret")):
        code, payload = encode_request(Revision.R3, asked)
        assert decode_request(Revision.R3, code, payload) == asked
        with pytest.raises(IggyError) as caught:
            decode_request(Revision.R3, code, payload + option)
        assert caught.value.reason is Reason.UNKNOWN_OPTION


@pytest.mark.parametrize(
    ("expiry_us", "seconds"),
    [(None, 0), (NEVER, 0), (1, 1), (60_000_000, 60), (60_000_001, 61), (NEVER - 1, 0)],
)
def test_r0_keeps_messages_for_whole_seconds_and_never_shorter(
    expiry_us: int | None, seconds: int
) -> None:
    asked = requests.CreateTopic(1, "app", 1, TopicOptions(expiry_us=expiry_us), 1)
    _, payload = encode_request(Revision.R0, asked)
    assert payload[14:18] == seconds.to_bytes(4, "little")
    told = TopicDetails(
        TopicInfo(1, 2, 0, 0, 0, "app", expiry_us=NEVER if expiry_us is None else expiry_us)
    )
    get = requests.GetTopic(1, 1)
    topic = decode_reply(Revision.R0, get, encode_reply(Revision.R0, get, told))
    assert topic is not None
    assert topic.topic.expiry_us == (seconds * 1_000_000 if seconds else NEVER)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("7 days", 604_800_000_000),
        ("1h 30m", 5_400_000_000),
        ("15s", 15_000_000),
        ("2days2h", 180_000_000_000),
        ("10us", 10),
        ("never", NEVER),
        ("None", NEVER),
    ],
)
def test_durations_in_words(text: str, duration: int) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 GiB", 2**30),
        ("1.5 MiB", 1_572_864),
        ("10 MB", 10_000_000),
        ("512 B", 512),
        ("unlimited", UNLIMITED),
    ],
)
def test_sizes_in_words(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", " ", "7", "days", "7 moons", "-1 s", "9" * 20 + " years", "1 s" * 99]
)
def test_words_that_are_no_quantity_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|characters"):
        parse_duration(text)
    with pytest.raises(ValueError, match=r"quantity|characters"):
        parse_size(text)


@given(st.text(max_size=120))
def test_any_words_are_a_quantity_or_refused(text: str) -> None:
    for parse in (parse_duration, parse_size):
        try:
            value = parse(text)
        except ValueError:
            continue
        assert 0 <= value <= U64_MAX
