"""A real Pravega that wants to know who comes: login at the controller, delegation tokens at the segment store."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from logdrive.clock import SystemClock
from logdrive.net.tcp import SystemTransport
from logdrive.record import ABSENT, framed
from logdrive.sinks.blocking import Target
from logdrive.sinks.controller import Login
from logdrive.sinks.pravega import PravegaSink
from logdrive.sinks.pravega_answers import RefusedError, TokenError
from logdrive.sinks.pravega_client import connected
from logdrive.sinks.pravega_controller import reached
from logdrive.sinks.pravega_service import served
from tests.pravega.real import MissingError, RealPravega, real_pravega
from tests.pravega.test_sink import SOURCE, STORE_ID

pytestmark = pytest.mark.pravega_server

LOGIN = Login("logdrive", "a secret")
PROPERTIES = (
    "singlenode.security.auth.enable=true",
    f"singlenode.security.auth.credentials.username={LOGIN.user}",
    f"singlenode.security.auth.credentials.pwd={LOGIN.password}",
)


def test_tokens_go_with_every_request_and_nobody_else_comes_in(tmp_path: Path) -> None:
    try:
        with real_pravega(tmp_path, *PROPERTIES) as server:
            asyncio.run(append_and_be_refused(server))
    except MissingError as reason:
        pytest.skip(f"a real Pravega could not be run: {reason}")


async def append_and_be_refused(server: RealPravega) -> None:
    target, transport = Target("127.0.0.1", server.controller), SystemTransport()
    async with (
        asyncio.timeout(120),
        served(transport, target, clock=SystemClock(), random=Random(1), login=LOGIN) as service,
    ):
        sink = await PravegaSink.of_stream(service, "logs", "app", segments=1, store_id=STORE_ID)
        (segment,) = sink.segments
        assert await sink.open(segment, SOURCE) == ABSENT
        await sink.append(segment, SOURCE, [framed(b"x")], 1, ABSENT, 1)
        assert await sink.open(segment, SOURCE) == 1
        async with connected(transport, "127.0.0.1", server.store) as stranger:
            with pytest.raises(TokenError):
                await stranger.read(segment, 0, 100)
        async with reached("127.0.0.1", server.controller, None, Login("logdrive", "a guess")) as controller:
            with pytest.raises(RefusedError, match="UNAUTHENTICATED"):
                await controller.current("logs", "app")
