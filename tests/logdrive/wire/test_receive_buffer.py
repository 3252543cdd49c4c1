"""The bytes removed are those received, in any pieces, and single bytes cost little more memory
than their size.
"""

import sys
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.model.units import KIB
from logdrive.wire.receive_buffer import ReceiveBuffer

SIZES = st.lists(st.sampled_from([0, 1, 2, 7, 100, 4095, 4096, 5000, 70_000]), max_size=12)


@given(SIZES, st.lists(st.sampled_from([1, 3, 8, 99, 4096, 66_000]), min_size=1, max_size=12))
@settings(max_examples=60)
def test_any_split_gives_the_same_bytes(pieces: list[int], takes: list[int]) -> None:
    stream = bytes(range(251)) * (sum(pieces) // 251 + 1)
    arrived, added, taken = ReceiveBuffer(), 0, 0
    kept: list[tuple[memoryview, int]] = []
    for number, size in enumerate(pieces):
        arrived.append_bytes(stream[added : added + size])
        added += size
        wanted = takes[number % len(takes)]
        if arrived.size >= wanted:
            assert arrived.peek_front(min(wanted, 8)) == stream[taken : taken + min(wanted, 8)]
            kept.append((arrived.pop_front(wanted), taken))
            taken += wanted
        assert arrived.size == added - taken
    for view, at in kept:  # also after more has arrived
        assert view == stream[at : at + len(view)]


def test_single_bytes_take_little_more_memory_than_they_are() -> None:
    arrived = ReceiveBuffer()
    arrived.append_bytes(bytes(8 * KIB))
    tracemalloc.start()
    for _ in range(200 * KIB):
        arrived.append_bytes(b"x")
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 400 * KIB + sys.getsizeof(arrived)
    assert arrived.pop_front(208 * KIB) == bytes(8 * KIB) + b"x" * (200 * KIB)
