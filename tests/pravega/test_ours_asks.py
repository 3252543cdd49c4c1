"""Our own store and controller that want to know who comes: the whole way of our clients, in plain
TCP and over TLS.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import orjson
import pytest

from logdrive.errors import TransientError
from logdrive.host.clock import SystemClock
from logdrive.host.transport import ClientTls
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.passwords import hash_password
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.controller import Login
from logdrive.services.pravega.client.controller_grpc import open_grpc_controller
from logdrive.services.pravega.client.errors import RequestRefusedError, TokenError
from logdrive.services.pravega.client.login import LoginConfig
from logdrive.services.pravega.reader.segments import connect_segments, locate_segments
from logdrive.services.pravega.reader.token_renewal import renew_tokens
from logdrive.services.pravega.sink import PravegaSink
from logdrive.services.sink import NumberConflictError
from tests.pravega.receivers import receiver
from tests.pravega.sites import Site, our_site, service
from tests.pravega.test_sink import SOURCE, of_stream
from tests.receiver.peers import run_of
from tests.support.installation import command

FLEET, VIEWER, OTHER = (
    Login("fleet", "a secret"),
    Login("viewer", "peek: no more"),
    Login("other", "not yours"),
)
MAY = {
    FLEET: '"logs/*" = "READ_UPDATE"',
    VIEWER: '"logs/*" = "READ"',
    OTHER: '"mine/*" = "READ_UPDATE"',
}


def auth(directory: Path, seconds: float = 600.0) -> AuthConfig:
    users, secret = directory / "users.toml", directory / "token.secret"
    hashes = {login: hash_password(login.password, os.urandom(16)) for login in MAY}
    users.write_text(
        "".join(
            f'[[user]]\nname = "{one.user}"\npassword = "{hashes[one]}"\nmay = {{ {may} }}\n'
            for one, may in MAY.items()
        )
    )
    secret.write_text(os.urandom(64).hex() + "\n")
    return AuthConfig(users=str(users), token_secret=str(secret), token_seconds=seconds)


@contextlib.asynccontextmanager
async def asking(directory: Path, seconds: float = 600.0) -> AsyncIterator[Site]:
    async with (
        asyncio.timeout(200),
        our_site(directory, auth=auth(directory, seconds), login=FLEET) as site,
    ):
        yield site


async def stored(site: Site, tls: ClientTls | None = None) -> bytes:
    """Return what the stream's one segment holds."""
    target = Target("127.0.0.1", site.port, tls, login=FLEET)
    (place,) = await locate_segments(SystemTransport(), target, "logs", "app")
    home = place.target
    async with connect_segment_store(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        return b"".join(
            [piece async for piece in client.read_range(place.state.segment, 0, place.state.length)]
        )


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_who_may_write_writes_and_nobody_else_stores_anything(
    tmp_path: Path, certificates: Path, secure: bool
) -> None:
    pem = {path.name: str(path) for path in certificates.iterdir()}
    server = (
        ServerTlsConfig(cert=pem["server.pem"], key=pem["server.key"], ca=pem["ca.pem"])
        if secure
        else None
    )
    tls = (
        ClientTls(pem["ca.pem"], pem["client.pem"], pem["client.key"], "localhost")
        if secure
        else None
    )

    async def main() -> None:
        async with (
            asyncio.timeout(200),
            our_site(tmp_path, server, tls, auth(tmp_path), FLEET) as site,
        ):
            async with service(site, tls=tls, login=FLEET) as at:
                sink = await of_stream(at, "app")
                (segment,) = sink.segments
                await sink.append_batch(segment, SOURCE, [frame_event(b"x")], 1, ABSENT, 1)
                assert await sink.open_writer(segment, SOURCE) == 1
            await reading_alone_is_allowed(site, segment, tls)
            await others_are_refused(site, segment, tls)
            assert await stored(site, tls) == frame_event(b"x")

    asyncio.run(main())


async def reading_alone_is_allowed(site: Site, segment: str, tls: ClientTls | None) -> None:
    transport = SystemTransport()
    (place,) = await locate_segments(
        transport, Target("127.0.0.1", site.port, tls, login=VIEWER), "logs", "app"
    )
    home = place.target
    async with connect_segment_store(
        transport, home.host, home.port, home.tls, token=home.token_of
    ) as client:
        assert (await client.read_segment(segment, 0, 100)).data == frame_event(b"x")
        for change in (
            client.seal_segment(segment),
            client.set_up_writer(segment, SOURCE),
            client.create_segment("logs/app/9.#epoch.0"),
        ):
            with pytest.raises(TokenError):
                await change
    async with open_grpc_controller("127.0.0.1", site.port, tls, VIEWER) as controller:
        with pytest.raises(
            RequestRefusedError, match="PERMISSION_DENIED: viewer may not READ_UPDATE logs/app"
        ):
            await controller.delegation_token("logs", "app")


async def others_are_refused(site: Site, segment: str, tls: ClientTls | None) -> None:
    for login, reason in (
        (None, "UNAUTHENTICATED: this controller needs a user"),
        (Login("fleet", "a guess"), "UNAUTHENTICATED: the user or the password is wrong"),
        (OTHER, "PERMISSION_DENIED: other may not READ logs/app"),
    ):
        with pytest.raises(RequestRefusedError, match=reason):
            await locate_segments(
                SystemTransport(), Target("127.0.0.1", site.port, tls, login=login), "logs", "app"
            )
    (place,) = await locate_segments(
        SystemTransport(), Target("127.0.0.1", site.port, tls, login=VIEWER), "logs", "app"
    )
    async with open_grpc_controller("127.0.0.1", site.port, tls, OTHER) as controller:
        foreign = await controller.delegation_token("mine", "app")
    for token in ("", foreign):
        home = replace(place.target, token=token)
        async with connect_segment_store(
            SystemTransport(), home.host, home.port, home.tls, token=home.token_of
        ) as client:
            for ask in (
                client.read_segment(segment, 0, 1),
                client.set_up_writer(segment, SOURCE),
                client.seal_segment(segment),
            ):
                with pytest.raises(TokenError):
                    await ask


def test_users_that_come_and_go_in_their_file_do_so_while_the_store_runs(tmp_path: Path) -> None:
    new, users = Login("new", "just come"), tmp_path / "users.toml"

    async def main() -> None:
        async with asking(tmp_path) as site, service(site, login=FLEET) as at:
            (segment,) = (await of_stream(at, "app")).segments
            before = users.read_text()
            assert not await known(site, new)
            entry = (
                f'[[user]]\nname = "{new.user}"\npassword = '
                f'"{hash_password(new.password, os.urandom(16))}"\nmay = {{ "*" = "READ" }}\n'
            )
            users.write_text(before.replace('"viewer"', '"gone"') + entry)
            while not await known(site, new):  # noqa: ASYNC110 - the store tells nobody but its log
                await asyncio.sleep(0.1)
            assert not await known(site, VIEWER)
            sink = await of_stream(at, "app")
            await sink.append_batch(segment, SOURCE, [frame_event(b"x")], 1, ABSENT, 1)
            assert await stored(site) == frame_event(b"x")

    asyncio.run(main())


async def known(site: Site, login: Login) -> bool:
    """Tell whether the controller lets *login* in."""
    try:
        await locate_segments(
            SystemTransport(), Target("127.0.0.1", site.port, None, login=login), "logs", "app"
        )
    except RequestRefusedError as error:
        if "UNAUTHENTICATED" not in str(error):
            raise
        return False
    return True


async def appended(sink: PravegaSink, segment: str, number: int) -> None:
    """Append the event *number*, as sessions do: what fails is sent again from where the store says
    that it is.
    """
    while True:
        try:
            last = await sink.open_writer(segment, SOURCE)
            if last >= number:
                return
            await sink.append_batch(segment, SOURCE, [frame_event(b"%d" % number)], 1, last, number)
        except (TransientError, NumberConflictError):
            await asyncio.sleep(0.02)


def test_tokens_that_end_on_the_way_are_renewed_and_nothing_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with asking(tmp_path, 1.0) as site, service(site, login=FLEET) as at:
            sink, loop = await of_stream(at, "app"), asyncio.get_running_loop()
            (segment,) = sink.segments
            number, cuts, until = 0, 0, loop.time() + 4
            previous = await sink.open_writer(segment, SOURCE)
            while loop.time() < until:  # without opening again, as long as it goes
                number += 1
                try:
                    await sink.append_batch(
                        segment, SOURCE, [frame_event(b"%d" % number)], 1, previous, number
                    )
                except (TransientError, NumberConflictError):
                    cuts += 1
                    await appended(sink, segment, number)
                previous = number
                await asyncio.sleep(0.01)
            assert cuts >= 2
            assert await stored(site) == b"".join(
                frame_event(b"%d" % n) for n in range(1, number + 1)
            )

    asyncio.run(main())


def test_a_pipeline_reads_on_after_its_token_has_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with asking(tmp_path, 1.0) as site:
            async with service(site, login=FLEET) as at:
                sink = await of_stream(at, "app")
                await sink.append_batch(sink.segments[0], SOURCE, [frame_event(b"x")], 1, ABSENT, 1)

            def read() -> None:
                face = StreamClient(Target("127.0.0.1", site.port, login=VIEWER), "logs", "app")
                (state,) = face.list_segments()
                for pause in (0.0, 2.1, 0.0):
                    asyncio.run(asyncio.sleep(pause))
                    assert b"".join(face.read_bytes(state.segment, 0, state.length)) == frame_event(
                        b"x"
                    )
                    face.count_known_headers(state.segment, ())
                stranger = StreamClient(
                    Target("127.0.0.1", site.port, login=Login("viewer", "a guess")), "logs", "app"
                )
                with pytest.raises(RequestRefusedError, match="UNAUTHENTICATED"):
                    stranger.list_segments()

            await asyncio.to_thread(read)

    asyncio.run(main())


def test_who_follows_a_stream_gets_new_tokens_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        async with asking(tmp_path, 1.0) as site:
            async with service(site, login=FLEET) as at:
                sink = await of_stream(at, "app")
                await sink.append_batch(sink.segments[0], SOURCE, [frame_event(b"x")], 1, ABSENT, 1)
            target, transport = Target("127.0.0.1", site.port, login=VIEWER), SystemTransport()
            there = await locate_segments(transport, target, "logs", "app")
            async with (
                renew_tokens(target, there, clock=SystemClock()) as token,
                connect_segments(transport, there, token) as (one,),
            ):
                for _ in range(3):
                    assert (
                        await one.client.read_segment(one.state.segment, 0, 9)
                    ).data == frame_event(b"x")
                    await asyncio.sleep(1)
            async with connect_segments(transport, there) as (one,):
                with pytest.raises(TokenError):  # the one that came with the places
                    await one.client.read_segment(one.state.segment, 0, 9)

    asyncio.run(main())


def test_a_receiver_comes_in_with_the_login_of_its_sink(tmp_path: Path) -> None:
    async def main() -> None:
        async with asking(tmp_path) as site:
            async with receiver(
                site, "app", LoginConfig(user=FLEET.user, password=FLEET.password)
            ) as one:
                peer = await one.peer()
                await peer.register(0, UUID(int=0xA))
                await peer.acknowledged(await peer.send_window(run_of(0, 0, 10_000, lines=1000)))
            assert len(await stored(site)) > 10_000

    asyncio.run(main())


async def logdrive(*arguments: str, **variables: str) -> tuple[int, bytes, bytes]:
    run = await asyncio.create_subprocess_exec(
        *command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
    )
    out, said = await run.communicate()
    return run.returncode or 0, out, said


@pytest.mark.process
def test_the_commands_come_in_with_a_login_and_through_the_directory_without_one(
    tmp_path: Path,
) -> None:
    password = tmp_path / "password"
    password.write_text(f"{VIEWER.password}\n")

    async def main() -> None:
        async with asking(tmp_path) as site:
            async with service(site, login=FLEET) as at:
                sink = await of_stream(at, "app")
                await sink.append_batch(sink.segments[0], SOURCE, [frame_event(b"x")], 1, ABSENT, 1)
            uri = f"pravega://127.0.0.1:{site.port}/logs/app"
            listed, by_file, denied, stranger, own = await asyncio.gather(
                logdrive(
                    "store",
                    "ls",
                    uri,
                    "--json",
                    LOGDRIVE_USER=VIEWER.user,
                    LOGDRIVE_PASSWORD=VIEWER.password,
                ),
                logdrive(
                    "store",
                    "ls",
                    uri,
                    "--json",
                    "--user",
                    VIEWER.user,
                    "--password-file",
                    str(password),
                ),
                logdrive(
                    "store",
                    "readers",
                    uri,
                    "me",
                    "--at-end",
                    "--user",
                    VIEWER.user,
                    "--password-file",
                    str(password),
                ),
                logdrive("store", "ls", uri),
                logdrive(
                    "store",
                    "readers",
                    f"file://{tmp_path}/store#logs/app",
                    "me",
                    "--at-end",
                    "--json",
                ),
            )
            for code, out, said in (listed, by_file):
                assert code == 0, said
                assert orjson.loads(out)["segments"][0]["length"] == 9
            assert denied[0] == 1
            assert b"viewer may not READ_UPDATE logs/app" in denied[2]
            assert stranger[0] == 1
            assert b"UNAUTHENTICATED: this controller needs a user" in stranger[2]
            assert stranger[2].count(b"\n") == 1
            assert own[0] == 0, own[2]
            assert orjson.loads(own[1])["segments"][0]["position"] == 9

    asyncio.run(main())
