"""A blocking client, for programs without an event loop such as Spark's workers.

with BlockingClient(target) as client:
    info = client.call(lambda service: service.segment_info(segment))
    data = client.fetch(segment, 0, info.length)
"""

from dataclasses import dataclass, field

from logdrive.host.transport import ClientTls
from logdrive.model.framing import Part
from logdrive.net.blocking import BlockingConnection
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.client.controller import Login


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a segment store or a controller, and what to connect with.

    It pickles, so that Spark can send it to its workers.
    """

    host: str
    port: int
    tls: ClientTls | None = None
    """None: plain TCP."""
    token: str = field(default="", repr=False)
    """Delegation token for a segment store, "" if it asks for none."""
    login: Login | None = None
    """User and password for a controller, None if it asks for none."""

    def token_of(self, segment: str) -> str:
        """Return the token, which is the same for all segments (a `TokenOf`)."""
        return self.token


class BlockingClient(BlockingConnection[SegmentClient]):
    """One connection to the segment store at *target*.

    Entering raises `TransientError` if the store does not answer.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(
            lambda: connect_segment_store(
                SystemTransport(), target.host, target.port, target.tls, token=target.token_of
            )
        )

    def fetch(self, segment: str, start: int, end: int) -> bytes:
        """Return the bytes [*start*, *end*) of *segment*, all of which must exist.

        Fastest for 4 to 32 MiB at a time. Raises what `SegmentClient.read_range` raises.
        """

        async def read(client: SegmentClient) -> list[Part]:
            return [piece async for piece in client.read_range(segment, start, end)]

        # Joined once: a buffer that grows with each piece is moved in memory again and again.
        return b"".join(self.call(read))
