"""A real Pravega that wants to know who comes, over TLS: login at the controller, delegation tokens
at the segment store.
"""

import asyncio
from pathlib import Path
from random import Random

import pytest

from logdrive.host.clock import SystemClock
from logdrive.host.transport import ClientTls
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.cluster import open_cluster
from logdrive.services.pravega.client.controller import Login
from logdrive.services.pravega.client.controller_grpc import open_grpc_controller
from logdrive.services.pravega.client.errors import RequestRefusedError, TokenError
from logdrive.services.pravega.reader.segments import locate_segments
from logdrive.services.pravega.sink import PravegaSink
from tests.pravega.conftest import needed
from tests.pravega.real import RealPravega, fetch, real_pravega
from tests.pravega.real_tls import tls_properties
from tests.pravega.test_sink import SOURCE, STORE_ID

pytestmark = pytest.mark.pravega_server

LOGIN = Login("logdrive", "a secret")
PROPERTIES = (
    "singlenode.security.auth.enable=true",
    f"singlenode.security.auth.credentials.username={LOGIN.user}",
    f"singlenode.security.auth.credentials.pwd={LOGIN.password}",
)


def test_over_tls_tokens_go_with_every_request_and_nobody_else_comes_in(
    tmp_path: Path, certificates: Path
) -> None:
    with needed("a real Pravega"):
        fetch()  # which tells whether there is a Java, whose key stores are made next
        with real_pravega(tmp_path, *PROPERTIES, *tls_properties(tmp_path, certificates)) as server:
            asyncio.run(append_and_be_refused(server, ClientTls(str(certificates / "ca.pem"))))


async def append_and_be_refused(server: RealPravega, tls: ClientTls) -> None:
    target, transport = Target("127.0.0.1", server.controller, tls, login=LOGIN), SystemTransport()
    async with (
        asyncio.timeout(120),
        open_cluster(
            transport, target, clock=SystemClock(), random=Random(1), login=LOGIN
        ) as service,
    ):
        sink = await PravegaSink.open_stream(service, "logs", "app", segments=1, store_id=STORE_ID)
        (segment,) = sink.segments
        assert await sink.open_writer(segment, SOURCE) == ABSENT
        await sink.append_batch(segment, SOURCE, [frame_event(b"x")], 1, ABSENT, 1)
        assert await sink.open_writer(segment, SOURCE) == 1
        (found,) = await locate_segments(transport, target, "logs", "app")
        assert (found.state.length, found.target.tls) == (9, tls)
        async with connect_segment_store(transport, "127.0.0.1", server.store, tls) as stranger:
            with pytest.raises(TokenError):
                await stranger.read_segment(segment, 0, 100)
        async with open_grpc_controller(
            "127.0.0.1", server.controller, tls, Login("logdrive", "a guess")
        ) as controller:
            with pytest.raises(RequestRefusedError, match="UNAUTHENTICATED"):
                await controller.current_segments("logs", "app")
