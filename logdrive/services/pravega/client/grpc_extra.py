"""Opens a client of a controller over gRPC; imports gRPC only when a controller is to be called.

gRPC comes with the extra `pravega`, which a client of segment stores does without.
"""

from contextlib import AbstractAsyncContextManager

from logdrive.errors import ConfigError, Mistake
from logdrive.host.transport import ClientTls
from logdrive.services.pravega.client.controller import ControllerClient, Login


def connect_controller(
    host: str, port: int, tls: ClientTls | None, login: Login | None
) -> AbstractAsyncContextManager[ControllerClient]:
    """Return a context that yields a client of the controller at *host*:*port*.

    Raises `ConfigError` if the extra `pravega` is not installed.
    """
    try:
        from logdrive.services.pravega.client.controller_grpc import open_grpc_controller
    except ImportError as error:
        remedy = (
            "a Pravega controller is asked over gRPC: install it with pip install "
            "'logdrive[pravega]'"
        )
        raise ConfigError(f"{host}:{port}", [Mistake("uri", f"{host}:{port}", remedy)]) from error
    return open_grpc_controller(host, port, tls, login)
