"""How long a writer of `logdrive/1` waits for an acknowledgement, and the receiver's CPU time.

The windows are made beforehand, so the writer costs next to nothing and the receiver is the only
one that works. A window holds one pack, some 3,800 lines, or a run of three blocks, some 4,000. One
is in flight: the wait is a round trip with one fdatasync in it. Eight are: the receiver is never
idle, and each window waits for those before it.
"""

import asyncio
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from bench.codec import block_stream, pack_stream
from bench.commands import LOGDRIVE, receiver_config
from bench.measure import Benchmark, Sample, Setting, percentile
from bench.processes import (
    BenchmarkError,
    Child,
    demand_success,
    family,
    free_port,
    wait_for_listener,
)
from logdrive.host.transport import ByteStream, ClientTls
from logdrive.net.tcp import SystemTransport
from logdrive.wire.lumberjack.frames import AckFrame, Frame, PositionFrame
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, NATIVE, PACKED
from logdrive.wire.lumberjack.reader import FrameReader

_Stream = Callable[[bytes], Iterator[bytes]]
"""Makes what is sent for a text: S, then the windows."""

_ONE_BY_ONE = 100  # windows of the benchmark that has one in flight


class _Writer:
    """Sends windows and measures how long each waits for its acknowledgement."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._reader = FrameReader(LOGDRIVE_1, side="writer", dialect="logdrive/1")
        self.waited: list[float] = []

    async def _frames(self) -> list[Frame]:
        data = await self._stream.read()
        if not data:
            raise BenchmarkError("the receiver closed the connection")
        return self._reader.receive_data(data)

    async def register(self, source: bytes) -> None:
        """Send S and wait for its P."""
        await self._stream.write([source])
        while not any(isinstance(frame, PositionFrame) for frame in await self._frames()):
            pass

    async def send(self, windows: list[bytes], in_flight: int) -> None:
        """Send *windows*, with at most *in_flight* of them unacknowledged."""
        sent: deque[float] = deque()
        for window in windows:
            if len(sent) == in_flight:
                await self._acknowledged(sent)
            sent.append(time.monotonic())
            await self._stream.write([window])
        while sent:
            await self._acknowledged(sent)

    async def _acknowledged(self, sent: deque[float]) -> None:
        """Wait for at least one acknowledgement; each is for one window, in order."""
        before = len(sent)
        while len(sent) == before:
            for frame in await self._frames():
                if isinstance(frame, AckFrame) and frame.sequence:
                    self.waited.append(time.monotonic() - sent.popleft())


async def _talk(setting: Setting, port: int, stream: list[bytes], in_flight: int) -> list[float]:
    made = setting.certificates
    tls = ClientTls(
        str(made.ca), str(made.client_cert), str(made.client_key), "localhost", (PACKED, NATIVE)
    )
    connection = await SystemTransport().connect("127.0.0.1", port, tls)
    writer = _Writer(connection)
    await writer.register(stream[0])
    await writer.send(stream[1:], in_flight)
    await connection.close()
    return writer.waited


def _run(setting: Setting, make_stream: _Stream, in_flight: int) -> Mapping[str, Sample]:
    home = setting.work / "acknowledgement"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    stream = list(make_stream(setting.log.read_bytes()))
    if in_flight == 1:
        stream = stream[: 1 + _ONE_BY_ONE]
    port = free_port()
    (home / "receiver.toml").write_text(
        receiver_config(setting.certificates, port, f"file://{home}/store#bench/nginx")
    )
    try:
        with family() as children:
            receiver = Child(
                [*LOGDRIVE, "receiver", "run", "--config", home / "receiver.toml"],
                log=home / "receiver.err",
            )
            children.append(receiver)
            wait_for_listener(port, receiver, 60)
            used = receiver.cpu_seconds()
            waited = asyncio.run(_talk(setting, port, stream, in_flight))
            used = receiver.cpu_seconds() - used
            receiver.ask_to_end()
            receiver.wait(60)
            demand_success([receiver])
    finally:
        shutil.rmtree(home, ignore_errors=True)
    figures = {
        "p50": Sample(percentile(waited, 0.5) * 1e3, "ms"),
        "p99": Sample(percentile(waited, 0.99) * 1e3, "ms"),
    }
    return (
        figures
        if in_flight == 1
        else figures | {"receiver_cpu": Sample(used / setting.lines * 1e6, "µs/line")}
    )


BENCHMARKS = tuple(
    Benchmark(
        f"acknowledgement.{form}{short}",
        f"Acknowledgement after fdatasync, {what} over logdrive/1: {told}",
        partial(_run, make_stream=stream, in_flight=in_flight),
    )
    for form, what, stream in (("", "packs", pack_stream), ("blocks_", "blocks", block_stream))
    for in_flight, short, told in (
        (1, "one_in_flight", "one window"),
        (8, "eight_in_flight", "eight windows in flight without a pause"),
    )
)
