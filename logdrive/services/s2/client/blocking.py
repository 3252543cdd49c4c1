"""A blocking client of S2, for programs without an event loop such as Spark's workers.

with BlockingS2Client(target) as client:
    tail = client.call(lambda service: service.check_tail("events"))
"""

from logdrive.net.blocking import BlockingConnection
from logdrive.net.tcp import SystemTransport
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import S2Target


class BlockingS2Client(BlockingConnection[S2Client]):
    """An `S2Client` of *target*, which connects with the first request."""

    def __init__(self, target: S2Target) -> None:
        super().__init__(lambda: S2Client(SystemTransport(), target))
