"""`receiver check` finds what would make a start fail, says what durable means (rule S1), and
leaves no files behind.
"""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import msgspec
import pytest

from logdrive.address import s2_address
from logdrive.check import Finding
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.net.certificates import issue_authority, write_certificates
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.passwords import hash_password
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.server.config import IggyFaceConfig
from logdrive.services.iggy.topics import ensure_topic
from logdrive.services.numbering.segments import open_numbering
from logdrive.services.pravega.server.config import ControllerConfig, PravegaFaceConfig
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import target_of
from logdrive.services.s2.server.config import S2FaceConfig
from logdrive.services.s2.server.listen import serve_s2
from logdrive.store.config import RetentionConfig
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from logdrive.wire.iggy.requests import CreateUser
from logdrive.wire.s2.records import AppendInput, Record
from receiver.check import check_receiver
from receiver.config import ListenConfig, ReceiverConfig, SinkConfig
from tests.support.disks.tmpfs import tmpfs
from tests.support.iggy.servers import REVISIONS as IGGY_REVISIONS
from tests.support.iggy.servers import ServerRevision, iggy_server
from tests.support.pki import Pki


def _config(
    store: Path, *, address: str = "127.0.0.1:0", tls: ServerTlsConfig | None = None
) -> ReceiverConfig:
    listen = ListenConfig(
        address=address, tls=tls or "off", pravega=PravegaFaceConfig(address="127.0.0.1:0")
    )
    return ReceiverConfig(listen=listen, sink=SinkConfig(uri=f"file://{store}#a/b"))


def _found(config: ReceiverConfig) -> dict[str, Finding]:
    findings = asyncio.run(
        check_receiver(config, clock=SystemClock(), disk=SystemDisk(), transport=SystemTransport())
    )
    return {finding.name: finding for finding in findings}


def test_a_sound_configuration_passes_and_nothing_is_left_behind(tmp_path: Path) -> None:
    found = _found(_config(tmp_path / "deep" / "store"))
    assert all(finding.ok for finding in found.values()), found
    assert "one copy, on one disk" in found["durability"].detail
    assert list(tmp_path.iterdir()) == []


def test_a_receiver_that_unpacks_is_told_what_it_costs(tmp_path: Path) -> None:
    config = _config(tmp_path / "store")
    assert "sink.unpack" not in _found(config)
    for unpack, form in (("blocks", "many lines a record"), ("full", "a JSON record a line")):
        sink = msgspec.structs.replace(config.sink, unpack=unpack)
        told = _found(msgspec.structs.replace(config, sink=sink))["sink.unpack"].detail
        assert form in told
        assert "several times the disk and CPU" in told


def test_what_becomes_of_old_lines_is_told(tmp_path: Path) -> None:
    config = _config(tmp_path / "store")
    assert "keeps all that it is sent" in _found(config)["retention"].detail
    tables = (
        RetentionConfig(stream="other/*", max_bytes=1),
        RetentionConfig(
            stream="a/*", max_bytes=2_000_000, max_age_seconds=2_592_000, readers=("pipeline",)
        ),
    )
    told = _found(msgspec.structs.replace(config, retention=tables))["retention"].detail
    assert told == (
        "at most 2,000,000 bytes and nothing older than 2,592,000 s of a/b is kept; what "
        "pipeline has not read stays"
    )


def test_a_port_in_use_is_found(tmp_path: Path) -> None:
    async def with_the_port_taken() -> list[Finding]:
        transport = SystemTransport()
        listener = await transport.listen("127.0.0.1", 0, None, _never)
        try:
            config = _config(tmp_path, address=f"127.0.0.1:{listener.address[1]}")
            return await check_receiver(
                config, clock=SystemClock(), disk=SystemDisk(), transport=transport
            )
        finally:
            await listener.close()

    found = {finding.name: finding for finding in asyncio.run(with_the_port_taken())}
    assert not found["listen.address"].ok
    assert "another program listens there" in found["listen.address"].detail


async def _never(stream: object) -> None:
    raise AssertionError(stream)


def test_a_certificate_that_is_missing_or_none_is_found(tmp_path: Path) -> None:
    tls = ServerTlsConfig(
        cert=str(tmp_path / "no.pem"), key=str(tmp_path / "no.key"), clients="any"
    )
    assert "can't be read" in _found(_config(tmp_path, tls=tls))["listen.tls.cert"].detail
    (tmp_path / "no.pem").write_text("nonsense")
    assert "no PEM certificate" in _found(_config(tmp_path, tls=tls))["listen.tls.cert"].detail


def test_all_files_that_are_missing_are_named_at_once(tmp_path: Path) -> None:
    tls = ServerTlsConfig(
        cert=str(tmp_path / "no.pem"), key=str(tmp_path / "no.key"), ca=str(tmp_path / "ca.pem")
    )
    found = _found(_config(tmp_path, tls=tls))
    assert [name for name, finding in found.items() if not finding.ok] == [
        "listen.tls.cert",
        "listen.tls.key",
        "listen.tls.ca",
    ]


def test_a_key_of_another_certificate_is_told_by_its_own_name(tmp_path: Path) -> None:
    write_certificates(
        str(tmp_path), ["logs.example.com"], client="web-1", days=9, now=datetime.now(UTC)
    )
    tls = ServerTlsConfig(
        cert=str(tmp_path / "server.pem"), key=str(tmp_path / "client.key"), clients="any"
    )
    assert _found(_config(tmp_path / "store", tls=tls))["listen.tls.key"].detail.startswith(
        f"{tmp_path}/client.key: it is not the private key"
    )


def test_a_good_certificate_is_shown_with_its_names_and_its_end(tmp_path: Path) -> None:
    made = tmp_path / "tls"
    write_certificates(
        str(made), ["logs.example.com"], client="web-1", days=9, now=datetime.now(UTC)
    )
    tls = ServerTlsConfig(
        cert=str(made / "server.pem"), key=str(made / "server.key"), ca=str(made / "ca.pem")
    )
    found = _found(_config(tmp_path / "store", tls=tls))
    assert found["listen.address"].ok
    assert "logs.example.com" in found["listen.tls.cert"].detail


def test_a_certificate_that_has_ended_is_found(tmp_path: Path) -> None:
    made = tmp_path / "tls"
    write_certificates(
        str(made),
        ["logs.example.com"],
        client="web-1",
        days=9,
        now=datetime.now(UTC) - timedelta(days=30),
    )
    tls = ServerTlsConfig(
        cert=str(made / "server.pem"), key=str(made / "server.key"), clients="any"
    )
    assert "renew it" in _found(_config(tmp_path / "store", tls=tls))["listen.tls.cert"].detail


@pytest.mark.parametrize(
    ("age_days", "ok", "said"),
    [(26, True, "ends at"), (31, False, "has ended at"), (-3, False, "is not valid before")],
)
def test_a_certificate_that_is_not_valid_for_long_is_told_before_a_run(
    tmp_path: Path, age_days: int, ok: bool, said: str
) -> None:
    pki = Pki.make(tmp_path)
    pki.add("mine", ["localhost"], server=True, age_days=age_days)
    tls = ServerTlsConfig(cert=pki.path("mine.pem"), key=pki.path("mine.key"), clients="any")
    finding = _found(_config(tmp_path / "store", tls=tls))["listen.tls.cert"]
    assert (finding.ok, finding.warn) == (ok, ok)
    assert f"mine.pem {said}" in finding.detail


def test_a_ca_that_has_ended_is_found(tmp_path: Path) -> None:
    pki = Pki.make(tmp_path)
    ended = issue_authority("old CA", now=datetime.now(UTC) - timedelta(days=30), days=20)
    (tmp_path / "old.pem").write_bytes(ended.certificate_pem)
    tls = ServerTlsConfig(
        cert=pki.path("server.pem"), key=pki.path("server.key"), ca=pki.path("old.pem")
    )
    finding = _found(_config(tmp_path / "store", tls=tls))["listen.tls.ca"]
    assert not finding.ok
    assert "old.pem has ended at" in finding.detail


def test_files_of_users_and_secrets_that_are_wrong_are_found(tmp_path: Path) -> None:
    users, secret = tmp_path / "users.toml", tmp_path / "secret"
    listen = ListenConfig(
        address="127.0.0.1:0",
        tls="off",
        pravega=PravegaFaceConfig(address="127.0.0.1:0"),
        controller=ControllerConfig(address="127.0.0.1:0"),
        s2=S2FaceConfig(address="127.0.0.1:0"),
        auth=AuthConfig(users=str(users), token_secret=str(secret)),
    )
    config = ReceiverConfig(
        listen=listen, sink=SinkConfig(uri=f"file://{tmp_path}/store#logs/events")
    )
    assert not _found(config)["listen.auth.token_secret"].ok
    secret.write_text("s" * 64)
    assert not _found(config)["listen.auth.users"].ok
    users.write_text(
        f'[[user]]\nname = "fleet"\npassword = "{hash_password("x", b"0" * 16)}"\nmay = {{}}\n'
    )
    found = _found(config)
    assert found["listen.auth"].ok
    assert "passwords too" in found["listen.controller.tls"].detail
    assert "passwords too" in found["listen.s2.tls"].detail
    assert found["listen.s2.address"].ok
    assert "every client that reaches this port may send" in found["listen.tls"].detail


def test_a_face_without_logins_is_warned_of__everyone_on_this_host_may_read(tmp_path: Path) -> None:
    face = _found(_config(tmp_path / "store"))["listen.pravega.tls"]
    assert (face.ok, face.warn) == (True, True)
    assert "every user of this host may read all lines, and append" in face.detail
    assert "[listen.pravega.tls]" in face.detail
    listen = ListenConfig(
        address="127.0.0.1:0",
        tls="off",
        s2=S2FaceConfig(address="0.0.0.0:0", tls="off"),
    )
    open_to_all = _found(
        ReceiverConfig(listen=listen, sink=SinkConfig(uri=f"file://{tmp_path}/store#logs/events"))
    )["listen.s2.tls"]
    assert (open_to_all.ok, open_to_all.warn) == (True, True)
    assert "everyone who reaches this port may read all lines, and append" in open_to_all.detail


@pytest.mark.parametrize("name", ["s2", "iggy"])
def test_the_ports_for_other_clients_are_looked_at_like_pravegas(tmp_path: Path, name: str) -> None:
    async def with_the_port_taken() -> list[Finding]:
        transport = SystemTransport()
        listener = await transport.listen("127.0.0.1", 0, None, _never)
        try:
            taken = f"127.0.0.1:{listener.address[1]}"
            listen = ListenConfig(
                address="127.0.0.1:0",
                tls="off",
                s2=S2FaceConfig(address=taken) if name == "s2" else None,
                iggy=IggyFaceConfig(address=taken) if name == "iggy" else None,
            )
            config = ReceiverConfig(listen=listen, sink=SinkConfig(uri=f"file://{tmp_path}#a/b"))
            return await check_receiver(
                config, clock=SystemClock(), disk=SystemDisk(), transport=transport
            )
        finally:
            await listener.close()

    found = {finding.name: finding for finding in asyncio.run(with_the_port_taken())}
    assert not found[f"listen.{name}.address"].ok
    assert found[f"listen.{name}.tls"].warn


def test_a_store_that_another_process_has_is_found(tmp_path: Path) -> None:
    disk = SystemDisk()
    with disk.lock(str(tmp_path / "lock")):
        assert "another process" in _found(_config(tmp_path))["sink.uri"].detail


def test_a_directory_that_can_not_be_written_is_found(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        assert not _found(_config(tmp_path))["sink.uri"].ok
        return
    with tmpfs(tmp_path / "disk", 1) as disk:  # root may write anywhere else
        disk.remount("ro")
        assert not _found(_config(disk.path))["sink.uri"].ok


def test_a_service_that_answers_and_one_that_does_not__S1(tmp_path: Path) -> None:
    async def both() -> tuple[list[Finding], list[Finding]]:
        disk, clock, transport, executor = (
            SystemDisk(),
            SystemClock(),
            SystemTransport(),
            ThreadExecutor("store"),
        )
        store = await Store.open(str(tmp_path / "store"), disk=disk, executor=executor, clock=clock)
        running = asyncio.create_task(store.run(asyncio.Event()))
        async with serve_segment_store(
            store, "127.0.0.1", 0, None, transport=transport, disk=disk
        ) as (
            _,
            port,
        ):
            listen = ListenConfig(address="127.0.0.1:0", tls="off")
            config = ReceiverConfig(
                listen=listen, sink=SinkConfig(uri=f"pravega://127.0.0.1:{port}/a/b")
            )
            answers = await check_receiver(config, clock=clock, disk=disk, transport=transport)
            assert store.segments() == []
        gone = await check_receiver(config, clock=clock, disk=disk, transport=transport)
        await store.close()
        await running
        executor.close()
        return answers, gone

    answers, gone = asyncio.run(both())
    found = {finding.name: finding for finding in answers}
    assert all(finding.ok for finding in answers), found
    assert "a/b will be made with 4 segments" in found["sink.uri"].detail
    assert "one copy, on one disk" in found["durability"].detail
    assert [finding.name for finding in gone if not finding.ok] == ["sink.uri"]
    assert "a start would wait for it" in gone[-1].detail


def test_s2_is_asked_for_its_stream_and_the_token_is_not_shown(tmp_path: Path) -> None:
    """Once without basin and stream, which stay away; once with a stream; and once without S2."""

    async def ask(uri: str, token: str) -> dict[str, Finding]:
        config = ReceiverConfig(
            listen=ListenConfig(address="127.0.0.1:0", tls="off"),
            sink=SinkConfig(uri=uri, token=token),
        )
        findings = await check_receiver(
            config, clock=SystemClock(), disk=SystemDisk(), transport=SystemTransport()
        )
        assert token not in " ".join(map(str, findings))
        return {finding.name: finding for finding in findings}

    async def all_three() -> list[dict[str, Finding]]:
        clock, disk, executor = SystemClock(), SystemDisk(), ThreadExecutor("store")
        host = Host(clock=clock, disk=disk, transport=SystemTransport(), executor=executor)
        store = await Store.open(str(tmp_path / "store"), disk=disk, executor=executor, clock=clock)
        running = asyncio.create_task(store.run(asyncio.Event()))
        catalog = Catalog(store, clock=clock, random=Random(1))
        async with (
            open_numbering(store, clock=clock) as numbering,
            serve_s2(catalog, numbering, ("127.0.0.1", 0), None, host=host, users=None) as bound,
        ):
            port = bound[1]
            uri = f"s2://127.0.0.1:{port}/my-basin/events"
            before = await ask(uri, "secret-token")
            again = await ask(uri, "secret-token")
            target = target_of(s2_address(uri), tls=None, plain=False, token="", environ={})
            async with S2Client(SystemTransport(), target) as client:
                await client.ensure_stream("events")
                await client.append("events", AppendInput((Record(b"one"),)))
            after = await ask(uri, "secret-token")
        gone = await ask(uri, "secret-token")
        await store.close()
        await running
        executor.close()
        assert before == again
        return [before, after, gone]

    before, after, gone = asyncio.run(all_three())
    assert "answers, by plain TCP" in before["sink.uri"].detail
    one = "one stream whatever `segments` says; dead letters go to events-dead"
    assert f"my-basin/events will be made, {one}" in before["sink.uri"].detail
    assert f"my-basin/events has 1 records, {one}" in after["sink.uri"].detail
    assert "what the service at 127.0.0.1" in after["durability"].detail
    assert not gone["sink.uri"].ok
    assert "a start would wait for it" in gone["sink.uri"].detail


@pytest.mark.parametrize("revision", IGGY_REVISIONS)
def test_iggy_is_asked_for_its_topic_and_the_password_is_not_shown(
    tmp_path: Path, revision: ServerRevision
) -> None:
    """Once without the topic, which stays away; with it; with a wrong password; without Iggy."""

    async def ask(port: int, password: str = "iggy", user: str = "iggy") -> dict[str, Finding]:
        uri = f"iggy://{user}:{password}@127.0.0.1:{port}/logs/events"
        config = ReceiverConfig(
            listen=ListenConfig(address="127.0.0.1:0", tls="off"), sink=SinkConfig(uri=uri)
        )
        findings = await check_receiver(
            config, clock=SystemClock(), disk=SystemDisk(), transport=SystemTransport()
        )
        assert f":{password}@" not in " ".join(map(str, findings))
        return {finding.name: finding for finding in findings}

    async def create(port: int) -> None:
        session = await open_session(SystemTransport(), IggyTarget("127.0.0.1", port))
        await ensure_topic(session, "logs", "events", 2)
        if revision != "R0":
            await session.request(CreateUser("nobody", "without-rights"))
        await session.close()

    with iggy_server(revision, tmp_path / "iggy") as server:
        for _ in range(2):
            before = asyncio.run(ask(server.port))
            assert "logs/events will be made with 4 partitions" in before["sink.uri"].detail
        asyncio.run(create(server.port))
        after = asyncio.run(ask(server.port))
        assert "logs/events has 2 partitions" in after["sink.uri"].detail
        assert after["durability"].warn
        assert "messages in memory" in after["durability"].detail
        if revision != "R0":  # it knows no passwords
            wrong = asyncio.run(ask(server.port, "secret"))["sink.uri"]
            assert (wrong.ok, "invalid credentials" in wrong.detail) == (False, True)
            assert f"127.0.0.1:{server.port} refuses" in wrong.detail
            assert "[sink.login]" in wrong.detail
            barred = asyncio.run(ask(server.port, "without-rights", "nobody"))["sink.uri"]
            assert (barred.ok, "give the user the right" in barred.detail) == (False, True)
    gone = asyncio.run(ask(server.port))["sink.uri"]
    assert not gone.ok
    assert "a start would wait for it" in gone.detail
