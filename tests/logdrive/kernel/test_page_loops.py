"""The compiled loop makes pages that Snappy's own reader turns back into the same texts."""

from array import array
from itertools import accumulate, pairwise
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.logdrive.kernel.compiled import compiled_module

ROOM = 200  # bytes that a page needs besides twice its own


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return compiled_module("logdrive.kernel._page_loops")


def places(texts: list[bytes]) -> bytes:
    return array("i", [0, *accumulate(map(len, texts))]).tobytes()


def plain_page(levels: bytes, texts: list[bytes]) -> bytes:
    return levels + b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def unpacked_page(compiled: ModuleType, levels: bytes, texts: list[bytes], first: int) -> bytes:
    """Return the page of *texts* from the *first* on, compressed and decompressed again."""
    plain = plain_page(levels, texts[first:])
    room = bytearray(2 * len(plain) + ROOM)
    size = compiled.snappy_page(
        levels, places(texts), b"".join(texts), first, len(texts) - first, room
    )
    assert size <= len(plain) + 10
    unpacked = pa.decompress(bytes(room[:size]), len(plain), "snappy", asbytes=True)
    assert isinstance(unpacked, bytes)
    return unpacked


# texts that are made of what was there before, near and far away, and of what was not
pieces = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"", b"GET /index.html HTTP/1.1", b"a" * 70, b"0123456789" * 40]),
    st.builds(lambda size: bytes(range(256)) * size, st.integers(0, 300)),
    st.builds(lambda size: b"\0" * size, st.integers(0, 70_000)),
)
texts_of_all_kinds = st.lists(st.lists(pieces, max_size=6).map(b"".join), max_size=30)


@given(st.binary(max_size=9), texts_of_all_kinds, st.integers(0, 3))
@example(b"", [b"x" * 8 + b"y" * 65_519 + b"x" * 8], 0)  # the farthest copy, and one too far
@example(b"", [b"x" * 8 + b"y" * 65_520 + b"x" * 8], 0)
@example(b"", [b"ab" * size for size in range(70)], 0)  # copies of each length
def test_any_texts_are_those_of_the_page(
    compiled: ModuleType, levels: bytes, texts: list[bytes], first: int
) -> None:
    first = min(first, len(texts))
    assert unpacked_page(compiled, levels, texts, first) == plain_page(levels, texts[first:])


@given(st.randoms(use_true_random=False), st.integers(0, 300_000))
def test_bytes_that_do_not_compress_take_ten_more_at_most(
    compiled: ModuleType, chance: object, size: int
) -> None:
    text = chance.randbytes(size)  # type: ignore[attr-defined]  # hypothesis has a class of its own
    assert unpacked_page(compiled, b"", [text], 0) == plain_page(b"", [text])


def test_lines_take_a_third_of_their_bytes_at_most(compiled: ModuleType) -> None:
    texts = [
        b'10.0.%d.9 - - [30/Nov/2026:04:%02d:%02d +0000] "GET /item/%d HTTP/1.1" 200 %d "-" "curl"'
        % (i * 31 % 256, i // 600, i // 10 % 60, i * 7919 % 10_007, i * 104_729 % 90_001)
        for i in range(5_000)
    ]
    plain = plain_page(b"", texts)
    room = bytearray(2 * len(plain) + ROOM)
    size = compiled.snappy_page(b"", places(texts), b"".join(texts), 0, len(texts), room)
    assert size < len(plain) / 3


@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6),
    st.binary(max_size=9),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 6),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 6),
    st.integers(0, 260),
    st.binary(max_size=3),
)
def test_any_arguments_are_a_page_or_refused(
    compiled: ModuleType,
    offsets: list[int],
    data: bytes,
    first: int,
    count: int,
    room_bytes: int,
    torn: bytes,
) -> None:
    room = bytearray(room_bytes)
    try:
        size = compiled.snappy_page(
            b"l", array("i", offsets).tobytes() + torn, data, first, count, room
        )
    except ValueError:
        return
    assert 0 < size <= room_bytes
    used = offsets[first : first + count + 1]
    assert used == sorted(used)
    assert all(0 <= place <= len(data) for place in used)
    texts = [data[a:b] for a, b in pairwise(used)]
    plain = plain_page(b"l", texts)
    assert pa.decompress(bytes(room[:size]), len(plain), "snappy", asbytes=True) == plain
    assert room_bytes >= 2 * len(plain)
