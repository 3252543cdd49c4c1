"""Rule R1 in packs: the lengths before a text cut it exactly."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.limits import PACK_ITEMS
from logdrive.packs.cuts import count_cuts, join_cuts, split_cuts
from logdrive.packs.pack import PackError


@given(st.lists(st.integers(1, 9) | st.integers(-9, -1), min_size=1, max_size=9))
def test_any_lengths_come_back_with_their_text(lengths: list[int]) -> None:
    text = bytes(range(sum(length for length in lengths if length > 0)))
    content = join_cuts(lengths, text)
    assert split_cuts(content) == (tuple(lengths), text)
    assert count_cuts(len(content), len(text)) == len(lengths)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut text of 0 bytes"),
        (b"\0\0\0", "cut text of 3 bytes"),
        (join_cuts([], b""), "with 0 lengths"),
        (struct.pack("!Ii", 2, 1), "with 2 lengths"),
        (struct.pack("!I", 2**32 - 1), f"with {2**32 - 1} lengths"),
        (join_cuts([-1] * (PACK_ITEMS + 1), b""), f"with {PACK_ITEMS + 1} lengths"),
        (join_cuts([1, 0, 1], b"ab"), "a length of 0"),
        (join_cuts([1, 2], b"ab"), "not those of its text"),
        (join_cuts([1, -5], b"ab"), "not those of its text"),
    ],
)
def test_lengths_that_do_not_cut_the_text_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(PackError, match=reason):
        split_cuts(content)


@given(st.binary(max_size=40))
def test_any_bytes_are_cuts_or_refused(content: bytes) -> None:
    try:
        lengths, text = split_cuts(content)
    except PackError:
        return
    assert join_cuts(lengths, text) == content


@pytest.mark.parametrize(
    ("size", "text"), [(4, 0), (9, 0), (12, 3), (7, 9), (8 + 4 * PACK_ITEMS, 0)]
)
def test_sizes_that_no_lengths_make_up_are_refused(size: int, text: int) -> None:
    with pytest.raises(PackError, match="cut text"):
        count_cuts(size, text)
