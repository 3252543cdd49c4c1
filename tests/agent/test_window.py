"""How windows are packed: as readers of either dialect take them, and no tighter than they believe (D1)."""

import pytest

from agent.session import _slices
from agent.window import packed
from logdrive.limits import LOGDRIVE_1
from logdrive.wire.lumberjack.envelope import ZSTD_MAGIC, Codec
from logdrive.wire.lumberjack.frames import JsonRun, Window, json_frames
from logdrive.wire.lumberjack.reader import FrameReader


@pytest.mark.parametrize("codec", ["zstd", "zlib", None])
@pytest.mark.parametrize("payload", [b'{"message":"x"}' * 100, b'"' + b"\\u0000" * 120_000 + b'"'], ids=["plain", "monotonous"])
def test_a_reader_takes_every_window__D1(codec: Codec | None, payload: bytes) -> None:
    data = b"".join(packed(json_frames(1, [payload]), 1, codec, 1))
    window, run = FrameReader(LOGDRIVE_1, side="reader", dialect="logdrive/1").feed(data)
    assert window == Window(1)
    assert isinstance(run, JsonRun)
    assert run.payloads == [payload]


def test_zstd_gives_way_to_zlib_where_it_would_look_like_a_bomb__D1() -> None:
    monotonous = json_frames(1, [b'"' + b"\\u0000" * 120_000 + b'"'])
    (head, envelope) = packed(monotonous, 1, "zstd", 1)
    assert envelope[6:10] != ZSTD_MAGIC
    (head, envelope) = packed(json_frames(1, [b'{"message":"x"}' * 100]), 1, "zstd", 1)
    assert envelope[6:10] == ZSTD_MAGIC
    assert head == Window(1).encode()


@pytest.mark.parametrize("sizes", [[6, 100], [6, 65_536], [6, 65_537], [6, 300_000], [200_000, 1, 1], []])
def test_slices_are_short_and_leave_nothing_out(sizes: list[int]) -> None:
    parts = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    slices = list(_slices(parts))
    assert b"".join(b"".join(each) for each in slices) == b"".join(parts)
    assert all(sum(map(len, each)) <= 65_536 + 64 for each in slices)
    if sum(sizes) <= 65_536 + 64:
        assert len(slices) <= 1, "what is short goes in one write"
