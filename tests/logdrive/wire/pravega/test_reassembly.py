"""Appends come whole out of any framing (specification, sections 2.4 to 2.6)."""

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.framing import frame_event, frame_events
from logdrive.wire.pravega.appends import (
    AppendBlock,
    AppendBlockEnd,
    ConditionalAppend,
    ConditionalBlockEnd,
    Padding,
    SetupAppend,
)
from logdrive.wire.pravega.control import KeepAlive
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.reassembly import Assembler, OrderError, WholeAppend
from tests.support.pravega.framings import W, alone, overflowing, padded, whole_block

OTHER = UUID(int=7)
EVENTS = st.lists(st.binary(max_size=30), min_size=1, max_size=6)


def assembled(*messages: Message) -> list[WholeAppend]:
    assembler = Assembler()
    found = [assembler.receive_append(message) for message in messages]  # type: ignore[arg-type]
    return [append for append in found if append is not None]


@given(EVENTS, st.integers(0, 50))
def test_an_append_is_the_same_in_all_framings(events: list[bytes], spare: int) -> None:
    expected = [WholeAppend(W, 9, len(events), frame_events(events), 4)]
    assert assembled(*alone(events, 9, 4)) == expected
    assert assembled(*whole_block(events, 9, 4)) == expected
    assert assembled(*padded(events, spare, 9, 4)) == expected


@given(EVENTS, st.data())
def test_an_event_cut_by_the_end_of_a_block_is_put_together(
    events: list[bytes], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(frame_event(events[-1]))))
    assert assembled(*overflowing(events, cut, 9, 4)) == [
        WholeAppend(W, 9, len(events), frame_events(events), 4)
    ]


def test_data_in_the_end_of_a_filled_block_means_nothing() -> None:
    block = AppendBlock(W, frame_event(b"hi"))
    assert assembled(block, AppendBlockEnd(W, 10, b"noise", 1, 1, 1)) == [
        WholeAppend(W, 1, 1, frame_event(b"hi"), 1)
    ]


def test_conditional_appends_carry_their_offset() -> None:
    assert assembled(ConditionalAppend(W, 2, 10, b"hi", 3)) == [
        WholeAppend(W, 2, 1, frame_event(b"hi"), 3, 10)
    ]
    assert assembled(ConditionalBlockEnd(W, 2, 10, b"raw", 3)) == [
        WholeAppend(W, 2, 1, b"raw", 3, 10)
    ]


@pytest.mark.parametrize(
    "inside",
    [
        SetupAppend(1, W, "s"),
        AppendBlock(W, b""),
        Padding(),
        ConditionalAppend(W, 1, 0, b""),
        ConditionalBlockEnd(W, 1, 0, b"", 1),
    ],
)
def test_only_its_end_may_follow_a_block(inside: Message) -> None:
    assembler = Assembler()
    assembler.receive_append(AppendBlock(W, b""))
    with pytest.raises(OrderError, match="inside a block"):
        assembler.check_order(inside)


def test_messages_that_are_no_appends_are_allowed_inside_a_block() -> None:
    assembler = Assembler()
    assembler.receive_append(AppendBlock(W, frame_event(b"hi")))
    assembler.check_order(KeepAlive())
    assert assembler.receive_append(AppendBlockEnd(W, 10, b"", 1, 1, 1)) == WholeAppend(
        W, 1, 1, frame_event(b"hi"), 1
    )


HI = frame_event(b"hi")


@pytest.mark.parametrize(
    ("block", "end"),
    [
        (HI, AppendBlockEnd(OTHER, 10, b"", 1, 1, 1)),
        (HI, AppendBlockEnd(W, 11, b"", 1, 1, 1)),
        (HI, AppendBlockEnd(W, -1, b"", 1, 1, 1)),
        (HI, AppendBlockEnd(W, 10, b"", 0, 1, 1)),
        (HI, AppendBlockEnd(W, 5, b"", 1, 1, 1)),
        (HI + b"\xff\xff\xff\xff\0\0\0\5pad", AppendBlockEnd(W, 10, b"", 1, 1, 1)),
        (HI + b"\xff\xff\xff\xff\0\0\0\3pad", AppendBlockEnd(W, 10, b"x", 1, 1, 1)),
        (HI + b"\0\0\0\0\0\0\0\3pad", AppendBlockEnd(W, 10, b"", 1, 1, 1)),
        (HI + b"\xff\xff\xff\xff\0\0\0\0more", AppendBlockEnd(W, 10, b"", 1, 1, 1)),
    ],
)
def test_a_malformed_block_is_refused(block: bytes, end: AppendBlockEnd) -> None:
    with pytest.raises(OrderError):
        assembled(AppendBlock(W, block), end)


@given(st.binary(max_size=60), st.integers(-5, 70), st.binary(max_size=10))
def test_garbage_raises_only_order_errors(block: bytes, whole: int, rest: bytes) -> None:
    with contextlib.suppress(OrderError):
        assembled(AppendBlock(W, block), AppendBlockEnd(W, whole, rest, 1, 1, 1))
