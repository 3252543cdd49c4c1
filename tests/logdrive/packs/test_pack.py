"""Rule R8: a pack is opened only if its content is what its head says, and takes no more memory."""

import random
import struct
import subprocess
import sys
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.limits import PACK_BYTES, PACK_RATIO, PACK_RATIO_FREE
from logdrive.model.units import KIB, MIB
from logdrive.packs.pack import (
    PACK_HEAD,
    PackCodec,
    PackError,
    PackForm,
    PackHead,
    make_pack,
    open_pack,
    parse_head,
)
from tests.logdrive.packs.made import DEFLATE, STORED, TEXT, ZSTD, deflated, pack_of, zstd_frame

LINES = b"".join(b"GET /item/%d 200\n" % number for number in range(900))
NOISE = random.Random(16).randbytes(100 * KIB)
CODECS = list(PackCodec)


@given(
    st.binary(min_size=1, max_size=99) | st.sampled_from([LINES, NOISE, bytes(300 * KIB)]),
    st.sampled_from(CODECS),
    st.sampled_from(list(PackForm)),
    st.sampled_from([1, 3]),
)
def test_any_content_comes_back(
    content: bytes, codec: PackCodec, form: PackForm, level: int
) -> None:
    pack = make_pack(form, content, codec, level)
    head, opened = open_pack(memoryview(pack))
    assert opened == content
    assert head == parse_head(pack)
    assert (head.form, head.size, head.crc) == (form, len(content), zlib.crc32(content))
    assert len(pack) <= PACK_HEAD + len(content)


@pytest.mark.parametrize("codec", CODECS)
def test_the_most_that_a_pack_may_hold_comes_back(codec: PackCodec) -> None:
    for content in (bytes(PACK_BYTES), (LINES * 300)[:PACK_BYTES]):
        assert open_pack(make_pack(PackForm.TEXT, content, codec))[1] == content


@pytest.mark.parametrize(("size", "window"), [(256 * KIB, 256 * KIB), (1024 * KIB, 256 * KIB)])
def test_zstd_looks_back_no_farther_than_the_caches_of_a_processor(size: int, window: int) -> None:
    content = (LINES * 300)[:size]
    pack = make_pack(PackForm.TEXT, content, PackCodec.ZSTD)
    said = zstandard.get_frame_parameters(pack[PACK_HEAD:])
    assert (said.content_size, said.window_size) == (size, window)
    assert open_pack(pack)[1] == content


@pytest.mark.parametrize("size", [0, PACK_BYTES + 1])
def test_what_no_reader_would_open_is_not_packed(size: int) -> None:
    with pytest.raises(ValueError, match=f"of {size} bytes, not between 1 and"):
        make_pack(PackForm.TEXT, bytes(size), PackCodec.DEFLATE)


def test_a_pack_is_as_the_table_says() -> None:
    assert make_pack(PackForm.TEXT, b"hello\n", PackCodec.STORED) == bytes.fromhex(
        "01 00 00000006 363a3020 68656c6c6f0a"
    )
    pack = make_pack(PackForm.RECORDS, LINES, PackCodec.DEFLATE)
    assert pack[:2] == bytes([3, 1])
    assert zlib.decompress(pack[PACK_HEAD:], -15) == LINES
    pack = make_pack(PackForm.CUT_TEXT, LINES, PackCodec.ZSTD)
    assert pack[:2] == bytes([2, 2])
    assert zstandard.decompress(pack[PACK_HEAD:]) == LINES


def test_packs_of_any_deflate_and_zstd_are_opened() -> None:
    for level in range(10):
        assert open_pack(pack_of(LINES, deflated(LINES, level), codec=DEFLATE))[1] == LINES
    for level in (1, 3, 19):
        packed = zstandard.ZstdCompressor(level=level, write_checksum=True).compress(LINES)
        assert open_pack(pack_of(LINES, packed, codec=ZSTD))[1] == LINES


def test_what_zstd_packs_better_than_a_reader_takes_is_deflated() -> None:
    content = bytes(PACK_BYTES)
    assert len(zstandard.ZstdCompressor(level=1).compress(content)) * PACK_RATIO < len(content)
    assert parse_head(make_pack(PackForm.TEXT, content, PackCodec.ZSTD)).codec is PackCodec.DEFLATE


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        (b"", "a pack of 0 bytes"),
        (pack_of(b""), "a pack of 10 bytes"),
        (pack_of(b"a", form=0), "unknown form 0"),
        (pack_of(b"a", form=4), "unknown form 4"),
        (pack_of(b"a", codec=3), "unknown codec 3"),
        (pack_of(b"a", codec=DEFLATE, size=0), "a pack of 0 bytes, not between 1 and"),
        (pack_of(b"a" * 9999, codec=DEFLATE, size=PACK_BYTES + 1), "not between 1 and"),
        (pack_of(b"a", codec=DEFLATE, size=2**32 - 1), "not between 1 and"),
        (pack_of(b"abc", size=2), "a stored pack of 2 bytes that has 3"),
        (pack_of(b"abc", size=4), "a stored pack of 4 bytes that has 3"),
        (
            pack_of(b"a", codec=DEFLATE, size=PACK_RATIO_FREE + 1),
            f"more than {PACK_RATIO} times as many",
        ),
        (pack_of(b"a" * (PACK_RATIO_FREE + 2), codec=ZSTD, size=1), "more at least"),
    ],
)
def test_a_head_that_can_not_be_is_refused(pack: bytes, reason: str) -> None:
    with pytest.raises(PackError, match=reason):
        parse_head(pack)
    with pytest.raises(PackError, match=reason):
        open_pack(pack)


def test_limits_themselves_are_allowed() -> None:
    at_ratio = pack_of(b"a" * 1000, codec=DEFLATE, size=PACK_RATIO * 1000)
    assert parse_head(at_ratio) == PackHead(
        PackForm.TEXT, PackCodec.DEFLATE, PACK_RATIO * 1000, zlib.crc32(b"a" * 1000)
    )
    parse_head(pack_of(b"a", codec=DEFLATE, size=PACK_RATIO_FREE))
    parse_head(pack_of(b"a" * (PACK_RATIO_FREE + 1), codec=ZSTD, size=1))


ZEROS = bytes(64 * MIB)
DEFLATE_BOMB = deflated(ZEROS)
UNSIZED = zstandard.ZstdCompressor(write_content_size=False).compress(LINES)
SKIPPED = b"\x50\x2a\x4d\x18" + struct.pack("<I", len(LINES)) + LINES
SIZE = len(LINES)
PACKED, SQUEEZED = deflated(LINES), zstandard.ZstdCompressor().compress(LINES)
LIES = {
    "stored, another CRC": (pack_of(LINES, crc=1), "another CRC-32"),
    "deflate, another CRC": (pack_of(LINES, PACKED, codec=DEFLATE, crc=1), "another CRC-32"),
    "zstd, another CRC": (pack_of(LINES, SQUEEZED, codec=ZSTD, crc=1), "another CRC-32"),
    "deflate, one byte more": (
        pack_of(LINES, PACKED, codec=DEFLATE, size=SIZE - 1),
        f"of {SIZE - 1} bytes that holds {SIZE} or more",
    ),
    "deflate, one byte less": (
        pack_of(LINES, PACKED, codec=DEFLATE, size=SIZE + 1),
        f"of {SIZE + 1} bytes that holds {SIZE} or more",
    ),
    "deflate, cut off": (pack_of(LINES, PACKED[:-1], codec=DEFLATE), "is cut off"),
    "deflate, bytes after": (pack_of(LINES, PACKED + b"\0", codec=DEFLATE), "bytes after"),
    "deflate, two streams": (pack_of(LINES, PACKED + PACKED, codec=DEFLATE), "bytes after"),
    "deflate, garbage": (pack_of(LINES, b"\xff" * 99, codec=DEFLATE), "does not inflate"),
    "deflate that is zlib": (pack_of(LINES, zlib.compress(LINES), codec=DEFLATE), "not inflate"),
    "deflate that is zstd": (pack_of(LINES, SQUEEZED, codec=DEFLATE), "does not inflate"),
    "deflate, a bomb": (pack_of(LINES, DEFLATE_BOMB, codec=DEFLATE), f"{SIZE + 1} or more"),
    "zstd, another size": (pack_of(LINES, SQUEEZED, codec=ZSTD, size=SIZE + 1), "another size"),
    "zstd, no size": (pack_of(LINES, UNSIZED, codec=ZSTD), "another size"),
    "zstd, cut off": (pack_of(LINES, SQUEEZED[:-1], codec=ZSTD), "zstd can't open"),
    "zstd, its head cut off": (pack_of(LINES, SQUEEZED[:5], codec=ZSTD), "zstd"),
    "zstd, bytes after": (pack_of(LINES, SQUEEZED + b"\0", codec=ZSTD), "zstd can't open"),
    "zstd, two frames": (pack_of(LINES, SQUEEZED + SQUEEZED, codec=ZSTD), "zstd can't open"),
    "zstd that is deflate": (pack_of(LINES, PACKED, codec=ZSTD), "zstd can't open"),
    "zstd, a frame to skip": (pack_of(LINES, SKIPPED, codec=ZSTD), "zstd"),
    "zstd, blocks of more": (pack_of(LINES, zstd_frame(SIZE, [SIZE, 1]), codec=ZSTD), "can't open"),
    "zstd, blocks of less": (pack_of(LINES, zstd_frame(SIZE, [SIZE - 1]), codec=ZSTD), "can't"),
    "zstd, a bomb": (pack_of(LINES, zstd_frame(SIZE, [128 * KIB] * 500), codec=ZSTD), "can't open"),
    "zstd, a wide window": (
        pack_of(LINES, zstd_frame(SIZE, [SIZE], window=31), codec=ZSTD),
        f"window is {2**31} bytes",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_pack_whose_inside_lies_is_not_opened(lie: str) -> None:
    pack, reason = LIES[lie]
    parse_head(pack)  # nothing is to be seen from outside
    with pytest.raises(PackError, match=reason):
        open_pack(pack)


VALID = [
    make_pack(PackForm.TEXT, content, codec) for content in (LINES, NOISE[:200]) for codec in CODECS
]


@given(st.sampled_from(VALID), st.integers(0), st.integers(1, 255), st.integers(0, 3))
def test_a_pack_with_a_changed_byte_is_refused_or_the_same(
    pack: bytes, at: int, flip: int, missing: int
) -> None:
    at %= len(pack)
    changed = pack[:at] + bytes([pack[at] ^ flip]) + pack[at + 1 : len(pack) - missing]
    try:
        _, content = open_pack(changed)
    # any other exception is a fault
    except PackError:
        return
    assert content == open_pack(pack)[1]


@given(
    st.integers(0, 5),
    st.integers(0, 4),
    st.integers(0, 2**32 - 1) | st.integers(0, 99),
    st.binary(max_size=99),
)
def test_any_bytes_are_a_pack_or_refused(form: int, codec: int, size: int, packed: bytes) -> None:
    pack = pack_of(b"", packed, form=form, codec=codec, size=size)
    try:
        head, content = open_pack(pack)
    except PackError:
        return
    assert (head.size, zlib.crc32(content)) == (len(content), head.crc)


OPENING = """
import sys
from ctypes import CDLL
from logdrive.packs.pack import PackCodec, PackError, PackForm, make_pack, open_pack

def kilobytes(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

pack = sys.stdin.buffer.read()
for codec in PackCodec:
    open_pack(make_pack(PackForm.TEXT, b"abc" * 99, codec))
CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: no page of 2 MiB for a byte
CDLL(None).malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = kilobytes("VmRSS")
try:
    open_pack(pack)
except PackError:
    pass
print(kilobytes("VmHWM") - before)
"""
MORE = 640  # KiB beside the size that is said: the codec's own state, and what malloc rounds up
HUGE = {
    "honest deflate": pack_of(ZEROS[:PACK_BYTES], deflated(ZEROS[:PACK_BYTES]), codec=DEFLATE),
    "honest zstd": make_pack(PackForm.TEXT, NOISE[:600] * 6990, PackCodec.ZSTD),
    "deflate, a bomb that says little": pack_of(b"a", DEFLATE_BOMB, codec=DEFLATE, size=64),
    "deflate, a bomb that says much": pack_of(b"", DEFLATE_BOMB, codec=DEFLATE, size=PACK_BYTES),
    "deflate, much of which is left": pack_of(b"", deflated(NOISE), codec=DEFLATE, size=40 * KIB),
    "zstd, a bomb": pack_of(b"", zstd_frame(SIZE, [128 * KIB] * 999), codec=ZSTD, size=SIZE),
    "zstd, a size that is not there": pack_of(
        b"", zstd_frame(PACK_BYTES, [9]) + bytes(4000), codec=ZSTD, size=PACK_BYTES
    ),
    "zstd, a wide window": pack_of(b"", zstd_frame(9, [9], window=22), codec=ZSTD, size=9),
    "zstd, too wide a window": pack_of(b"", zstd_frame(9, [9], window=31), codec=ZSTD, size=9),
}


@pytest.mark.parametrize("name", HUGE)
def test_opening_takes_no_more_memory_than_the_head_says(name: str) -> None:
    pack = HUGE[name]
    assert pack[0] == TEXT
    assert pack[1] != STORED
    (said,) = struct.unpack_from("!I", pack, 2)
    grown = subprocess.run(
        [sys.executable, "-c", OPENING], input=pack, capture_output=True, check=True
    )
    assert int(grown.stdout) <= said // KIB + MORE
