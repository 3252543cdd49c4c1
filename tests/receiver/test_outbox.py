"""Frames to a peer are written in order, and their memory is limited even if the peer does not
read.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from receiver.outbox import Outbox
from tests.receiver.world import in_virtual_time

BOUND = 256 * KIB
FRAME = bytes(KIB)


class Taker:
    """The writing half of a stream: takes each write once `reading` is set."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.reading = asyncio.Event()
        self.aborted = False

    async def write(self, parts: Sequence[Part]) -> None:
        await self.reading.wait()
        if self.aborted:
            raise TransientError("aborted")
        self.taken.append(b"".join(parts))

    def abort(self) -> None:
        self.aborted = True
        self.reading.set()


def outbox() -> tuple[Outbox, Taker]:
    taker = Taker()
    return Outbox(cast("ByteStream", taker)), taker


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@in_virtual_time
async def test_frames_are_written_in_order_also_those_put_while_one_is_written() -> None:
    box, taker = outbox()
    writing = asyncio.create_task(box.run())
    box.enqueue(b"1")
    await settle()
    box.enqueue(b"2")
    box.enqueue(b"3")
    taker.reading.set()
    await box.wait_flushed()
    box.enqueue(b"4")
    await box.wait_flushed()
    assert b"".join(taker.taken) == b"1234"
    writing.cancel()


@in_virtual_time
async def test_peer_that_reads_nothing_is_cut_off_at_bound_and_what_waits_for_is_let_go() -> None:
    box, taker = outbox()
    writing = asyncio.create_task(box.run())
    for number in range(BOUND // len(FRAME)):
        box.enqueue(FRAME)
        assert box.broken is None, f"after {number + 1} frames"
    assert not taker.aborted
    box.enqueue(b"\0")
    assert taker.aborted
    assert box.broken is not None
    assert f"{BOUND + 1} bytes" in box.broken
    await asyncio.wait_for(box.wait_flushed(), 1)
    await asyncio.wait_for(writing, 1)
    assert taker.taken == []


@in_virtual_time
async def test_what_is_being_written_does_not_count_and_the_rest_does() -> None:
    box, taker = outbox()
    writing = asyncio.create_task(box.run())
    box.enqueue(FRAME * 200)
    await settle()  # on its way: the writer has it
    box.enqueue(FRAME * 200)
    assert box.broken is None
    box.enqueue(FRAME * 57)
    assert box.broken is not None
    await asyncio.wait_for(writing, 1)
    assert taker.aborted


@in_virtual_time
async def test_after_the_bound_nothing_more_is_kept() -> None:
    box, taker = outbox()
    box.enqueue(bytes(BOUND + 1))
    reason = box.broken
    for _ in range(1000):
        box.enqueue(FRAME)
    assert box.broken == reason
    taker.aborted = False
    await asyncio.wait_for(box.run(), 1)
    assert taker.taken == []


@in_virtual_time
async def test_a_peer_that_takes_a_write_never_is_cut_off_after_its_time() -> None:
    box, taker = outbox()
    box.enqueue(FRAME)
    await asyncio.wait_for(box.run(), 60)
    assert taker.aborted
    assert box.broken == "it took nothing for 30 s"


@in_virtual_time
async def test_nothing_is_taken_once_it_is_sealed_and_what_was_put_is_written() -> None:
    box, taker = outbox()
    taker.reading.set()
    box.enqueue(b"1")
    box.seal()
    box.enqueue(b"2")
    writing = asyncio.create_task(box.run())
    await asyncio.wait_for(box.wait_flushed(), 1)
    assert taker.taken == [b"1"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writing, 1)
