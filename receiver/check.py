"""`logdrive receiver check`: tries what a start would need, and leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import SystemRandom
from types import MappingProxyType
from typing import Literal

from logdrive.address import (
    IggyAddress,
    S2Address,
    ServiceAddress,
    is_loopback,
)
from logdrive.check import Finding
from logdrive.errors import ConfigError, LogdriveError, TransientError
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.transport import ByteStream, ServerTls, Transport
from logdrive.model.dead_letters import DEAD_STREAM
from logdrive.net.settings import ServerTlsConfig
from logdrive.services.auth.open import open_access
from logdrive.services.iggy.server.listen import require_iggy
from logdrive.services.optional_libraries import missing_library
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.reader.segments import locate_segments
from logdrive.services.pravega.server.serve_controller import require_grpc
from logdrive.services.s2.server.listen import require_s2
from receiver.check_certificates import check_certificates
from receiver.check_store import check_store
from receiver.config import ReceiverConfig, SinkConfig

_ANSWER_SECONDS = 10.0


async def check_receiver(
    config: ReceiverConfig,
    *,
    clock: Clock,
    disk: Disk,
    transport: Transport,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> list[Finding]:
    """Return the findings on certificates, addresses, logins, packs, and the store's directory or
    the service, in that order. *environ* may have the endpoints and the access token of S2.
    """
    missing = _missing_libraries(config)
    findings: list[Finding] = []
    for name, where, tls, settings in _listeners(config):
        login_needed = config.listen.auth is not None and name != "listen"
        before = (
            check_certificates(name, tls, clock, disk)
            if isinstance(tls, ServerTlsConfig)
            else [_plain(name, where[0], login_needed)]
        )
        findings += before
        if name in missing:
            findings.append(missing[name])
        elif all(finding.ok for finding in before):
            findings += await _address(name, where, settings, transport)
    findings += await _logins(config, clock, disk)
    findings += _unpacking(config.sink)
    stream = config.sink.stream
    if isinstance(stream, ServiceAddress):
        return [*findings, *await _service(stream, config.sink, transport)]
    if isinstance(stream, S2Address):
        return [*findings, *await _s2(stream, config.sink, transport, environ)]
    if isinstance(stream, IggyAddress):
        return [*findings, *await _iggy(stream, config.sink, transport)]
    return [*findings, *check_store(config, stream, disk)]


def _missing_libraries(config: ReceiverConfig) -> dict[str, Finding]:
    """Return, by their names, the tables that listen and lack a library that is not installed."""
    listen = config.listen
    found: dict[str, Finding] = {}
    for face, require in (
        (listen.controller, require_grpc),
        (listen.s2, require_s2),
        (listen.iggy, require_iggy),
    ):
        if face is None:
            continue
        try:
            require(face.address)
        except ConfigError as error:
            found[face.table] = Finding(f"{face.table}.address", False, error.mistakes[0].remedy)
    return found


async def require_usable_certificates(config: ReceiverConfig, transport: Transport) -> None:
    """Raise `ConfigError` if a certificate can't be used; to be called before the store is opened.

    A free loopback port is bound in place of the real one, where clients may already be trying.
    """
    for _, _, _, settings in _listeners(config):
        if settings is not None:
            await (await transport.listen("127.0.0.1", 0, settings, _turn_away)).close()


def _listeners(
    config: ReceiverConfig,
) -> list[tuple[str, tuple[str, int], ServerTlsConfig | Literal["off"], ServerTls | None]]:
    """Return name, address and TLS of each table of the configuration that listens."""
    listen = config.listen
    tables = (listen.pravega, listen.controller, listen.s2, listen.iggy)
    faces = [face for face in tables if face is not None]
    own = ("listen", listen.where, listen.tls, listen.settings)
    return [
        own,
        *((face.table, face.host_and_port, face.tls or "off", face.tls_settings) for face in faces),
    ]


async def _service(stream: ServiceAddress, sink: SinkConfig, transport: Transport) -> list[Finding]:
    """Ask the service for the stream, and say what durable means there (rule S1)."""
    where = f"{stream.host}:{stream.port}"

    async def describe() -> str:
        target = Target(stream.host, stream.port, sink.settings, login=sink.credentials)
        located = await locate_segments(transport, target, stream.scope, stream.stream, update=True)
        return (
            f"has {len(located)} segments"
            if located
            else f"will be made with {sink.segments} segments"
        )

    return await _ask_service(stream, where, sink.settings is not None, describe)


async def _s2(
    stream: S2Address, sink: SinkConfig, transport: Transport, environ: Mapping[str, str]
) -> list[Finding]:
    """Ask S2 for the stream, as `_service` does; the access token is not shown."""
    try:
        from logdrive.services.s2.client.client import MISSING, S2Client
        from logdrive.wire.s2.errors import S2Error
    except ImportError as error:
        return [Finding("sink.uri", False, missing_library("S2", error))]
    try:
        target = sink.s2_target(stream, environ)
    except ConfigError as error:
        return [Finding("sink.uri", False, str(error))]
    endpoint = target.basins
    one = (
        f"one stream whatever `segments` says; dead letters go to {stream.stream + DEAD_STREAM} "
        "beside it"
    )

    async def describe() -> str:
        async with S2Client(transport, target) as client:
            try:
                tail = await client.check_tail(stream.stream)
            except S2Error as error:
                if error.code not in MISSING:
                    raise
                return f"will be made, {one}"
        return f"has {tail.seq_num:,} records, {one}"

    where = f"{endpoint.host}:{endpoint.port}"
    return await _ask_service(stream, where, endpoint.tls is not None, describe)


async def _iggy(stream: IggyAddress, sink: SinkConfig, transport: Transport) -> list[Finding]:
    """Ask Iggy for the topic, as `_service` does; the password is not shown."""
    try:
        from logdrive.services.iggy.looking import look_at_topic
    except ImportError as error:
        return [Finding("sink.uri", False, missing_library("Iggy", error))]
    target = sink.iggy_target(stream)
    weak = ""

    async def describe() -> str:
        nonlocal weak
        partitions, weak = await look_at_topic(transport, target, stream)
        if partitions is None:
            return f"will be made with {sink.segments} partitions"
        return f"has {partitions} partitions"

    findings = await _ask_service(stream, target.where, target.tls is not None, describe)
    if weak:  # more than what is said of a service in general
        findings[-1] = Finding("durability", True, weak, warn=True)
    return findings


async def _ask_service(
    stream: ServiceAddress | S2Address | IggyAddress,
    where: str,
    secure: bool,
    describe: Callable[[], Awaitable[str]],
) -> list[Finding]:
    """Return the findings on the service at *where*; *describe* asks it for the stream."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            extent = await describe()
    except TimeoutError:
        return [
            Finding(
                "sink.uri",
                False,
                f"{where} does not answer within {_ANSWER_SECONDS:g} s: a start would wait for it",
            )
        ]
    except TransientError as error:
        return [Finding("sink.uri", False, f"{error}; a start would wait for it")]
    except LogdriveError as error:
        return [Finding("sink.uri", False, str(error))]
    how = "by TLS" if secure else "by plain TCP: everything on the way can be read"
    return [
        Finding(
            "sink.uri", True, f"{where} answers, {how}; {stream.scope}/{stream.stream} {extent}"
        ),
        Finding(
            "durability",
            True,
            f"what the service at {where} promises. If that is a store of logdrive: one copy, on "
            "one disk",
        ),
    ]


async def _logins(config: ReceiverConfig, clock: Clock, disk: Disk) -> list[Finding]:
    """Check the files with users and permissions, if the store asks for logins."""
    auth = config.listen.auth
    if auth is None:
        return []
    try:
        async with open_access(auth, disk=disk, clock=clock, random=SystemRandom()):
            return [Finding("listen.auth", True, f"only users of {auth.users} may log in")]
    except ConfigError as error:
        where = "listen.auth." if error.file == "listen" else f"{error.file}: "
        return [
            Finding(f"{where}{mistake.key}", False, f"{mistake.value}: {mistake.remedy}")
            for mistake in error.mistakes
        ]


def _unpacking(sink: SinkConfig) -> list[Finding]:
    """Say what it costs to open packs, if the receiver does."""
    if sink.unpack == "no":
        return []
    form = "a JSON record a line" if sink.unpack == "full" else "JSON, many lines a record"
    text = f"packs are opened and stored as {form}: several times the disk and CPU of packs"
    return [Finding("sink.unpack", True, text)]


def _plain(name: str, host: str, login_needed: bool) -> Finding:
    """Say what plain TCP at *host* allows; warn of a face that serves the whole store to all."""
    read = "everything on the way can be read"
    if login_needed:
        return Finding(f"{name}.tls", True, f"off: {read}, passwords too")
    if name == "listen":
        text = f"off: every client that reaches this port may send, and {read}"
        return Finding(f"{name}.tls", True, text)
    who = "every user of this host" if is_loopback(host) else "everyone who reaches this port"
    return Finding(
        f"{name}.tls",
        True,
        f"off, and no logins: {who} may read all lines, and append; [{name}.tls] with ca, or "
        "[listen.auth], keeps others out",
        warn=True,
    )


async def _address(
    name: str, where: tuple[str, int], tls: ServerTls | None, transport: Transport
) -> list[Finding]:
    host, port = where
    try:
        listener = await transport.listen(host, port, tls, _turn_away)
    except ConfigError as error:
        table = f"{name}.tls" if error.file == "tls" else name
        return [
            Finding(f"{table}.{each.key}", False, f"{each.value}: {each.remedy}")
            for each in error.mistakes
        ]
    await listener.close()
    return [Finding(f"{name}.address", True, f"{host}:{port} is free")]


async def _turn_away(stream: ByteStream) -> None:
    stream.abort()
