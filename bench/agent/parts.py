"""What the parts of an agent's work cost that ships packs: each alone, in this process, one thread.

Beside `end_to_end.packed.sender_cpu` they show where the agent's time goes. What they do not cover
is the event loop, the hand-over to worker threads, acknowledgements, and the Python code of a run.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from zlib import crc32

from isal import isal_zlib

from bench.measure import Benchmark, Sample, Setting
from bench.peers import c_tools
from bench.processes import BenchmarkError, Child, family, free_port, wait_for_listener
from logdrive.host.transport import ClientTls
from logdrive.kernel.loops import count_lines
from logdrive.model import records
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import number_of
from logdrive.model.units import KIB
from logdrive.net.tcp import SystemTransport
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.records.pack_sizes import LARGE_TEXT_BYTES
from logdrive.wire.lumberjack.frames import RunFrame, WindowFrame, pack_frame

_WRITE_BYTES: Final = 64 * KIB
"""Bytes that the agent gives to a connection at once."""
_ROUNDS: Final = 5
"""Rounds over the log; the fastest counts."""


def _chunks(log: bytes) -> list[bytes]:
    """Return *log* in the chunks that an agent reads, each whole lines."""
    chunks, start = list[bytes](), 0
    while start < len(log):
        whole = len(log) - start <= LARGE_TEXT_BYTES
        end = len(log) if whole else log.rindex(b"\n", start, start + LARGE_TEXT_BYTES) + 1
        chunks.append(log[start:end])
        start = end
    return chunks


def _fastest(work: Callable[[], object], lines: int) -> Sample:
    """Return µs of CPU a line of the fastest round of *work*."""
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        work()
        rounds.append(time.process_time() - began)
    return Sample(min(rounds) / lines * 1e6, "µs/line")


def _read(setting: Setting, chunks: list[bytes]) -> None:
    """Read the log as an agent does, with the bytes before each chunk."""
    handle, at = os.open(setting.log, os.O_RDONLY), 0
    try:
        for chunk in chunks:
            before = min(at, TAIL_BYTES)
            os.pread(handle, before + LARGE_TEXT_BYTES, at - before)
            at += len(chunk)
    finally:
        os.close(handle)


def _count(chunks: list[bytes]) -> None:
    for chunk in chunks:
        chunk.rfind(b"\n")
        count_lines(chunk, 0, len(chunk))


def _check(chunks: list[bytes]) -> None:
    """Compare the bytes before each chunk, and make its number."""
    for chunk in chunks:
        crc32(chunk[:TAIL_BYTES])
        number_of(len(chunk), chunk[-TAIL_BYTES:])


def _sum(chunks: list[bytes]) -> None:
    for chunk in chunks:
        isal_zlib.crc32(chunk)


def _pack(chunks: list[bytes], codec: PackCodec) -> list[bytes]:
    return [make_pack(PackForm.TEXT, chunk, codec) for chunk in chunks]


def _frames(packs: list[bytes]) -> list[list[bytes]]:
    """Return the windows of *packs*, one of each, as parts to write."""
    run = partial(RunFrame, 0, records.DATA, 0, 1, 0, 0, 1, 1)
    return [
        [WindowFrame(1).encode(), run().encode(), *map(bytes, pack_frame(1, pack))]
        for pack in packs
    ]


async def _send(setting: Setting, port: int, windows: list[list[bytes]]) -> float:
    """Return the CPU seconds that writing *windows* takes this process, its kernel's included."""
    made = setting.certificates
    tls = ClientTls(str(made.ca), str(made.client_cert), str(made.client_key), "localhost")
    stream = await SystemTransport().connect("127.0.0.1", port, tls)
    began = time.process_time()
    for window in windows:
        head, body = b"".join(window[:-1]), window[-1]
        await stream.write([head, body[:_WRITE_BYTES]])
        for at in range(_WRITE_BYTES, len(body), _WRITE_BYTES):
            await stream.write([body[at : at + _WRITE_BYTES]])
    used = time.process_time() - began
    await stream.close()
    return used


def _tls(setting: Setting, windows: list[list[bytes]]) -> Sample:
    """Send *windows* over mutual TLS to a process that reads and forgets them."""
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        port = free_port()
        with family() as children:
            command = c_tools.tls_server(port, setting.certificates)
            server = Child(command, log=setting.work / "agent_parts.err")
            children.append(server)
            wait_for_listener(port, server)
            rounds.append(asyncio.run(_send(setting, port, windows)))
    return Sample(min(rounds) / setting.lines * 1e6, "µs/line")


def _run(setting: Setting) -> Mapping[str, Sample]:
    log, lines = setting.log.read_bytes(), setting.lines
    chunks = _chunks(log)
    if sum(map(len, chunks)) != len(log):
        raise BenchmarkError("the chunks are not the log")
    packs = _pack(chunks, PackCodec.DEFLATE)
    windows = _frames(packs)
    figures = {
        "read": _fastest(partial(_read, setting, chunks), lines),
        "count": _fastest(partial(_count, chunks), lines),
        "check": _fastest(partial(_check, chunks), lines),
        "crc": _fastest(partial(_sum, chunks), lines),
        "pack": _fastest(partial(_pack, chunks, PackCodec.DEFLATE), lines),
        "pack_zstd": _fastest(partial(_pack, chunks, PackCodec.ZSTD), lines),
        "frame": _fastest(partial(_frames, packs), lines),
        "tls": _tls(setting, windows),
    }
    return figures | {"chunk": Sample(lines / len(chunks), "lines")}


BENCHMARKS = (
    Benchmark(
        "agent.parts",
        "The parts of shipping packs, each alone: CPU a line; `pack` has `crc` in it",
        _run,
        c_tools.missing,
    ),
)
