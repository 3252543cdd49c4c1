"""The one place of the pipeline that chooses a reader by the kind of address."""

import os

from logdrive.address import StreamAddress, iggy_address, stream_address
from logdrive.host.transport import ClientTls
from logdrive.pipeline.read.stream import stream_client
from logdrive.services.optional_libraries import libraries_of
from logdrive.services.pravega.client.controller import Login
from logdrive.services.reader import ServiceReader


def choose_reader(
    uri: str,
    tls: ClientTls | None = None,
    login: Login | None = None,
    token: str = "",
    *,
    local_reads: bool = True,
) -> ServiceReader | StreamAddress:
    """Return a reader for a stream at a service, or the address of one in a store's directory.

    `connect.open_stream` opens the latter, since a process must serve the store first. To read from
    another service, add its scheme here. *local_reads* is for stores of ours. Raises ValueError
    with a remedy, and `ConfigError` for a variable of S2's that can't be used.
    """
    match uri.partition(":")[0].lower():
        case "pravega":
            return stream_client(uri, tls, login, token, local_reads=local_reads)
        case "s2":
            return _s2_stream(uri, tls, login, token)
        case "iggy":
            return _iggy_stream(uri, tls, login)
        case _:
            return stream_address(uri)  # refuses all but file://


def _s2_stream(uri: str, tls: ClientTls | None, login: Login | None, token: str) -> ServiceReader:
    with libraries_of("S2", "pipeline", "from", uri):  # only readers of S2 need them
        from logdrive.services.s2.reader.stream import s2_stream
    return s2_stream(uri, tls, login, token, environ=os.environ)


def _iggy_stream(uri: str, tls: ClientTls | None, login: Login | None) -> ServiceReader:
    address = iggy_address(uri)
    with libraries_of("Iggy", "pipeline", "from", address.uri):  # only readers of Iggy need them
        from logdrive.services.iggy.reader.stream import iggy_stream
    return iggy_stream(address, tls, login)
