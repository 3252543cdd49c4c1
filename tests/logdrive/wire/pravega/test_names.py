"""Names of segments, as a real Pravega makes them."""

from uuid import UUID

import pytest

from logdrive.wire.pravega.names import (
    SegmentName,
    is_transient,
    scope_and_stream,
    segment_name,
    streams_among,
    transaction_name,
    transient_name,
)

SEGMENT = "logs/app/7.#epoch.2"
TRANSACTION = f"{SEGMENT}#transaction.{0xAB:032x}"
TRANSIENT = f"{SEGMENT}#transient.{1:032x}.{2:032x}"


def test_a_segments_name_has_scope_stream_number_and_epoch() -> None:
    name = SegmentName.parse(SEGMENT)
    assert name == SegmentName("logs", "app", 7, epoch=2)
    assert (str(name), name.id) == (SEGMENT, (2 << 32) + 7)
    assert SegmentName.from_id("logs", "app", name.id) == name
    assert segment_name("logs", "app", name.id) == SEGMENT
    assert segment_name("logs", "app", 3) == "logs/app/3.#epoch.0"


@pytest.mark.parametrize(
    "text",
    [TRANSACTION, TRANSIENT, f"{SEGMENT}#index", "logs/7.#epoch.2", "a/b/c/7.#epoch.2", "7", ""],
)
def test_other_names_are_no_stream_segments(text: str) -> None:
    assert SegmentName.match(text) is None
    with pytest.raises(ValueError, match="is not the name of a stream's segment"):
        SegmentName.parse(text)


def test_streams_are_found_by_the_names_of_their_segments() -> None:
    others = [TRANSACTION, "logs", "logs/other/0.#epoch.0", "logs/app/0.#epoch.0"]
    assert streams_among([SEGMENT, *others]) == ["logs/app", "logs/other"]


def test_segments_beside_a_streams_own_belong_to_the_stream() -> None:
    assert transaction_name(SEGMENT, UUID(int=0xAB)) == TRANSACTION
    assert transient_name(SEGMENT, UUID(int=1), UUID(int=2)) == TRANSIENT
    for segment in (SEGMENT, TRANSACTION, TRANSIENT):
        assert scope_and_stream(segment) == ("logs", "app")


def test_a_transient_segment_is_recognized_by_its_name() -> None:
    assert is_transient(TRANSIENT)
    for name in (SEGMENT, TRANSACTION, f"{SEGMENT}#transient"):
        assert not is_transient(name)
