"""A receiver that unpacks: what packs hold is stored in the open, in order, and acknowledged when
all of it is durable (rules D2, D3, R8).
"""

import asyncio
import tracemalloc
from uuid import UUID

import orjson
import pytest
from structlog.testing import capture_logs

from logdrive.model.framing import frame_events
from logdrive.model.identity import source_id
from logdrive.model.limits import PACK_ITEMS
from logdrive.model.numbers import check_in, position_of
from logdrive.model.units import MIB
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.wire.lumberjack.frames import AckFrame, PositionFrame, RunFrame, SourceFrame
from tests.receiver.dialects.test_packs import LIE, stored_batches
from tests.receiver.peers import at, content, gap_of, pack_of, run_of
from tests.receiver.world import SYNC_SECONDS, configuration, in_virtual_time, ledger, receiver

A, B = UUID(int=0xA), UUID(int=0xB)
SOURCE = str(source_id(A, "cn:web-1"))
BLOCKS = configuration(unpack="blocks")
FULL = configuration(unpack="full")


@in_virtual_time
async def test_r8_what_a_pack_holds_is_stored_as_blocks_in_its_place_among_other_runs() -> None:
    async with receiver(config=BLOCKS) as world:
        peer = await world.native()
        await peer.register(0, A)
        runs = (run_of(0, 0, 100, lines=10), pack_of(0, 100, 9000), gap_of(0, 9000, 9010))
        await peer.acknowledged(await peer.send_window(*runs, pack_of(0, 9010, 20_000)))
    headers = [header for header, _ in await stored_batches(world.disk)]
    assert [header["position"] for header in headers] == [100, 9000, 9010, 20_000]
    assert not any("form" in header for header in headers)
    delivered = (await ledger(world.disk)).sources[SOURCE]
    assert delivered.data == content(9000) + content(20_000)[9010:]
    assert delivered.events == 1999
    assert (world.counters.packs, world.counters.packs_unpacked) == (0, 2)


@in_virtual_time
async def test_r8_full_records_say_what_their_source_was_registered_with() -> None:
    async with receiver(config=FULL) as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(pack_of(0, 0, 20)))
    ((header, records),) = await stored_batches(world.disk)
    assert (header["records"], header["events"]) == (2, 2)
    assert orjson.loads(records[1]) == {
        "@timestamp": "2023-11-14T22:13:20.000Z",
        "host": {"name": "web-1"},
        "fields": {"team": "a"},
        "tags": ["x"],
        "log": {"file": {"path": "/var/log/app.log"}, "origin": A.hex, "offset": 10},
        "message": "line 0001",
    }


@in_virtual_time
async def test_d2_a_pack_is_acknowledged_once_all_its_batches_are_durable() -> None:
    async with receiver(config=FULL) as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 2.0
        last = await peer.send_window(pack_of(0, 0, 40_000))
        assert await peer.silent(1.9)
        await peer.acknowledged(last)
    batches = await stored_batches(world.disk)
    assert len(batches) > 3
    assert [header["previous"] for header, _ in batches[1:]] == [
        header["position"] for header, _ in batches[:-1]
    ]


@in_virtual_time
async def test_d3_a_failure_amid_a_pack_is_answered_with_the_position_reached_in_it() -> None:
    whole = content(430_000)  # 40,000 lines
    async with receiver(config=FULL) as world:
        peer = await world.native()
        position = await peer.register(0, A)
        assert isinstance(position, PositionFrame)
        world.executor.delay = 1.0
        # more batches than one turn submits: the first are durable before the others are
        last = await peer.send_window(pack_of(0, 0, len(whole)))
        await asyncio.sleep(1.5)
        world.disk.fail_write()
        corrected = await peer.next()
        assert isinstance(corrected, PositionFrame)
        reached = position_of(corrected.number)
        assert 0 < reached < len(whole)
        assert corrected == PositionFrame(0, at(reached), position.store)
        assert check_in(corrected.number)
        await peer.acknowledged(last)

        # the writer goes on there, with another pack of the rest
        await peer.acknowledged(await peer.send_window(pack_of(0, reached, len(whole))))
    batches = await stored_batches(world.disk)
    assert [header["previous"] for header, _ in batches[1:]] == [
        header["position"] for header, _ in batches[:-1]
    ]
    text = b"".join(
        orjson.loads(each)["message"].encode() + b"\n" for _, records in batches for each in records
    )
    assert text == whole


@in_virtual_time
async def test_r8_a_pack_that_lies_is_stored_as_it_came_and_named_in_the_log() -> None:
    lie = RunFrame(0, 0, at(100), at(230), 1, 0, 10, 1), LIE
    with capture_logs() as logs:
        async with receiver(config=BLOCKS) as world:
            peer = await world.native()
            await peer.register(0, A)
            await peer.register(1, B)
            runs = (pack_of(0, 0, 100), lie, pack_of(0, 230, 500), pack_of(1, 0, 300))
            await peer.acknowledged(await peer.send_window(*runs))
            again = RunFrame(0, 0, at(500), at(630), 1, 0, 10, 1), LIE
            await peer.acknowledged(await peer.send_window(again))
    (error,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert (error["source"], error["start"], error["end"]) == (SOURCE, 100, 230)
    assert "CRC-32" in error["reason"]
    assert world.counters.packs_damaged == 2
    damaged = [
        (header["previous"], records)
        for header, records in await stored_batches(world.disk)
        if "form" in header
    ]
    assert damaged == [(100, [LIE]), (500, [LIE])]


@in_virtual_time
async def test_d3_a_pack_that_is_dropped_is_not_opened() -> None:
    async with receiver(config=BLOCKS) as world:
        peer = await world.native()
        await peer.register(0, A)
        run = RunFrame(0, 0, at(100), at(230), 1, 0, 10, 1)
        last = await peer.send_window((run, LIE))
        assert isinstance(await peer.next(), PositionFrame)
        await peer.acknowledged(last)
    assert world.counters.packs_damaged == 0
    assert await stored_batches(world.disk) == []


@in_virtual_time
async def test_e1_a_pack_before_its_position_is_refused_unopened() -> None:
    async with receiver(config=BLOCKS) as world:
        peer = await world.native()
        run = RunFrame(0, 0, 0, at(130), 1, 0, 10, 1)
        await peer.send(SourceFrame(0, A, b"{}").encode() + peer.window((run, LIE)))
        while (frame := await peer.next()) is not None:
            assert not isinstance(frame, PositionFrame)
    assert (world.counters.protocol_errors, world.counters.packs_damaged) == (1, 0)


@pytest.mark.parametrize("unpack", ["blocks", "full"])
@in_virtual_time
async def test_a_pack_is_opened_only_once_there_is_memory_for_what_it_holds(unpack: str) -> None:
    """4 MiB that travel as 5 KB: ten connections would take 40 MiB, and the records more."""
    text = b"x" * 99 + b"\n"
    text *= 41_943
    run = RunFrame(0, 0, 0, len(text) << 16, 1, 0, 41_943, 1)
    packed = make_pack(PackForm.TEXT, text, PackCodec.DEFLATE)
    assert len(packed) < 64 * 1024
    limits = {"total_bytes": 16 * MIB, "connection_bytes": 8 * MIB}
    async with receiver(config=configuration(unpack=unpack, **limits)) as world:
        peers = [await world.native(f"web-{n}", f"cn:web-{n}") for n in range(10)]
        for peer in peers:
            await peer.register(0, A)
        world.executor.delay = 60.0
        lasts = [await peer.send_window((run, packed)) for peer in peers]
        await asyncio.sleep(30)
        assert 0 < world.counters.packs_unpacked < 10
        # those that were let in are a step over at most
        assert world.memory.used < 16 * MIB + 6 * MIB
        world.executor.delay = SYNC_SECONDS
        for peer, last in zip(peers, lasts, strict=True):
            await peer.acknowledged(last)
    assert world.memory.used == 0
    assert world.counters.packs_unpacked == 10
    assert world.counters.events == 419_430


@in_virtual_time
async def test_what_a_pack_holds_counts_until_the_last_batch_of_it_is_made() -> None:
    text = (b"x" * 99 + b"\n") * 41_943
    run = RunFrame(0, 0, 0, len(text) << 16, 1, 0, 41_943, 1)
    packed = make_pack(PackForm.TEXT, text, PackCodec.DEFLATE)
    limits = {"total_bytes": 16 * MIB, "connection_bytes": 1 * MIB}
    async with receiver(config=configuration(unpack="full", **limits)) as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 60.0
        last = await peer.send_window((run, packed))
        await asyncio.sleep(30)
        # its connection has no room for more batches, of which the disk has stored none
        assert 0 < world.counters.events < 41_943
        assert world.memory.used > len(text)
        world.executor.delay = SYNC_SECONDS
        await peer.acknowledged(last)
    assert world.memory.used == 0


@pytest.mark.parametrize("unpack", ["blocks", "full"])
@in_virtual_time
async def test_short_windows_go_through_while_others_unpack_all_that_memory_holds(
    unpack: str,
) -> None:
    """Whoever opens a pack held a few KB before, and must not take the last quarter with it."""
    text = b"x\n" * 300_000
    run = RunFrame(0, 0, 0, len(text) << 16, 1, 0, 300_000, 1)
    packed = make_pack(PackForm.TEXT, text, PackCodec.DEFLATE)
    limits = {"total_bytes": 8 * MIB, "connection_bytes": 8 * MIB}
    async with receiver(config=configuration(unpack=unpack, **limits)) as world:
        peers = [await world.native(f"web-{n}", f"cn:web-{n}") for n in range(20)]
        for peer in peers:
            await peer.register(0, A)
        world.executor.delay = 1.0
        lasts = [await peer.send_window((run, packed)) for peer in peers]
        await asyncio.sleep(10)

        short = await world.native("short", "cn:short")
        await short.register(0, B)
        for turn in range(3):
            await short.send_window(pack_of(0, 10 * turn, 10 * turn + 10))
            frame = await short.next(10)
            assert frame == AckFrame(turn + 1)
        assert world.counters.packs_unpacked < 20, "all the others are done"
        world.executor.delay = SYNC_SECONDS
        for peer, last in zip(peers, lasts, strict=True):
            await peer.acknowledged(last)
    assert world.memory.used == 0


@pytest.mark.parametrize("form", [PackForm.RECORDS, PackForm.CUT_TEXT])
@in_virtual_time
async def test_what_a_pack_becomes_in_memory_is_counted_and_not_only_its_bytes(
    form: PackForm,
) -> None:
    """Each of 65,536 records or lengths is an object, of more bytes than it has itself."""
    if form is PackForm.RECORDS:
        content_ = frame_events([b'{"log":{"offset":%d}}' % place for place in range(PACK_ITEMS)])
    else:
        content_ = join_cuts([40] * PACK_ITEMS, b"x" * 40 * PACK_ITEMS)
    size = PACK_ITEMS if form is PackForm.RECORDS else 40 * PACK_ITEMS
    run = RunFrame(0, 0, 0, size << 16, 1, 0, PACK_ITEMS, 1)
    async with receiver(config=FULL) as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 60.0
        tracemalloc.start()
        try:
            last = await peer.send_window((run, make_pack(form, content_, PackCodec.DEFLATE)))
            before, used = tracemalloc.get_traced_memory()[0], world.memory.used
            for _ in range(1000):
                if world.counters.packs_unpacked:
                    break
                await asyncio.sleep(0)
            taken = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert world.counters.packs_unpacked == 1
        assert PACK_ITEMS * 8 < taken < 1.2 * (world.memory.used - used)
        world.executor.delay = SYNC_SECONDS
        await peer.acknowledged(last)
    assert world.memory.used == 0
