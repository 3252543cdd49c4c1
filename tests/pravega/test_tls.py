"""Our own store and controller over TLS on both ports, with certificates on both sides; a real
Pravega over TLS is in test_login.
"""

import asyncio
from pathlib import Path

from logdrive.host.transport import ClientTls
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.reader.segments import locate_segments
from tests.pravega.sites import our_site, service
from tests.pravega.test_sink import SOURCE, of_stream


def test_controller_and_segments_are_found_and_appended_to_over_tls(
    tmp_path: Path, certificates: Path
) -> None:
    pem = {path.name: str(path) for path in certificates.iterdir()}
    server = ServerTlsConfig(cert=pem["server.pem"], key=pem["server.key"], ca=pem["ca.pem"])
    trusted = ClientTls(pem["ca.pem"], pem["client.pem"], pem["client.key"], "localhost")

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            our_site(tmp_path, server, trusted) as site,
            service(site, tls=trusted) as at,
        ):
            sink = await of_stream(at, "app")
            (segment,) = sink.segments
            await sink.append_batch(segment, SOURCE, [frame_event(b"x")], 1, ABSENT, 1)
            assert await sink.open_writer(segment, SOURCE) == 1
            (found,) = await locate_segments(
                SystemTransport(), Target("127.0.0.1", site.port, trusted), "logs", "app"
            )
            assert (found.state.length, found.target.tls) == (9, trusted)

    asyncio.run(main())
