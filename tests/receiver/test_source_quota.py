"""Memory for registered sources is limited for the whole receiver.

A client that takes too much is refused, the others are served (rule D1).
"""

import asyncio
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.units import MIB
from logdrive.wire.lumberjack.frames import (
    Frame,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    SourceFrame,
)
from logdrive.wire.lumberjack.limits import REFUSED_SOURCES, SOURCE_BYTES
from receiver.source_quota import SourceQuota
from tests.receiver.peers import NativePeer, content, run_of
from tests.receiver.world import configuration, in_virtual_time, ledger, receiver

A = UUID(int=0xA)
TOTAL = 8 * MIB
LARGE = b'{"path":"%s"}' % (b"x" * 16_000)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 400))))
def test_all_together_never_hold_more_than_the_total_and_none_more_than_it_leaves(
    wishes: list[tuple[int, int]],
) -> None:
    shares = SourceQuota(1000)
    holders = [shares.open_share() for _ in range(4)]
    for who, size in wishes:
        before = holders[who].used, shares.used
        if holders[who].reserve(size):
            assert holders[who].used <= shares.total - shares.used
        else:
            assert (holders[who].used, shares.used) == before
        assert shares.used == sum(holder.used for holder in holders) <= 1000
    for holder in holders:
        holder.release_all()
    assert shares.used == 0


def test_one_alone_takes_half_and_greedy_ones_leave_room_for_who_comes_late() -> None:
    shares = SourceQuota(1000)
    greedy = [shares.open_share() for _ in range(4)]
    for _ in range(1000):
        for holder in greedy:
            holder.reserve(1)
    assert [holder.used for holder in greedy] == [200] * 4
    assert shares.open_share().reserve(100)


async def _register(peer: NativePeer, indices: range, attributes: bytes) -> list[Frame | None]:
    await peer.send(
        *(SourceFrame(index, UUID(int=index + 1), attributes).encode() for index in indices)
    )
    return [await peer.next() for _ in indices]


@in_virtual_time
async def test_e3_a_connection_that_registers_all_it_can_is_refused_and_others_are_served() -> None:
    async with receiver(config=configuration(sources_bytes=TOTAL)) as world:
        greedy = [await world.native(f"bad-{n}", f"cn:bad-{n}") for n in range(4)]
        for peer in greedy:
            answers = [
                answer
                for start in range(0, 512, 128)
                for answer in await _register(peer, range(start, start + 128), LARGE)
            ]
            refusals = [answer for answer in answers if isinstance(answer, RefusalFrame)]
            assert all(
                refusal.code == RefusalCode.TRY_LATER and "8388608" in refusal.text
                for refusal in refusals
            )
            assert refusals
            assert isinstance(answers[0], PositionFrame)
        good = await world.native()
        answers = await _register(good, range(100), b'{"path":"/var/log/app.log"}')
        assert all(isinstance(answer, PositionFrame) for answer in answers)
        await good.acknowledged(await good.send_window(run_of(7, 0, 100)))
        # what it has registered goes on, too
        await greedy[0].acknowledged(await greedy[0].send_window(run_of(0, 0, 50)))
    assert set((await ledger(world.disk)).by_data()) == {content(100), content(50)}


@in_virtual_time
async def test_what_is_freed_or_left_behind_by_a_connection_is_there_for_others() -> None:
    fits = TOTAL // 2 // (SOURCE_BYTES + len(LARGE))
    async with receiver(config=configuration(sources_bytes=TOTAL)) as world:
        peer = await world.native()
        for _ in range(3):
            answers = await _register(peer, range(fits + 1), LARGE)
            assert sum(isinstance(answer, RefusalFrame) for answer in answers) == 1
            await peer.send(
                *(
                    SourceFrame(index, UUID(int=index + 1), b"").encode()
                    for index in range(fits + 1)
                )
            )
        await _register(peer, range(fits), LARGE)
        await peer.stream.close()
        await asyncio.sleep(1)
        second = await world.native()
        assert all(
            isinstance(answer, PositionFrame)
            for answer in await _register(second, range(fits), LARGE)
        )


@in_virtual_time
async def test_e2_refused_sources_that_are_never_freed_end_the_connection() -> None:
    async with receiver() as world:
        peer = await world.native()
        for start in range(0, REFUSED_SOURCES, 128):
            answers = await _register(peer, range(start, start + 128), b"no attributes")
            assert {answer.code for answer in answers if isinstance(answer, RefusalFrame)} == {
                RefusalCode.BAD_ATTRIBUTES
            }
            assert await _register(peer, range(start, start + 128), b"none, either"), (
                "an index may be given to its source again"
            )
        await peer.send(SourceFrame(REFUSED_SOURCES, A, b"no attributes").encode())
        assert [getattr(await peer.next(), "code", None) for _ in range(3)] == [
            RefusalCode.BAD_ATTRIBUTES,
            RefusalCode.LIMIT,
            None,
        ]
