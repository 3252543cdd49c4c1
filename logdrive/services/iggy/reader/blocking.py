"""A blocking client of Iggy, for programs without an event loop such as Spark's workers.

with BlockingIggyClient(target) as client:
    states = client.call(lambda service: partition_states(service, "logs", "events"))
"""

from logdrive.net.blocking import BlockingConnection
from logdrive.net.tcp import SystemTransport
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.reader.connect import connect_service
from logdrive.services.iggy.reader.polling import IggyRequester


class BlockingIggyClient(BlockingConnection[IggyRequester]):
    """A connection to *target*. Entering raises `TransientError`, and `IggyError` for a refusal."""

    def __init__(self, target: IggyTarget) -> None:
        super().__init__(lambda: connect_service(SystemTransport(), target))
