"""[listen.s2] of a store: TLS with ALPN, logins, both versions of HTTP, and what is refused."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from bench.processes import free_port
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.host.transport import ClientTls
from logdrive.net.http.client import HttpClient
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.passwords import hash_password
from logdrive.services.config import StoreConfig, StoreListenConfig
from logdrive.services.pravega.server.config import PravegaFaceConfig
from logdrive.services.s2.server.config import S2FaceConfig
from logdrive.services.serve import serve_store
from logdrive.store.config import DirectoryConfig
from tests.conftest import need_program

BASIN = ("s2-basin", "first-basin")


@contextlib.asynccontextmanager
async def served(
    directory: Path, *, tls: ServerTlsConfig | None = None, auth: AuthConfig | None = None
) -> AsyncIterator[int]:
    """Serve a store; yield the port for S2's clients."""
    executor, stop, port = ThreadExecutor("store"), asyncio.Event(), free_port()
    config = StoreConfig(
        store=DirectoryConfig(path=str(directory / "store")),
        listen=StoreListenConfig(
            pravega=PravegaFaceConfig(address=f"127.0.0.1:{free_port()}"),
            s2=S2FaceConfig(address=f"127.0.0.1:{port}", tls=tls),
            auth=auth,
        ),
    )
    host = Host(
        clock=SystemClock(), disk=SystemDisk(), transport=SystemTransport(), executor=executor
    )
    started: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(serve_store(config, host=host, stop=stop, started=started.set_result))
        await started
        try:
            yield port
        finally:
            stop.set()
    executor.close()


def test_tls_agrees_on_http_2_and_curl_may_speak_either(tmp_path: Path, certificates: Path) -> None:
    need_program("curl")
    tls = ServerTlsConfig(
        cert=f"{certificates}/server.pem", key=f"{certificates}/server.key", clients="any"
    )

    async def curl(port: int, *options: str) -> str:
        running = await asyncio.create_subprocess_exec(
            *("curl", "-s", "--max-time", "20", "--cacert", f"{certificates}/ca.pem"),
            *(*options, "-w", " %{http_version}", f"https://localhost:{port}/health"),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await running.communicate()
        return said.decode()

    async def main() -> None:
        async with served(tmp_path, tls=tls) as port:
            client = HttpClient(
                SystemTransport(), "localhost", port, ClientTls(f"{certificates}/ca.pem")
            )
            async with client:
                assert (await client.request("GET", "/health")).body == b"OK"
            assert await curl(port, "--http1.1") == "OK 1.1"
            assert await curl(port) in ("OK 2", "OK 1.1")  # as curl was built

    asyncio.run(main())


def test_with_a_users_file_only_its_users_get_in_and_only_to_what_they_may(
    tmp_path: Path,
) -> None:
    users, secret = tmp_path / "users.toml", tmp_path / "token.secret"
    hashed = hash_password("secret", b"0123456789abcdef")
    users.write_text(
        f'[[user]]\nname = "ann"\npassword = "{hashed}"\n'
        'may = { "first-basin/*" = "READ_UPDATE" }\n'
    )
    secret.write_text(os.urandom(64).hex())
    auth = AuthConfig(users=str(users), token_secret=str(secret))

    async def main() -> None:
        async with (
            served(tmp_path, auth=auth) as port,
            HttpClient(SystemTransport(), "127.0.0.1", port, None) as client,
        ):
            body = b'{"basin": "first-basin"}'
            head = (BASIN, ("content-type", "application/json"))
            got = await client.request("POST", "/v1/basins", head, body)
            assert (got.status, b"authn" in got.body) == (401, True)
            ann = (*head, ("authorization", "Bearer ann:secret"))
            got = await client.request("POST", "/v1/basins", ann, body)
            assert got.status == 201
            got = await client.request("POST", "/v1/basins", ann, b'{"basin": "other-basin"}')
            assert (got.status, b"permission_denied" in got.body) == (403, True)
            got = await client.request("POST", "/v1/streams", ann, b'{"stream": "a"}')
            assert got.status == 201
            got = await client.request("GET", "/v1/access-tokens", ann)
            assert got.status == 403
            assert (await client.request("GET", "/health")).status == 200
            assert (await client.request("GET", "/metrics")).status == 401

    with capture_logs() as logs:
        asyncio.run(main())
    refused = [line for line in logs if line["event"] == "a request was refused"]
    assert [line["request"] for line in refused] == ["POST /v1/basins", "POST /v1/basins"]
    assert all(line["peer"].startswith("127.0.0.1:") for line in refused)
    assert "an access token is needed" in refused[0]["reason"]
    assert "may not create-basin" in refused[1]["reason"]
    assert "secret" not in str(refused)


@pytest.mark.parametrize(
    ("s2", "words"),
    [
        ({"address": "0.0.0.0:8080"}, "listen.s2.tls"),
        ({"address": "127.0.0.1:6000"}, "listen.s2.address is listen.pravega.address"),
        ({"address": "127.0.0.1:8080", "port": 1}, "port"),
    ],
)
def test_an_address_that_is_exposed_or_taken_is_refused(s2: dict[str, object], words: str) -> None:
    listen = {"pravega": {"address": "127.0.0.1:6000"}, "s2": s2}
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(listen, StoreListenConfig)
    assert words in str(caught.value)


def test_the_port_has_a_default() -> None:
    assert S2FaceConfig(address="127.0.0.1").host_and_port == ("127.0.0.1", 8080)
