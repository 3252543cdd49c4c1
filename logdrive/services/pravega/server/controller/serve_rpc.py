"""Who serves a controller: gRPC, or a test in its place. Named without importing gRPC."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from logdrive.host.disk import Disk
from logdrive.net.stream import ServerTls

ServeRpc = Callable[
    [Any, tuple[str, int], ServerTls | None, Disk], AbstractAsyncContextManager[int]
]
"""How a controller is served: what `grpc.aio.Server` takes, host and port, TLS and the disk with
its files in, the real port out.
"""
