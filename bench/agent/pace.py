"""An agent whose file gets lines at a steady pace: its memory, and how soon a line is acknowledged.

*Steady*: 10 MB/s into one file. *Trickle*: one line at a time, to an agent at rest. The clock
starts when the line is written, and stops when the receiver's acknowledgement comes past a relay
between the two programs, which therefore do without TLS.
"""

import asyncio
import statistics
import time
from collections.abc import Mapping
from typing import Final

from bench.agent.programs import programs, resident_mb, wait_until_told
from bench.measure import Benchmark, Sample, Setting, percentile
from bench.processes import BenchmarkError, free_port
from logdrive.wire.lumberjack.frames import AckFrame
from logdrive.wire.lumberjack.limits import LOGDRIVE_1
from logdrive.wire.lumberjack.reader import FrameReader

_PACE: Final = 10_000_000
"""Bytes a second."""
_TICK_SECONDS: Final = 0.02
_SECONDS: Final = 20.0
_UNCOUNTED_SECONDS: Final = 5.0

_LINES: Final = 100
_APART_SECONDS: Final = 0.23
_UNCOUNTED_LINES: Final = 5
_PATIENCE_SECONDS: Final = 30.0


def _run_steady(setting: Setting) -> Mapping[str, Sample]:
    text = setting.log.read_bytes()
    piece, at = int(_PACE * _TICK_SECONDS), 0
    resident = list[float]()
    with (
        programs(setting, "agent_steady") as running,
        (running.logs / "app.log").open("ab", buffering=0) as file,
    ):
        agent = running.start_agent()
        wait_until_told(agent, b"files found", _PATIENCE_SECONDS)
        began, used = time.monotonic(), 0.0
        ticks, uncounted = (
            int(seconds / _TICK_SECONDS) for seconds in (_SECONDS, _UNCOUNTED_SECONDS)
        )
        for tick in range(ticks):
            if tick == uncounted:
                used = agent.cpu_seconds()
            file.write(text[at : at + piece])
            at = at + piece if at + 2 * piece <= len(text) else 0
            if tick >= uncounted and tick % 50 == 0:
                resident.append(resident_mb(agent))
            time.sleep(max(0.0, began + (tick + 1) * _TICK_SECONDS - time.monotonic()))
        used, peak = agent.cpu_seconds() - used, agent.peak_rss()
        running.end(agent)
    return {
        "rss": Sample(statistics.median(resident), "MB"),
        "peak_rss": Sample(peak / 1e6, "MB"),
        "cpu": Sample(100 * used / (_SECONDS - _UNCOUNTED_SECONDS), "% of a core"),
    }


class _Relay:
    """Passes bytes on between agent and receiver, and notes acknowledgements."""

    def __init__(self, receiver: int) -> None:
        self._receiver = receiver  # port
        self.acknowledged = asyncio.Event()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the agent."""
        from_receiver, to_receiver = await asyncio.open_connection("127.0.0.1", self._receiver)
        frames = FrameReader(LOGDRIVE_1, side="writer", dialect="logdrive/1")

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(1 << 16):
                target.write(data)
                if source is from_receiver and any(
                    isinstance(frame, AckFrame) and frame.sequence
                    for frame in frames.receive_data(data)
                ):
                    self.acknowledged.set()
                await target.drain()
            target.close()

        await asyncio.gather(
            pass_on(reader, to_receiver), pass_on(from_receiver, writer), return_exceptions=True
        )


async def _trickle(setting: Setting) -> list[float]:
    """Return how long each line waited for its acknowledgement, in seconds."""
    waited = list[float]()
    with (
        programs(setting, "agent_trickle", tls=False) as running,
        (running.logs / "app.log").open("ab", buffering=0) as file,
    ):
        relay, port = _Relay(running.port), free_port()
        server = await asyncio.start_server(relay.accept, "127.0.0.1", port)
        async with server:
            agent = running.start_agent(plain_port=port)
            await asyncio.to_thread(wait_until_told, agent, b"connected", _PATIENCE_SECONDS)
            for number in range(_UNCOUNTED_LINES + _LINES):
                await asyncio.sleep(_APART_SECONDS)
                relay.acknowledged.clear()
                began = time.monotonic()
                file.write(b"line %06d is the only one for a while\n" % number)
                try:
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        await relay.acknowledged.wait()
                except TimeoutError:
                    raise BenchmarkError(f"no acknowledgement: {agent.said()}") from None
                waited.append(time.monotonic() - began)
            await asyncio.to_thread(running.end, agent)
    return waited[_UNCOUNTED_LINES:]


def _run_trickle(setting: Setting) -> Mapping[str, Sample]:
    waited = asyncio.run(_trickle(setting))
    return {
        "p50": Sample(percentile(waited, 0.5) * 1e3, "ms"),
        "p99": Sample(percentile(waited, 0.99) * 1e3, "ms"),
    }


BENCHMARKS = (
    Benchmark("agent.steady", f"logdrive agent: {_PACE / 1e6:g} MB/s into one file", _run_steady),
    Benchmark(
        "agent.trickle",
        "logdrive agent: a line written to its acknowledgement, one at a time",
        _run_trickle,
    ),
)
