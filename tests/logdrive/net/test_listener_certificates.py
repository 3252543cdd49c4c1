"""`warn_of_ends`: certificates of a listener that end are told before, once a day."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from cryptography.x509.oid import ExtendedKeyUsageOID
from structlog.testing import capture_logs

from logdrive.net.certificates import issue_authority, issue_certificate
from logdrive.net.listener_certificates import warn_of_ends
from logdrive.net.settings import ServerTlsConfig
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import EPOCH_MS, VirtualClock, run

TLS = ServerTlsConfig(cert="/server.pem", key="/server.key", ca="/ca.pem")
_NOW = datetime.fromtimestamp(EPOCH_MS / 1000, UTC)
_DAY = 86_400


def _disk(*, days: int, ca_days: int = 800, began: timedelta = timedelta()) -> MemoryDisk:
    """Return a disk with a certificate that has so many days, and a CA."""
    authority = issue_authority("CA", now=_NOW - began, days=ca_days)
    ours = issue_certificate(
        authority,
        "logs.example.com",
        ["logs.example.com"],
        usage=ExtendedKeyUsageOID.SERVER_AUTH,
        now=_NOW - began,
        days=days,
    )
    disk = MemoryDisk()
    disk.write(TLS.cert, ours.certificate_pem)
    disk.write("/ca.pem", authority.certificate_pem)
    return disk


def _told(disk: MemoryDisk, days: float) -> list[Any]:
    """Return what is told of the files on *disk* in so many days."""

    async def wait() -> None:
        log = structlog.get_logger("receiver")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(days * _DAY):
                await warn_of_ends([TLS, TLS], disk=disk, clock=VirtualClock(), log=log)

    with capture_logs() as said:
        run(wait())
    return said


def test_one_that_ends_is_told_from_three_weeks_before_once_a_day_and_of_its_end() -> None:
    said = _told(_disk(days=200, began=timedelta(days=177)), 25.5)
    assert [told["event"] for told in said] == [
        *["a certificate ends soon"] * 21,
        *["a certificate has ended"] * 3,
    ]
    assert {(told["file"], told["log_level"]) for told in said} == {("/server.pem", "warning")}
    assert said[0]["ends"] == f"{_NOW + timedelta(days=23):%Y-%m-%d %H:%M} UTC"
    assert "next connection" in said[0]["remedy"]


def test_one_that_was_renewed_is_told_of_no_more() -> None:
    disk, renewed = _disk(days=200, began=timedelta(days=190)), _disk(days=400)

    async def renew() -> None:
        log = structlog.get_logger("receiver")
        async with asyncio.timeout(2.5 * _DAY), asyncio.TaskGroup() as group:
            group.create_task(warn_of_ends([TLS], disk=disk, clock=VirtualClock(), log=log))
            await asyncio.sleep(_DAY / 2)
            disk.remove(TLS.cert)
            disk.write(TLS.cert, renewed.open(TLS.cert).pread(1 << 20, 0))

    with capture_logs() as said, pytest.raises(TimeoutError):
        run(renew())
    assert [told["event"] for told in said] == ["a certificate ends soon"]


def test_a_ca_that_has_ended_is_told_at_the_start() -> None:
    said = _told(_disk(days=400, ca_days=30, began=timedelta(days=31)), 0.5)
    assert [(told["event"], told["file"]) for told in said] == [
        ("a certificate has ended", "/server.pem"),  # it never outlives its CA
        ("a certificate has ended", "/ca.pem"),
    ]


def test_good_ones_and_files_that_are_no_certificates_are_not_told_of() -> None:
    assert _told(_disk(days=400), 5) == []
    nonsense = MemoryDisk()
    nonsense.write("/ca.pem", b"nonsense")
    assert _told(nonsense, 2) == []
