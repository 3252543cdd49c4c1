"""Packs as a receiver takes them: stored as they came, never opened (rules R4, R8, D1)."""

from uuid import UUID

import pytest

from logdrive.model.identity import source_id
from logdrive.model.numbers import ABSENT
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    EnvelopeFrame,
    PackFrame,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    RunFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import NATIVE, PACKED
from tests.receiver.peers import NativePeer, at, gap_of, pack_of, run_of
from tests.receiver.world import configuration, in_virtual_time, receiver, stored
from tests.support.ledger import batches
from tests.support.memory.disk import MemoryDisk

A = UUID(int=0xA)
LIE = make_pack(PackForm.TEXT, b"another text\n" * 10, PackCodec.STORED)[:-1] + b"!"
"""A pack whose content has another CRC-32."""


async def stored_batches(disk: MemoryDisk) -> list[tuple[dict[str, object], list[bytes]]]:
    """Return header and records of all batches."""
    return [batch for segment in await stored(disk) for batch in batches(segment)]


@pytest.mark.parametrize("codec", list(PackCodec))
@in_virtual_time
async def test_r8_a_pack_is_stored_unchanged_under_a_header_that_names_its_form(
    codec: PackCodec,
) -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        run, packed = pack_of(0, 0, 5000, codec=codec)
        await peer.acknowledged(await peer.send_window((run, packed)))
    ((header, records),) = await stored_batches(world.disk)
    assert records == [packed]
    assert list(header)[:4] == ["v", "kind", "form", "source"]
    assert (header["kind"], header["form"], header["events"]) == ("data", "text", 500)
    assert (header["previous"], header["position"]) == (0, 5000)
    assert (header["records"], header["bytes"]) == (1, 8 + len(packed))
    assert world.counters.packs == 1


@in_virtual_time
async def test_r8_a_header_of_json_records_names_no_form() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(run_of(0, 0, 100, lines=10)))
    ((header, _),) = await stored_batches(world.disk)
    assert "form" not in header
    assert world.counters.packs == 0


@in_virtual_time
async def test_d1_a_window_mixes_packs_blocks_and_gaps_bare_and_in_envelopes() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        run, packed = pack_of(0, 0, 3000)
        body = pack(run.encode() + PackFrame.of(1, packed).encode())
        await peer.send(WindowFrame(1).encode(), EnvelopeFrame(body).encode())
        await peer.acknowledged(1)
        peer.sequence = 1
        runs = (run_of(0, 3000, 3100, lines=10), gap_of(0, 3100, 4000), pack_of(0, 4000, 9000))
        await peer.acknowledged(await peer.send_window(*runs))
    stored_now = await stored_batches(world.disk)
    assert [(header["previous"], header.get("form")) for header, _ in stored_now] == [
        (0, "text"),
        (3000, None),
        (3100, None),
        (4000, "text"),
    ]


@in_virtual_time
async def test_d3_a_pack_that_does_not_follow_is_answered_with_the_position() -> None:
    async with receiver() as world:
        peer = await world.native()
        position = await peer.register(0, A)
        assert isinstance(position, PositionFrame)
        assert position.number == ABSENT
        await peer.acknowledged(await peer.send_window(pack_of(0, 0, 1000)))
        last = await peer.send_window(pack_of(0, 2000, 3000))
        assert await peer.next() == PositionFrame(0, at(1000), position.store)
        await peer.acknowledged(last)
        await peer.acknowledged(await peer.send_window(pack_of(0, 1000, 3000)))
    assert [header["position"] for header, _ in await stored_batches(world.disk)] == [1000, 3000]


@in_virtual_time
async def test_r8_a_pack_whose_inside_lies_is_stored_all_the_same_and_harms_no_connection() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        run = RunFrame(0, 0, 0, at(130), 1, 0, 10, 1)
        await peer.acknowledged(await peer.send_window((run, LIE), pack_of(0, 130, 1000)))
    ((_, records), _) = await stored_batches(world.disk)
    assert records == [LIE]


@in_virtual_time
async def test_e1_a_pack_whose_head_contradicts_its_run_ends_the_connection() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        run, packed = pack_of(0, 0, 5000)
        wrong = RunFrame(0, 0, 0, at(4990), run.read, 0, run.events, 1)
        await peer.send_window((wrong, packed))
        refusal = await peer.next()
        assert isinstance(refusal, RefusalFrame)
        assert (refusal.index, refusal.code) == (CONNECTION, RefusalCode.PROTOCOL)
    assert await stored_batches(world.disk) == []


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        ((PACKED, NATIVE), PACKED),
        ((NATIVE, PACKED), PACKED),
        ((NATIVE,), NATIVE),
        ((NATIVE, "lumberjack/2"), NATIVE),
    ],
)
@in_virtual_time
async def test_tls_agrees_on_the_name_that_takes_packs_where_a_writer_knows_it(
    offered: tuple[str, ...], agreed: str
) -> None:
    async with receiver() as world:
        stream = await world.connect(alpn=offered)
        assert stream.peer.alpn == agreed
        peer = NativePeer(stream)
        await peer.register(0, A)
        # the name tells the writer only: a Z is taken by any
        await peer.acknowledged(await peer.send_window(pack_of(0, 0, 100)))
    ((header, _),) = await stored_batches(world.disk)
    assert header["source"] == str(source_id(A, "cn:web-1"))
    assert header["peer"] == {"address": "web-1", "identity": "cn:web-1", "dialect": "logdrive/1"}


@in_virtual_time
async def test_without_tls_packs_are_taken_too() -> None:
    async with receiver(config=configuration(tls="off")) as world:
        peer = await world.native(plain=True)
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(pack_of(0, 0, 100)))
    assert len(await stored_batches(world.disk)) == 1
