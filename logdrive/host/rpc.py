"""`ServeRpc`: how a program serves a gRPC service, declared without importing gRPC."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from logdrive.host.disk import Disk
from logdrive.host.transport import ServerTls


class ServeRpc(Protocol):
    """Opens a context that serves methods; the real one is `serve_rpc_over_grpc`.

    Tests have one in memory, so that a store's controller is on their network, too.
    """

    def __call__(
        self, handlers: Any, address: tuple[str, int], tls: ServerTls | None, disk: Disk, /
    ) -> AbstractAsyncContextManager[int]:
        """Serve *handlers*, a `grpc.GenericRpcHandler`, at *address*; yield the port bound.

        Without *tls* it is plain TCP. *disk* has the certificates. Raises `ConfigError` if the
        address can't be bound, or the certificates can't be read.
        """
        ...
