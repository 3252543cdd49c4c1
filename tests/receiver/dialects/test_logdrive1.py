"""What a receiver stores of `logdrive/1`, and when it acknowledges it (rules R4, D1–D3, D6)."""

from uuid import UUID

import pytest

from logdrive.model.identity import source_id
from logdrive.model.numbers import ABSENT, CLOSED
from logdrive.model.records import DATA, END, end_record
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonRun,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from tests.receiver.peers import at, content, gap_of, run_of
from tests.receiver.world import configuration, headers, in_virtual_time, ledger, receiver
from tests.support.virtual_time import EPOCH_MS

A, B = UUID(int=0xA), UUID(int=0xB)


@in_virtual_time
async def test_d2_a_window_is_acknowledged_only_once_its_runs_are_durable() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 2.0
        last = await peer.send_window(run_of(0, 0, 100, lines=10), run_of(0, 100, 250, lines=15))
        assert await peer.silent(1.9)
        await peer.acknowledged(last)
    delivered = (await ledger(world.disk)).sources[str(source_id(A, "cn:web-1"))]
    assert delivered.data == content(250)
    assert delivered.attributes == {
        "host": "web-1",
        "path": "/var/log/app.log",
        "fields": {"team": "a"},
        "tags": ["x"],
    }


@in_virtual_time
async def test_d2_the_position_told_is_the_durable_one_also_after_a_reconnect() -> None:
    async with receiver() as world:
        first = await world.native()
        position, other = await first.register(7, A), await first.register(8, B)
        assert isinstance(other, PositionFrame)
        assert position == PositionFrame(7, ABSENT, other.store)
        await first.acknowledged(await first.send_window(run_of(7, 0, 300, lines=30)))
        second = await world.native()
        position = await second.register(0, A)
        assert isinstance(position, PositionFrame)
        assert position.number == at(300)
    assert world.counters.sources_registered == 3


@in_virtual_time
async def test_r4_the_header_says_what_s_and_b_said_with_the_attributes_verbatim() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.send(SourceFrame(0, A, b'{"path":"/a.log","fields":{"b":1, "a":[]}}').encode())
        position = await peer.next()
        assert isinstance(position, PositionFrame)
        run, records = run_of(0, 0, 100, lines=10)
        run = RunFrame(0, DATA, run.previous, run.number, 1_234, 56, 10, 1)
        await peer.acknowledged(await peer.send_window((run, records)))
    (header,) = await headers(world.disk)
    assert header == {
        "v": 1,
        "kind": "data",
        "source": str(source_id(A, "cn:web-1")),
        "origin": str(A),
        "previous": 0,
        "position": 100,
        "records": 1,
        "events": 10,
        "bytes": 8 + len(records[0]),
        "skipped": 56,
        "read": 1_234,
        "received": header["received"],
        "store": str(position.store),
        "peer": {"address": "web-1", "identity": "cn:web-1", "dialect": "logdrive/1"},
        "attributes": {"path": "/a.log", "fields": {"b": 1, "a": []}},
        "mark": None,
    }
    assert EPOCH_MS <= header["received"] <= EPOCH_MS + 60_000
    assert list(header)[:6] == ["v", "kind", "source", "origin", "previous", "position"]


@in_virtual_time
async def test_r4_gaps_and_ends_are_marks_of_their_headers_and_an_end_closes_the_number() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        end = RunFrame(0, END, at(40), CLOSED + at(40), 0, 0, 0, 1), [end_record(40, "removed")]
        await peer.acknowledged(await peer.send_window(gap_of(0, 0, 40), end))
        again = await (await world.native()).register(0, A)
        assert isinstance(again, PositionFrame)
        assert again.number == CLOSED + at(40)
    gap, last = await headers(world.disk)
    assert (gap["kind"], gap["mark"]) == (
        "gap",
        {"start": 0, "end": 40, "reason": "removed", "end_exact": True},
    )
    assert (last["kind"], last["mark"], last["previous"], last["position"]) == (
        "end",
        {"end": 40, "reason": "removed"},
        40,
        40,
    )


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
@in_virtual_time
async def test_d1_windows_come_bare_or_in_envelopes_of_either_compression(codec: str) -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        run, records = run_of(0, 0, 5000, lines=500)
        body = pack(
            run.encode() + JsonRun.of(1, records).encode(), "zstd" if codec == "zstd" else "zlib"
        )
        await peer.send(WindowFrame(1).encode(), EnvelopeFrame(body).encode())
        await peer.acknowledged(1)
    assert content(5000) in (await ledger(world.disk)).by_data()


@in_virtual_time
async def test_d1_windows_in_flight_are_each_acknowledged_once_in_order() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.register(1, B)
        world.executor.delay = 0.5
        await peer.send(
            *(peer.window(run_of(n % 2, n // 2 * 10, n // 2 * 10 + 10)) for n in range(16))
        )
        for number in range(1, 17):
            await peer.acknowledged(number)


@in_virtual_time
async def test_d6_sources_of_two_identities_never_meet() -> None:
    async with receiver() as world:
        ours, theirs = (
            await world.native("web-1", "cn:web-1"),
            await world.native("web-2", "cn:web-2"),
        )
        await ours.register(0, A)
        await ours.acknowledged(await ours.send_window(run_of(0, 0, 100, lines=10)))
        position = await theirs.register(0, A)
        assert isinstance(position, PositionFrame)
        assert position.number == ABSENT
        await theirs.acknowledged(await theirs.send_window(run_of(0, 0, 50, lines=5)))
    assert {len(delivered.data) for delivered in (await ledger(world.disk)).sources.values()} == {
        100,
        50,
    }


@in_virtual_time
async def test_d6_configuration_can_fix_the_identity() -> None:
    async with receiver(config=configuration(identity="cn:fleet")) as world:
        for host, start in (("web-1", 0), ("web-2", 50)):
            peer = await world.native(host, f"cn:{host}")
            await peer.register(0, A)
            await peer.acknowledged(await peer.send_window(run_of(0, start, start + 50, lines=5)))
    assert list((await ledger(world.disk)).sources) == [str(source_id(A, "cn:fleet"))]


@in_virtual_time
async def test_without_tls_the_first_frame_tells_the_dialect() -> None:
    async with receiver(config=configuration(tls="off")) as world:
        peer = await world.native(plain=True)
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(run_of(0, 0, 100, lines=10)))
    assert list((await ledger(world.disk)).sources) == [str(source_id(A, ""))]


@pytest.mark.parametrize(
    "attributes",
    [
        b"[]",
        b"{",
        b'{"colour":"red"}',
        b'{"tags":"x"}',
        b'{"path":7}',
        b'{"fields":[]}',
        b'{"path":"\xff"}',
        b"null",
    ],
)
@in_virtual_time
async def test_e7_bad_attributes_refuse_their_source_alone(attributes: bytes) -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.send(SourceFrame(0, A, attributes).encode())
        refusal = await peer.next()
        assert isinstance(refusal, RefusalFrame)
        assert (refusal.index, refusal.code) == (0, RefusalCode.BAD_ATTRIBUTES)
        await peer.register(1, B)
        await peer.acknowledged(
            await peer.send_window(run_of(0, 0, 100, lines=10), run_of(1, 0, 100, lines=10))
        )
    assert list((await ledger(world.disk)).sources) == [str(source_id(B, "cn:web-1"))]


@in_virtual_time
async def test_an_index_that_was_freed_may_name_another_source() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(run_of(0, 0, 100, lines=10)))
        await peer.send(SourceFrame(0, A, b"").encode())
        assert isinstance(await peer.register(0, B), PositionFrame)
        await peer.acknowledged(await peer.send_window(run_of(0, 0, 50, lines=5)))
    assert {len(delivered.data) for delivered in (await ledger(world.disk)).sources.values()} == {
        100,
        50,
    }


@in_virtual_time
async def test_a_peer_that_waits_hears_from_us_every_few_seconds() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 10.0
        last = await peer.send_window(run_of(0, 0, 100, lines=10))
        for _ in range(3):
            assert await peer.next(3.1, keepalives=True) == AckFrame(0)
        assert await peer.next(keepalives=True) == AckFrame(last)
        assert await peer.silent(30)
    assert world.counters.keepalives == 3


@in_virtual_time
async def test_who_sends_a_window_over_a_slow_link_hears_from_us_while_it_is_on_its_way() -> None:
    """The kernel of its writer took all of it long ago: a minute of bytes on the way is a minute of
    silence to it.
    """
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        window = peer.window(run_of(0, 0, 100, lines=10), packed=True)
        for start in range(0, len(window), 10):
            await peer.send(window[start : start + 10])
            assert isinstance(await peer.next(3.1, keepalives=True), AckFrame)
        assert await peer.silent(30)
    assert world.counters.keepalives == len(window) // 10


@in_virtual_time
async def test_who_waits_for_its_position_hears_from_us_too() -> None:
    async with receiver() as world:
        first = await world.native()
        await first.register(0, A)
        world.executor.delay = 7.0
        await first.send_window(run_of(0, 0, 100, lines=10))
        second = await world.native()
        await second.send(SourceFrame(0, A, b"{}").encode())
        assert await second.next(keepalives=True) == AckFrame(0)
        position = await second.next()
        assert isinstance(position, PositionFrame)
        assert position.number == at(100)
