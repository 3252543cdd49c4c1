"""A controller on a store in memory, and calls to it over a real socket."""

import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from logdrive.host.disk import SystemDisk
from logdrive.host.transport import ServerTls
from logdrive.services.auth.open import Access
from logdrive.services.pravega.server.controller.listen import serve_controller_at
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from logdrive.wire.pravega.controller.methods import METHODS, SERVICE
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock

NODE = ("127.0.0.1", 6000)


class Caller:
    """Calls methods by name."""

    def __init__(self, channel: "grpc.aio.Channel", store: Store) -> None:
        self.store = store
        self._channel = channel

    async def __call__(
        self, method: str, request: Message, authorization: str | None = None
    ) -> Any:
        types = METHODS[method]
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=types.request.SerializeToString,
            response_deserializer=types.answer.FromString,
        )
        return await call(
            request,
            timeout=20,
            metadata=() if authorization is None else (("authorization", authorization),),
        )


@contextlib.asynccontextmanager
async def calling(
    disk: MemoryDisk | None = None,
    *,
    tls: ServerTls | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    access: Access | None = None,
) -> AsyncIterator[Caller]:
    where, clock = ("127.0.0.1", 0), VirtualClock()
    async with (
        running(disk or MemoryDisk()) as store,
        serve_controller_at(
            Catalog(store, clock=clock, random=Random(1)),
            where,
            tls,
            NODE,
            disk=SystemDisk(),
            access=access,
        ) as (_, port),
        reached(port, credentials) as channel,
    ):
        yield Caller(channel, store)


def reached(port: int, credentials: grpc.ChannelCredentials | None) -> "grpc.aio.Channel":
    if credentials is None:
        return grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    return grpc.aio.secure_channel(f"localhost:{port}", credentials)
