"""Histories 11 and 12 of the rules of delivery, with whole receivers, at our store and at a real
Pravega (D3, S2, S3).
"""

from uuid import UUID

from logdrive.model.identity import source_id
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.pravega.client.controller import StreamSegment
from logdrive.wire.lumberjack.frames import AckFrame, PositionFrame, RefusalCode, RefusalFrame
from logdrive.wire.pravega.routing import key_fraction
from tests.pravega.receivers import Running, receiver
from tests.pravega.sites import Site, contents
from tests.pravega.test_scaling import split
from tests.pravega.test_sink import at_a_site, fresh
from tests.receiver.peers import NativePeer, SentRun, at, content, run_of
from tests.support.ledger import Ledger

ORIGIN = UUID(int=0xA)


async def delivered(site: Site, *segments: StreamSegment) -> bytes:
    """Return what the segments, read one after another, hold of the one source; any hole or overlap
    fails.
    """
    ledger = Ledger.read([await contents(site, segment) for segment in segments])
    (found,) = ledger.sources.values()
    return found.data


async def joined(to: Running, number: int) -> NativePeer:
    """Return a writer whose source is registered, at *number*."""
    peer = await to.peer()
    answer = await peer.register(0, ORIGIN)
    assert isinstance(answer, PositionFrame)
    assert answer.number == number
    return peer


async def stored(peer: NativePeer, *runs: SentRun) -> None:
    """Send a window of *runs* until all of it is stored.

    A service may close a connection late, once another writer has taken the place of one on it: the
    receiver then asks what is stored, and tells that before it acknowledges the window (D3).
    """
    (first, _), (last, _) = runs[0], runs[-1]
    number = first.previous
    while number != last.number:
        assert number == first.previous
        window, number = await peer.send_window(*runs), last.number
        while (frame := await peer.next()) != AckFrame(window):
            assert isinstance(frame, PositionFrame), frame
            number = frame.number


async def told_or_refused(peer: NativePeer) -> int | RefusalCode:
    """Return what becomes of a run that must not be stored: the number told, or why the source is
    dead here.
    """
    while True:
        frame = await peer.next()
        match frame:
            case PositionFrame():
                return frame.number
            case RefusalFrame():
                return frame.code
            case AckFrame():
                raise AssertionError(f"{frame}: what was not stored was acknowledged")


async def goes_to(site: Site, stream: str) -> StreamSegment:
    """Return the current segment that the one source belongs to."""
    key = key_fraction(source_id(ORIGIN, "").hex)
    (found,) = [
        s for s in await site.controller.current_segments("logs", stream) if s.low < key <= s.high
    ]
    return found


@at_a_site
async def test_history_11_a_half_open_session_and_its_successor_on_one_receiver__S2(
    site: Site,
) -> None:
    stream = fresh()
    async with receiver(site, stream) as one:
        old = await joined(one, ABSENT)
        await stored(old, run_of(0, 0, 100, lines=10))
        new = await joined(one, at(100))
        await old.send_window(run_of(0, 100, 230, lines=13))
        await stored(new, run_of(0, 100, 170, lines=7), run_of(0, 170, 300, lines=13))
        assert await told_or_refused(old) == RefusalCode.REGISTERED_LATER
        await joined(one, at(300))
    assert await delivered(site, await goes_to(site, stream)) == content(300)


@at_a_site
async def test_history_11_over_two_receivers_and_back__S2_D3(site: Site) -> None:
    stream = fresh()
    async with receiver(site, stream) as east, receiver(site, stream) as west:
        old = await joined(east, ABSENT)
        await stored(old, run_of(0, 0, 100, lines=10))
        new = await joined(west, at(100))
        await stored(new, run_of(0, 100, 170, lines=7))
        await old.send_window(run_of(0, 100, 230, lines=13))
        assert await told_or_refused(old) == at(170)
        back = await joined(east, at(170))
        await stored(back, run_of(0, 170, 400, lines=23))
        await new.send_window(run_of(0, 170, 260, lines=9))
        assert await told_or_refused(new) == at(400)
    assert await delivered(site, await goes_to(site, stream)) == content(400)


@at_a_site
async def test_history_12_a_scale_between_old_sessions_append_and_new_sessions_run__S3(
    site: Site,
) -> None:
    stream = fresh()
    async with receiver(site, stream) as east, receiver(site, stream) as west:
        before = await goes_to(site, stream)
        old = await joined(east, ABSENT)
        await stored(old, run_of(0, 0, 100, lines=10))
        await split(site, stream)
        new = await joined(west, at(100))
        await stored(new, run_of(0, 100, 300, lines=20))
        # its receiver learns of the scale by this run
        refused = await old.send_window(run_of(0, 100, 230, lines=13))
        assert await told_or_refused(old) == at(300)
        await old.acknowledged(refused)  # by the number told
        await stored(old, run_of(0, 300, 350, lines=5))
    after = await goes_to(site, stream)
    assert after != before
    assert await delivered(site, before, after) == content(350)


@at_a_site
async def test_history_12_on_one_receiver_older_session_fenced_also_across_scale__S2_S3(
    site: Site,
) -> None:
    stream = fresh()
    async with receiver(site, stream) as one:
        before = await goes_to(site, stream)
        old = await joined(one, ABSENT)
        await stored(old, run_of(0, 0, 100, lines=10))
        await split(site, stream)
        new = await joined(one, at(100))
        await old.send_window(run_of(0, 100, 230, lines=13))
        await stored(new, run_of(0, 100, 300, lines=20))
        assert await told_or_refused(old) == RefusalCode.REGISTERED_LATER
    assert await delivered(site, before, await goes_to(site, stream)) == content(300)


@at_a_site
async def test_history_12_the_predecessor_deleted_by_retention__S3(site: Site) -> None:
    stream = fresh()
    async with receiver(site, stream) as one:
        peer = await joined(one, ABSENT)
        await stored(peer, run_of(0, 0, 100, lines=10))
        await split(site, stream)
        await site.give_up("logs", stream)
        peer = await joined(one, LOST)
        # as to another store: from nothing
        await stored(peer, run_of(0, 0, 40, lines=4))
        await joined(one, at(40))
    assert await delivered(site, await goes_to(site, stream)) == content(40)
