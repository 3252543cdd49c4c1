"""A receiver tells of its own certificates that end: at its start, and once a day."""

import asyncio
from datetime import UTC, datetime, timedelta

from structlog.testing import capture_logs

from logdrive.net.certificates import issue_authority
from logdrive.net.settings import ServerTlsConfig
from tests.receiver.world import configuration, in_virtual_time, receiver
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import EPOCH_MS

_TLS = ServerTlsConfig(cert="/server.pem", key="/server.key", ca="/ca.pem")


@in_virtual_time
async def test_a_receiver_whose_ca_ends_soon_says_so_at_its_start_and_each_day() -> None:
    now = datetime.fromtimestamp(EPOCH_MS / 1000, UTC)
    disk = MemoryDisk()
    made = issue_authority("CA", now=now - timedelta(days=98), days=100)
    disk.write("/ca.pem", made.certificate_pem)
    with capture_logs() as said:
        async with receiver(disk=disk, config=configuration(tls=_TLS)):
            await asyncio.sleep(3.5 * 86_400)
    told = [one["event"] for one in said if one.get("file") == "/ca.pem"]
    assert told == ["a certificate ends soon"] * 2 + ["a certificate has ended"] * 2
