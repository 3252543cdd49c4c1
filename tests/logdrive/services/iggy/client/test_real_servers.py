"""Sessions with real Iggy servers: their revision is told, and a wrong password is refused."""

import asyncio
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from logdrive.address import IggyAddress
from logdrive.errors import ConfigError
from logdrive.host.clock import SystemClock
from logdrive.net.tcp import SystemTransport
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.sink import IggySink
from logdrive.services.iggy.topics import ensure_topic, find_topic, why_not_durable
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.requests import GetClients, GetMe
from logdrive.wire.iggy.revision import Revision
from tests.support.iggy.servers import REVISIONS, ServerRevision, iggy_server


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_real_server_s_revision_is_told(tmp_path: Path, revision: ServerRevision) -> None:
    async def ask(port: int) -> None:
        for known in (None, Revision[revision]):
            session = await open_session(
                SystemTransport(), IggyTarget("127.0.0.1", port), known=known
            )
            assert session.revision is Revision[revision]
            me = (await session.request(GetMe())).client
            assert me.id in {client.id for client in await session.request(GetClients())}
            await session.close()

    with iggy_server(revision, tmp_path / "iggy") as server:
        asyncio.run(ask(server.port))


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_topic_is_made_once_and_its_acknowledgements_are_not_durable(
    tmp_path: Path, revision: ServerRevision
) -> None:
    async def ask(port: int) -> None:
        session = await open_session(SystemTransport(), IggyTarget("127.0.0.1", port))
        assert await find_topic(session, "My Logs", "Events") is None
        for name in ("Events", "Others", "Events"):
            made = await ensure_topic(session, "My Logs", name, 3)
            assert [one.index for one in made.partitions] == [0, 1, 2]
        assert "in memory" in await why_not_durable(session, made)
        await session.close()

    with iggy_server(revision, tmp_path / "iggy") as server:
        asyncio.run(ask(server.port))


def test_a_wrong_password_is_refused_at_once(tmp_path: Path) -> None:
    async def ask(port: int) -> None:
        target = IggyTarget("127.0.0.1", port, None, "iggy", "secret")
        with pytest.raises(IggyError) as refused:
            await open_session(SystemTransport(), target)
        assert refused.value.reason is Reason.INVALID_CREDENTIALS
        with pytest.raises(ConfigError, match=r"refuses: invalid credentials.*sink\.login") as told:
            await IggySink.open_topic(
                SystemTransport(),
                target,
                IggyAddress("127.0.0.1", port, "logs", "events", "iggy", "secret"),
                partitions=1,
                store_id=UUID(int=1),
                clock=SystemClock(),
                random=Random(),
            )
        assert "secret" not in str(told.value)

    with iggy_server("R1", tmp_path / "iggy") as server:
        asyncio.run(ask(server.port))
