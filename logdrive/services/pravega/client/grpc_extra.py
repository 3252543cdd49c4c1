"""A Pravega controller over gRPC, imported only where an address turns out to be a controller's: it
needs the extra `pravega`.
"""

from contextlib import AbstractAsyncContextManager

from logdrive.errors import ConfigError, Mistake
from logdrive.net.stream import ClientTls
from logdrive.services.pravega.client.controller import ControllerClient, Login


def over_grpc(
    host: str, port: int, tls: ClientTls | None, login: Login | None
) -> AbstractAsyncContextManager[ControllerClient]:
    """Reach a controller over the network.

    Raises `ConfigError` where the extra `pravega` is not installed.
    """
    try:
        from logdrive.services.pravega.client.controller_grpc import reached
    except ImportError as error:
        remedy = (
            "a Pravega controller is asked over gRPC: install it with pip install "
            "'logdrive[pravega]'"
        )
        raise ConfigError(f"{host}:{port}", [Mistake("uri", f"{host}:{port}", remedy)]) from error
    return reached(host, port, tls, login)
