"""Pravega's own Java client, as it is, at our store that asks who comes: with logins that are let
in, and with others.

That it does the same at a real Pravega where nobody is asked, `test_java_client.py` shows.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from logdrive.host.transport import ClientTls
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.net.settings import ServerTlsConfig
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.passwords import hash_password
from logdrive.services.pravega.client.controller import Login
from tests.pravega.java import told
from tests.pravega.sites import Site, our_site, service
from tests.pravega.test_java_client import EXPECTED
from tests.pravega.test_sink import SOURCE, of_stream

pytestmark = [
    pytest.mark.pravega_server,
    pytest.mark.usefixtures("java_client"),
    pytest.mark.timeout(600),
]
FLEET, VIEWER = Login("fleet", "a secret"), Login("viewer", "peek: no more")
MAY = {FLEET: '"*" = "READ_UPDATE"', VIEWER: '"logs/*" = "READ"'}


@contextlib.asynccontextmanager
async def asking(directory: Path, certificates: Path | None = None) -> AsyncIterator[Site]:
    """Run a store that asks for logins; over TLS with *certificates*, of clients that need not have
    one.
    """
    users, secret = directory / "users.toml", directory / "token.secret"
    users.write_text(
        "".join(
            (
                f'[[user]]\nname = "{one.user}"\npassword = '
                f'"{hash_password(one.password, os.urandom(16))}"\nmay = {{ {may} }}\n'
            )
            for one, may in MAY.items()
        )
    )
    secret.write_text(os.urandom(64).hex())
    # so that tokens end on the way
    auth = AuthConfig(users=str(users), token_secret=str(secret), token_seconds=5.0)
    server = trusted = None
    if certificates is not None:
        server = ServerTlsConfig(
            cert=str(certificates / "server.pem"),
            key=str(certificates / "server.key"),
            clients="any",
        )
        trusted = ClientTls(str(certificates / "ca.pem"))
    async with asyncio.timeout(500), our_site(directory, server, trusted, auth, FLEET) as site:
        yield site


def test_who_may_do_all_does_over_tls_what_is_done_where_nobody_is_asked(
    tmp_path: Path, certificates: Path
) -> None:
    async def main() -> dict[str, str]:
        async with asking(tmp_path, certificates) as site:
            return await told(
                "Client", site.port, tmp_path, login=FLEET, trusted=certificates / "ca.pem"
            )

    found = asyncio.run(main())
    assert {step: found.get(step) for step in EXPECTED} == EXPECTED


def test_who_may_not_is_told_so_and_stores_nothing(tmp_path: Path) -> None:
    steps = ("scope", "stream", "read", "write", "seal")

    async def main() -> None:
        async with asking(tmp_path) as site, service(site, login=FLEET) as at:
            sink = await of_stream(at, "app")
            (segment,) = sink.segments
            await sink.append_batch(segment, SOURCE, [frame_event(b"x")], 1, ABSENT, 1)

            async def tried(login: Login | None) -> dict[str, str | None]:
                found = await told("Stranger", site.port, tmp_path, login=login)
                return {step: found.get(step) for step in steps}

            for stranger in (Login("fleet", "a guess"), Login("nobody", "a guess"), None):
                assert await tried(stranger) == dict.fromkeys(steps, "UNAUTHENTICATED")
            assert await tried(VIEWER) == dict.fromkeys(steps, "PERMISSION_DENIED") | {"read": "1"}
            allowed = {
                "scope": "true",
                "stream": "true",
                "read": "1",
                "write": "written",
                "seal": "true",
            }
            assert await tried(FLEET) == allowed

    asyncio.run(main())
