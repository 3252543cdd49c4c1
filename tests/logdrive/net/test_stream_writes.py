"""After a failed write, the wire gets neither its rest, nor a later write, nor the end of the
stream.
"""

import asyncio
import contextlib
import gc
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from logdrive.errors import TransientError
from logdrive.host.transport import Peer
from logdrive.model.units import KIB
from logdrive.net.system_stream import SystemStream
from logdrive.net.wires import Want


class BreakingWire:
    """A wire that takes *whole* sends of up to *at_once* bytes, then breaks.

    It notes what it took, and whether it was asked to end the stream.
    """

    more = False

    def __init__(self, whole: int, at_once: int) -> None:
        self.taken = bytearray()
        self.sends = self.goodbyes = 0
        self._left, self._at_once = whole, at_once

    def receive(self) -> bytes | Want:
        return Want.READ

    def send(self, data: memoryview) -> int | Want:
        self.sends += 1
        if not self._left:
            raise TransientError("peer: broken")
        self._left -= 1
        self.taken += data[: self._at_once]
        return min(len(data), self._at_once)

    def say_goodbye(self) -> Want | None:
        self.goodbyes += 1
        return None


@contextmanager
def stream_over(wire: BreakingWire) -> Iterator[SystemStream]:
    """Return a stream over *wire*, on a socket that is not used."""
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        stream = SystemStream(ours, wire, Peer("peer"))
        try:
            yield stream
        finally:
            stream.abort()


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_after_a_failed_write_nothing_more_is_sent(whole: int) -> None:
    async def scenario() -> None:
        wire = BreakingWire(whole, at_once=100 * KIB)
        with stream_over(wire) as stream:
            parts = [bytes([number]) * 300 * KIB for number in range(3)]
            with pytest.raises(TransientError, match="broken"):
                await stream.write(parts)
            assert (bytes(wire.taken), wire.sends) == (
                b"".join(parts)[: whole * 100 * KIB],
                whole + 1,
            )
            for _ in range(2):
                with pytest.raises(TransientError, match="given up half-way"):
                    await stream.write([b"next"])
            await stream.close()
            assert (len(wire.taken), wire.sends, wire.goodbyes) == (whole * 100 * KIB, whole + 1, 0)

    asyncio.run(scenario())


def test_a_stream_whose_writes_were_whole_says_goodbye() -> None:
    async def scenario() -> None:
        wire = BreakingWire(3, at_once=100 * KIB)
        with stream_over(wire) as stream:
            data = bytes(range(256)) * (300 * 4)
            await stream.write([data])
            assert bytes(wire.taken) == data
            closing = asyncio.create_task(stream.close())
            await asyncio.sleep(0.01)
            stream.abort()
            await closing
            assert (wire.sends, wire.goodbyes) == (3, 1)

    asyncio.run(scenario())


class LargeAnswer(bytearray):
    """Bytes that tell when they are freed."""


def test_a_failed_write_keeps_no_memory_of_what_it_was_to_send() -> None:
    async def scenario() -> None:
        with stream_over(BreakingWire(0, KIB)) as stream:
            answer = LargeAnswer(300 * KIB)
            freed = weakref.ref(answer)
            with contextlib.suppress(TransientError):
                await stream.write([memoryview(answer)])
            del answer
            assert freed() is None

    gc.disable()  # a collection looks for objects, of which there are few, and not for bytes
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()
