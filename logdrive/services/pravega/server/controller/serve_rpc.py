"""`ServeRpc`: how a controller's methods are served, declared without importing gRPC."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from logdrive.host.disk import Disk
from logdrive.host.transport import ServerTls

ServeRpc = Callable[
    [Any, tuple[str, int], ServerTls | None, Disk], AbstractAsyncContextManager[int]
]
"""Opens a context that serves a controller, and yields the port bound.

Called with a `grpc.GenericRpcHandler`, (host, port), TLS or None for plain TCP, and the disk with
the certificates. gRPC is one (`serve_rpc_over_grpc`), tests have another, in memory.
"""
