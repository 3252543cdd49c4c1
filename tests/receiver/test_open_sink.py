"""What a receiver opens for its sink's URI, and what it refuses to start with."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from logdrive.errors import ConfigError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.net.settings import ClientTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.grpc_extra import connect_controller
from receiver.config import ListenConfig, ReceiverConfig, SinkConfig
from receiver.open_sink import open_sink


def test_certificates_that_can_not_be_loaded_end_the_start_at_once(tmp_path: Path) -> None:
    tls = ClientTlsConfig(ca=str(tmp_path / "missing.pem"))
    sink = SinkConfig(uri="pravega://127.0.0.1:1/logs/events", tls=tls)
    config = ReceiverConfig(listen=ListenConfig(address="127.0.0.1:0", tls="off"), sink=sink)

    async def start() -> None:
        sinks = open_sink(
            config,
            host=Host(
                clock=SystemClock(),
                disk=SystemDisk(),
                transport=SystemTransport(),
                executor=ThreadExecutor("unused"),
                random=Random(1),
            ),
            stop=asyncio.Event(),
            controllers=connect_controller,
        )
        async with asyncio.timeout(30), sinks:
            pytest.fail("it started")

    with pytest.raises(ConfigError, match=r"missing\.pem"):
        asyncio.run(start())
