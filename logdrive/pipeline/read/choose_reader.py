"""The one place of the pipeline that chooses a reader by the kind of address."""

from urllib.parse import urlsplit

from logdrive.address import StreamAddress, stream_address
from logdrive.host.transport import ClientTls
from logdrive.pipeline.read.stream import stream_client
from logdrive.services.pravega.client.controller import Login
from logdrive.services.reader import ServiceReader


def choose_reader(
    uri: str, tls: ClientTls | None = None, login: Login | None = None, token: str = ""
) -> ServiceReader | StreamAddress:
    """Return a reader for a stream at a service, or the address of one in a store's directory.

    `connect.open_stream` opens the latter, since a process must serve the store first. To read from
    another service, add its scheme here. Raises ValueError with a remedy.
    """
    match urlsplit(uri).scheme:
        case "pravega":
            return stream_client(uri, tls, login, token)
        case _:
            return stream_address(uri)  # refuses all but file://
