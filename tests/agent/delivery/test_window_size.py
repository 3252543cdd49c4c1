"""Window sizes follow the link: a slow link gets small windows, each of which arrives (D1)."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from random import Random

from agent.delivery.window_size import WindowSizer
from logdrive.host.transport import ByteStream
from logdrive.model.units import KIB, MIB
from tests.agent.world import LOG, World, contents
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

FULL = 4 * MIB


def _sent(pace: WindowSizer, windows: Sequence[int], seconds: float, now: float = 0.0) -> float:
    """Send windows at once, acknowledged *seconds* apart; return when the last one was."""
    for size in windows:
        pace.on_window_sent(size, now)
    for _ in windows:
        now += seconds
        pace.on_window_acknowledged(now)
    return now


def test_a_fast_link_gets_full_windows_after_a_few() -> None:
    pace, now, sizes = WindowSizer(FULL), 0.0, []
    for _ in range(4):
        sizes.append(pace.size)
        now = _sent(pace, [pace.size] * 4, 0.1, now)
    assert sizes == [FULL // 8, FULL // 4, FULL // 2, FULL]


def test_a_slow_link_gets_small_windows_and_each_late_window_halves_the_size_once() -> None:
    pace = WindowSizer(FULL)
    now = _sent(pace, [FULL], 0.1)
    assert pace.size == FULL
    now = _sent(pace, [FULL] * 4, 20.0, now)
    assert pace.size == FULL // 2
    for _ in range(10):
        now = _sent(pace, [pace.size], 20.0, now)
    assert pace.size == 64 * KIB


def test_windows_are_never_larger_than_configured() -> None:
    most = 1_300_000
    pace, now = WindowSizer(most), 0.0
    for _ in range(5):
        now = _sent(pace, [pace.size], 0.1, now)
        assert pace.size <= most
    assert pace.size == most
    assert WindowSizer(100 * KIB).size == 100 * KIB


def test_windows_that_take_some_seconds_stay_as_large_as_they_are() -> None:
    for seconds in (2.0, 5.0, 8.0):
        pace = WindowSizer(FULL)
        _sent(pace, [pace.size] * 3, seconds)
        assert pace.size == FULL // 8
    for seconds, size in ((1.99, FULL // 4), (8.01, FULL // 16)):
        pace = WindowSizer(FULL)
        _sent(pace, [pace.size], seconds)
        assert pace.size == size


def test_small_windows_that_are_acknowledged_at_once_do_not_make_windows_larger() -> None:
    pace = WindowSizer(FULL)
    _sent(pace, [200] * 100, 0.01)
    assert pace.size == FULL // 8


def test_windows_that_wait_behind_others_are_not_slow() -> None:
    pace = WindowSizer(FULL)
    _sent(pace, [FULL // 8] * 16, 1.9)
    assert pace.size == FULL // 4


def test_a_backlog_arrives_over_a_slow_link_that_breaks_now_and_then() -> None:
    """A window of 4 MiB would take minutes here: longer than any connection lasts."""

    async def main() -> None:
        world = World()
        link = world.network.link("agent", "reader")
        link.capacity = 16 * KIB
        await world.reader(model=_SlowReader())
        noise = Random(1)
        # hardly to be packed
        world.write(b"".join(b64encode(noise.randbytes(300)) + b"\n" for _ in range(10_000)))
        world.start()
        for _ in range(10):
            await world.clock.sleep(60)
            world.network.cut("agent")
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


class _SlowReader(ReaderModel):
    """A receiver that reads 20 KiB a second."""

    async def accept(self, stream: ByteStream) -> None:
        await super().accept(_Slow(stream))


class _Slow:
    def __init__(self, stream: ByteStream) -> None:
        self._stream, self.peer = stream, stream.peer
        self.write, self.close, self.abort = stream.write, stream.close, stream.abort
        self.refuse_more = stream.refuse_more

    async def read(self) -> bytes:
        data = await self._stream.read()
        await asyncio.sleep(len(data) / (20 * KIB))
        return data
