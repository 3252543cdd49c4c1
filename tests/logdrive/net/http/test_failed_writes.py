"""A response whose write fails: nothing of it stays in memory."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Sequence
from typing import cast

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream, Peer
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.net.http.bodies import BodyBudget
from logdrive.net.http.exchange import Handler
from logdrive.net.http.handling import FaultLog
from logdrive.net.http.http1_server import Http1ServerConnection
from logdrive.net.http.limits import HttpLimits


class LargeBody(bytearray):
    """Bytes that tell when they are freed."""


class BrokenStream:
    """A connection whose peer has gone."""

    peer = Peer("peer")

    async def write(self, parts: Sequence[Part]) -> None:
        raise TransientError("peer: gone")

    def abort(self) -> None:
        pass


def test_a_failed_write_keeps_no_memory_of_what_it_was_to_send() -> None:
    async def scenario() -> None:
        connection = Http1ServerConnection(
            cast(ByteStream, BrokenStream()),
            cast(Handler, None),  # no request comes
            HttpLimits(),
            FaultLog(lambda: 0.0),
            BodyBudget(KIB),
        )
        body = LargeBody(300 * KIB)
        freed = weakref.ref(body)
        with contextlib.suppress(TransientError):
            await connection.write([memoryview(body)])
        del body
        assert freed() is None

    gc.disable()  # a collection looks for objects, of which there are few, and not for bytes
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()
