"""`CertificateWatch`: certificates that change on the disk are taken; those that end are told."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import structlog
from cryptography.x509.oid import ExtendedKeyUsageOID
from structlog.testing import capture_logs

from agent.config.config import AgentConfig
from agent.delivery.certificate_watch import CertificateWatch
from logdrive.net.certificates import issue_authority, issue_certificate
from logdrive.net.settings import ClientTlsConfig, ServerTlsConfig
from tests.agent.world import World, contents, lines
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import EPOCH_MS, VirtualClock, run

TLS = {"ca": "/tls/ca.pem", "cert": "/tls/client.pem", "key": "/tls/client.key"}
_NOW = datetime.fromtimestamp(EPOCH_MS / 1000, UTC)
_CA = issue_authority("CA", now=_NOW, days=800)


def put(disk: MemoryDisk, path: str, data: bytes) -> None:
    """Replace a file, as renewals do."""
    if path in disk.paths():
        disk.remove(path)
    disk.write(path, data)


def renewed(disk: MemoryDisk, *, days: int = 400, halves: str = "both") -> None:
    """Write a certificate of our CA and its key, or only the one half."""
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    ours = issue_certificate(_CA, "agent", ["agent"], usage=usage, now=_NOW, days=days)
    if halves in ("both", "cert"):
        put(disk, TLS["cert"], ours.certificate_pem)
    if halves in ("both", "key"):
        put(disk, TLS["key"], ours.key_pem)


def certified(world: World) -> None:
    """Give the agent of *world* a CA, a certificate and a key."""
    world.disk.make_directory("/tls")
    put(world.disk, TLS["ca"], _CA.certificate_pem)
    renewed(world.disk)
    world.settings["output"]["tls"] = TLS


def watching(
    disk: MemoryDisk, clock: VirtualClock, on_change: Callable[[], None]
) -> CertificateWatch:
    """Return a watch of files that are there, which was not used yet."""
    put(disk, TLS["ca"], _CA.certificate_pem)
    renewed(disk)
    log = structlog.get_logger("agent")
    return CertificateWatch(
        lambda: ClientTlsConfig(**TLS), on_change, disk=disk, clock=clock, log=log
    )


def reason_after(change: Callable[[MemoryDisk], None]) -> str:
    """Return why the files can't be used after *change*, as a watch logs it."""

    async def main() -> str:
        disk = MemoryDisk(["/tls"])
        watch = watching(disk, VirtualClock(), lambda: None)
        watch.look()
        change(disk)
        with capture_logs() as log:
            watch.look(at_once=True)
        (reason,) = (line["reason"] for line in log)
        return str(reason)

    return run(main())


async def reader_with_tls(world: World) -> Any:
    reader = await world.reader()
    host = world.network.host("reader")
    await next(iter(host.listeners.values())).close()
    server = ServerTlsConfig(cert="server.pem", key="server.key", ca="ca.pem")
    await host.listen(
        "0.0.0.0", 5044, server.settings(("logdrive/1.packed", "logdrive/1")), reader.accept
    )
    return reader


def levels(log: list[Any], level: str) -> list[str]:
    return [line["event"] for line in log if line["log_level"] == level]


def test_renewed_certificates_are_used_with_nothing_sent_again() -> None:
    async def main() -> None:
        world = World()
        certified(world)
        reader = await reader_with_tls(world)
        reader.ack_seconds = 2.0
        world.write(lines(0, 10))
        world.start(log=structlog.get_logger("agent"))
        await world.clock.sleep(45)
        assert reader.connections == 1
        renewed(world.disk)
        with capture_logs() as log:
            for number in range(60):
                world.write(lines(10 + number, 1))
                await world.clock.sleep(1)
        await world.settle()
        assert reader.connections == 2
        assert reader.refused_runs == 0
        assert contents(world.stored()) == [lines(0, 70)]
        assert levels(log, "warning") == []
        await world.stop()

    run(main())


def test_a_reload_takes_renewed_certificates_at_once() -> None:
    async def main() -> None:
        world = World()
        certified(world)
        reader = await reader_with_tls(world)
        agent = world.start()
        await world.clock.sleep(5)
        renewed(world.disk)
        await agent.reload(msgspec.convert(world.settings, AgentConfig))
        await world.clock.sleep(1)
        assert reader.connections == 2
        await world.stop()

    run(main())


def test_a_half_written_pair_is_waited_for() -> None:
    async def main() -> None:
        world = World()
        certified(world)
        reader = await reader_with_tls(world)
        world.start(log=structlog.get_logger("agent"))
        await world.clock.sleep(5)
        with capture_logs() as log:
            renewed(world.disk, halves="cert")
            await world.clock.sleep(300)
            assert levels(log, "warning") == [
                "certificates have changed and can't be used: the former ones are"
            ]
            world.disk.remove(TLS["key"])
            await world.clock.sleep(300)
            assert reader.connections == 1
            renewed(world.disk)
            await world.clock.sleep(70)
            assert reader.connections == 2
        await world.stop()

    run(main())


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ("ca", "/tls/ca.pem: it must hold the CA's certificate in PEM form"),
        ("cert", "/tls/client.pem: it must hold the certificate, then those that signed it, in"),
        ("key", "/tls/client.key: it must hold the certificate's private key in PEM form, without"),
    ],
)
def test_the_file_that_is_damaged_is_named(damaged: str, said: str) -> None:
    def damage(disk: MemoryDisk) -> None:
        put(disk, TLS[damaged], b"-----BEGIN PRIVATE KEY-----\nhalf")

    reason = reason_after(damage)
    assert reason.startswith(said)
    assert "http" not in reason


def test_a_key_of_another_certificate_is_named() -> None:
    reason = reason_after(lambda disk: renewed(disk, halves="key"))
    assert reason == "/tls/client.key: it is not the private key of the certificate"


def test_certificates_are_taken_only_once_they_rest() -> None:
    async def main() -> None:
        disk, changes, taken = MemoryDisk(["/tls"]), itertools.count(), list[int]()
        watch = watching(disk, VirtualClock(), lambda: taken.append(next(changes)))
        watch.look()
        for _ in range(5):
            renewed(disk)
            watch.look()
        assert taken == []
        watch.look()
        watch.look()
        assert taken == [0]

    run(main())


def test_a_certificate_that_ends_soon_is_warned_of_once_a_day_until_it_is_renewed() -> None:
    async def main() -> None:
        disk, clock = MemoryDisk(["/tls"]), VirtualClock()
        watch = watching(disk, clock, lambda: None)
        renewed(disk, days=100)
        told: list[tuple[int, str]] = []
        for hour in range(0, 105 * 24, 2):
            with capture_logs() as log:
                watch.look()
            told += [(hour // 24, event) for event in levels(log, "warning")]
            await clock.sleep(2 * 3600)
        soon = [day for day, event in told if event == "a certificate ends soon"]
        ended = [day for day, event in told if event == "a certificate has ended"]
        assert soon == list(range(80, 100)), "a fifth of its life, once a day"
        assert ended == list(range(100, 105))
        renewed(disk, days=700)
        with capture_logs() as log:
            for _ in range(3):
                watch.look()
        assert levels(log, "warning") == []

    run(main())


def test_a_short_lived_certificate_is_warned_of_in_the_last_fifth_of_its_life() -> None:
    async def main() -> None:
        disk, clock = MemoryDisk(["/tls"]), VirtualClock()
        watch = watching(disk, clock, lambda: None)
        renewed(disk, days=1)
        with capture_logs() as log:
            watch.look()
            await clock.sleep(timedelta(hours=18).total_seconds())
            watch.look()
            assert log == []
            await clock.sleep(timedelta(hours=2).total_seconds())
            watch.look()
        assert [line["file"] for line in log] == [TLS["cert"]]

    run(main())
