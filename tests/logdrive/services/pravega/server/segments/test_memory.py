"""The memory that connections hold stays within one budget, and is freed when they end."""

import asyncio
import gc
import struct
import sys
import weakref
from collections.abc import Callable
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.host.heap import Heap
from logdrive.model.units import KIB, MIB
from logdrive.net.turns import Turns
from logdrive.services.face_memory import (
    LITTLE_BYTES,
    STALLED_SECONDS,
    UNTAKEN_SECONDS,
    FaceAllocation,
    FaceMemoryBudget,
)
from logdrive.services.pravega.server.segments.appending import Appender
from logdrive.services.pravega.server.segments.connection import SegmentConnection
from logdrive.services.pravega.server.segments.fencing import WriterFence
from logdrive.wire.pravega.appends import AppendBlockEnd, AppendSetup, DataAppended, SetupAppend
from logdrive.wire.pravega.codec import encode
from logdrive.wire.pravega.control import KeepAlive
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.own import AppendsLocated, LocateAppends
from logdrive.wire.pravega.reassembly import WholeAppend
from logdrive.wire.pravega.segments import ReadSegment, SegmentRead
from logdrive.wire.pravega.tables import UpdateTableEntries
from tests.support.pravega.framings import W
from tests.support.pravega.peer import Peer, S, virtually, world

_TOTAL = 16 * MIB
_MESSAGE = 15 * MIB


class _Held:
    """A budget of 16 MiB, the connections that it closed, and what its heap was told."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.trims = 0
        self.budget = FaceMemoryBudget(_TOTAL, Heap(self._trim))

    def _trim(self) -> None:
        self.trims += 1

    def holding(self, name: str, size: int = 0, *, reads: bool = True) -> FaceAllocation:
        """Return a connection that has *size* bytes of a message, and waits for more of it."""
        holding = self.budget.open_allocation(lambda _: self._close(name, holding))
        holding.set_unfinished(size)
        if reads:
            holding.on_read_started()
        return holding

    def _close(self, name: str, holding: FaceAllocation) -> None:
        self.closed.append(name)
        holding.release_all()


@virtually
async def test_the_last_parts_are_for_connections_that_hold_little_or_nothing() -> None:
    held = _Held()
    held.holding("long", 13 * MIB)
    await held.holding("little", LITTLE_BYTES // 2).wait_until_admitted()
    held.holding("another", 3 * MIB // 2)
    await held.holding("idle").wait_until_admitted()
    assert held.closed == []


@virtually
async def test_connections_that_hold_nothing_are_admitted_first() -> None:
    held, order = _Held(), list[str]()

    async def wait(name: str, size: int) -> None:
        await held.holding(name, size, reads=False).wait_until_admitted()
        order.append(name)

    busy = held.holding("busy", reads=False)
    busy.set_unfinished(0, busy=30 * MIB)
    sizes = {"long": 2 * MIB, "little": 64 * KIB, "idle": 0, "other": 0}
    tasks = [asyncio.create_task(wait(name, size)) for name, size in sizes.items()]
    await asyncio.sleep(10)
    assert order == []
    busy.set_unfinished(0)
    await asyncio.gather(*tasks)
    assert order == ["idle", "other", "long", "little"]


@virtually
async def test_the_largest_connections_without_progress_are_closed_and_no_others() -> None:
    held = _Held()
    for name, size in (("a", 2), ("b", 6), ("c", 4), ("d", 4)):
        held.holding(name, size * MIB)
    assert held.budget.try_admit(held.holding("overdrawn", 2 * MIB))
    await asyncio.sleep(STALLED_SECONDS)
    await held.holding("new", 2 * MIB, reads=False).wait_until_admitted()
    assert held.closed == ["b", "c"]


@virtually
async def test_a_connection_that_grows_or_was_idle_or_waits_for_us_is_not_closed() -> None:
    held = _Held()
    held.holding("silent", 4 * MIB)
    idle = held.holding("idle")
    growing = held.holding("growing", 5 * MIB)
    await asyncio.sleep(10 * STALLED_SECONDS)
    for holding, size in ((idle, 6 * MIB), (growing, 5 * MIB + 64 * KIB)):
        holding.on_read_ended()
        holding.set_unfinished(size)
        holding.on_read_started()
    assert held.budget.try_admit(held.holding("overdrawn", 2 * MIB))
    waiting = asyncio.create_task(
        held.holding("waiting", 3 * MIB, reads=False).wait_until_admitted()
    )
    await asyncio.sleep(STALLED_SECONDS / 2)
    assert held.closed == ["silent"]
    waiting.cancel()


@virtually
async def test_half_of_the_memory_is_freed_if_no_long_message_is_completed() -> None:
    """All wait for memory, so none makes progress, except the overcommitted one, whose message
    trickles in.
    """
    held = _Held()
    overdrawn = held.holding("overdrawn", 1 * MIB)
    waiting = [held.holding(str(number), (number + 2) * MIB, reads=False) for number in range(4)]
    waiting.append(held.holding("4", 3 * MIB, reads=False))
    assert held.budget.try_admit(overdrawn)
    tasks = [asyncio.create_task(holding.wait_until_admitted()) for holding in waiting]
    for number in range(20):
        overdrawn.on_read_ended()
        overdrawn.set_unfinished(1 * MIB + number * 64 * KIB)
        overdrawn.on_read_started()
        await asyncio.sleep(0.1)
    assert held.closed == ["3", "2", "1"]
    assert held.budget.used <= _TOTAL // 2
    await asyncio.gather(*tasks)


@virtually
async def test_nothing_is_closed_for_memory_that_is_freed_anyway() -> None:
    held = _Held()
    busy = held.holding("busy", reads=False)
    busy.set_unfinished(0, busy=17 * MIB)
    waiting = asyncio.create_task(held.holding("waiting").wait_until_admitted())
    await asyncio.sleep(100)
    assert not waiting.done()
    busy.set_unfinished(0)
    await waiting
    assert held.closed == []


@virtually
async def test_a_client_that_does_not_read_its_answer_is_closed_when_memory_is_short() -> None:
    held = _Held()
    slow = held.holding("slow", reads=False)
    with slow.hold_answer(17 * MIB):
        await asyncio.sleep(100)
        assert held.closed == []
        await held.holding("other").wait_until_admitted()
        assert held.closed == []  # it was let go on at once, beyond the limit
        waiting = asyncio.create_task(held.holding("next").wait_until_admitted())
        await asyncio.sleep(UNTAKEN_SECONDS)
        assert held.closed == ["slow"]
        await waiting


@virtually
async def test_memory_is_returned_to_the_system_once_after_a_peak() -> None:
    held = _Held()
    holdings = [held.holding(str(number), 8 * MIB) for number in range(4)]
    await asyncio.sleep(60)
    for holding in holdings:
        holding.release_all()
    assert held.budget.used == 0
    await asyncio.sleep(60)
    assert held.trims == 1


# At the face ------------------------------------------------------------------------------------


def _half(size: int = _MESSAGE) -> bytes:
    return struct.pack("!ii", UpdateTableEntries.code, size)


async def _send_half(peer: Peer, size: int = _MESSAGE) -> None:
    try:
        await peer.stream.write([_half(size)])
        for _ in range(size // (64 * KIB) - 1):
            await peer.stream.write([bytes(64 * KIB)])
        await asyncio.sleep(3600)
    except TransientError:
        pass  # closed for its memory


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, int]]:
    """Return two numbers, kept current: the most bytes held at once, and those held now."""
    seen, move = [0, 0], FaceMemoryBudget.on_allocation_changed

    def noted(budget: FaceMemoryBudget, holding: FaceAllocation, change: int, busy: int) -> None:
        move(budget, holding, change, busy)
        seen[:] = max(seen[0], budget.used), budget.used

    monkeypatch.setattr(FaceMemoryBudget, "on_allocation_changed", noted)
    return lambda: (seen[0], seen[1])


def test_incomplete_messages_stay_within_the_budget_and_others_go_on(
    most: Callable[[], tuple[int, int]],
) -> None:
    @virtually
    async def flooded() -> None:
        async with world(held_bytes=_TOTAL) as made:
            await made.store.create(S)
            good, idle = await made.peer(), await made.peer()
            assert isinstance(await good.ask(SetupAppend(1, W, S)), AppendSetup)
            attacks = [asyncio.create_task(_send_half(await made.peer())) for _ in range(20)]
            frame = b"".join(
                map(bytes, encode(AppendBlockEnd(W, 600_000, bytes(600_000), 1, 1, 1)))
            )
            began = asyncio.get_running_loop().time()
            for at in range(0, len(frame), 70_000):
                await good.stream.write([frame[at : at + 70_000]])
                await asyncio.sleep(0.5)
                assert await idle.ask(KeepAlive()) == KeepAlive()
            assert isinstance(await good.hear(), DataAppended)
            assert asyncio.get_running_loop().time() - began < 10
            assert _TOTAL // 2 < most()[0] <= _TOTAL + _MESSAGE + 20 * 256 * KIB
            for attack in attacks:
                attack.cancel()
            made.network.cut("client")
            await asyncio.sleep(10)
            assert most()[1] == 0

    flooded()


@pytest.mark.parametrize(
    ("request_", "answer", "clients"),
    [
        (ReadSegment(S, 0, 2 * MIB, "", 1), SegmentRead, 40),
        (LocateAppends(1, S, 0, 2 * MIB, 32 * KIB), AppendsLocated, 120),
    ],
    ids=["reads", "locates"],
)
def test_answers_that_clients_do_not_read_stay_within_the_budget(
    most: Callable[[], tuple[int, int]], request_: Message, answer: type[Message], clients: int
) -> None:
    @virtually
    async def flooded() -> None:
        async with world(held_bytes=_TOTAL) as made:
            await made.store.create(S)
            for number in range(64):
                await made.store.append(
                    S, bytes(32 * KIB), writer=W, expected=None, number=number, events=1
                )
            peers = [await made.peer() for _ in range(clients)]
            for peer in peers:
                await peer.say(request_)
                await asyncio.sleep(0.1)
            good = await made.peer()
            await asyncio.sleep(2 * UNTAKEN_SECONDS)
            assert isinstance(await good.ask(request_), answer)
            assert _TOTAL // 2 < most()[0] <= _TOTAL + 4 * MIB

    flooded()


def test_a_closed_connection_leaves_no_memory_to_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixty half messages left to the collector are a gigabyte, the next sixty another one."""
    made_of: list[weakref.ref[object]] = []
    make = SegmentConnection.__init__

    def noted(connection: SegmentConnection, *arguments: object) -> None:
        make(connection, *arguments)  # type: ignore[arg-type]
        made_of.append(weakref.ref(connection._frames))

    monkeypatch.setattr(SegmentConnection, "__init__", noted)

    @virtually
    async def left() -> None:
        async with world() as made:
            peers = [await made.peer() for _ in range(3)]
            for peer in peers:
                await peer.stream.write([_half(), bytes(1000)])
            await peers[0].stream.close()
            peers[1].stream.abort()
            await peers[2].stream.write([bytes(_MESSAGE)])  # what can't be read
            await peers[2].rest()
            await asyncio.sleep(10)
            assert [frames() for frames in made_of] == [None] * 3

    gc.collect()
    gc.disable()
    try:
        left()
    finally:
        gc.enable()


@virtually
async def test_durable_data_does_not_stay_in_memory_until_its_acknowledgement_is_read() -> None:
    async with world() as made:
        await made.store.create(S)
        appending = Appender(made.store, WriterFence(), Turns())
        await appending.set_up_writer(SetupAppend(1, W, S))
        data = bytes(range(256)) * 1000
        others = sys.getrefcount(data)
        await appending.submit_append(WholeAppend(W, 1, 1, data, 2))
        assert sys.getrefcount(data) > others
        await asyncio.sleep(1)
        for number in range(2):  # the log keeps the last groups until the next
            await made.store.append(
                S, b"x", writer=UUID(int=99), expected=None, number=number, events=1
            )
        assert made.store.info(S).length == len(data) + 2  # type: ignore[union-attr]
        assert sys.getrefcount(data) == others
        appending.stop_accepting()
