"""What an idle connection costs a receiver: memory, over mutual TLS.

One run: a receiver with a new store, and connections that say nothing once they have shaken hands,
made as agents make them. The first ones are not counted: they bring what all share.
"""

import asyncio
import shutil
from collections.abc import Mapping
from typing import Final

from bench.agent.idle import resident
from bench.certificates import Certificates
from bench.commands import LOGDRIVE, receiver_config
from bench.measure import Benchmark, Sample, Setting
from bench.processes import Child, family, free_port, wait_for_listener
from logdrive.cli.runtime import raise_open_files_limit
from logdrive.host.transport import ByteStream, ClientTls
from logdrive.net.tcp import SystemTransport

CONNECTIONS: Final = 1_000
_FIRST: Final = 50
_SETTLING_SECONDS: Final = 2.0


async def _connected(port: int, tls: Certificates, count: int) -> list[ByteStream]:
    settings = ClientTls(
        str(tls.ca), str(tls.client_cert), str(tls.client_key), "localhost", ("logdrive/1",)
    )
    transport = SystemTransport()
    streams: list[ByteStream] = [
        await transport.connect("127.0.0.1", port, settings) for _ in range(count)
    ]
    await asyncio.sleep(_SETTLING_SECONDS)
    return streams


async def _measured(port: int, tls: Certificates, receiver: Child) -> Mapping[str, Sample]:
    streams = await _connected(port, tls, _FIRST)
    before, began = resident(receiver, "VmRSS"), receiver.cpu_seconds()
    streams += await _connected(port, tls, CONNECTIONS)
    grown, used = resident(receiver, "VmRSS") - before, receiver.cpu_seconds() - began
    for stream in streams:
        stream.abort()
    return {
        "rss": Sample(1024 * grown / CONNECTIONS, "KiB a connection"),
        "cpu": Sample(1000 * used / CONNECTIONS, "ms a handshake"),
    }


def _run(setting: Setting) -> Mapping[str, Sample]:
    home = setting.work / "receiver_idle"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    raise_open_files_limit()
    try:
        port, tls = free_port(), setting.certificates
        (home / "receiver.toml").write_text(
            receiver_config(tls, port, f"file://{home}/store#bench/idle")
        )
        with family() as children:
            receiver = Child(
                [*LOGDRIVE, "receiver", "run", "--config", home / "receiver.toml"],
                log=home / "receiver.err",
            )
            children.append(receiver)
            wait_for_listener(port, receiver, 60)
            return asyncio.run(_measured(port, tls, receiver))
    finally:
        shutil.rmtree(home, ignore_errors=True)


BENCHMARKS = (
    Benchmark(
        "receiver.idle",
        f"logdrive receiver: {CONNECTIONS:,} TLS connections with client certificates, all idle",
        _run,
    ),
)
