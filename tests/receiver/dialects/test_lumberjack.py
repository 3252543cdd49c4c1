"""Plain Lumberjack v1 and v2 peers over a whole receiver: the rules that satisfy every deployed
writer, history 10, rule R4.
"""

import asyncio
import base64
import errno
from typing import Any

import orjson
import pytest
import structlog

from logdrive.errors import TransientError
from logdrive.model.identity import NAMESPACE, source_id
from logdrive.model.limits import EVENT_BYTES, RECORD_BYTES, RUN_BYTES
from logdrive.model.units import MIB
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonRun,
    KeyValueFrame,
    WindowFrame,
)
from tests.receiver.peers import Peer
from tests.receiver.world import configuration, headers, in_virtual_time, ledger, receiver, stored
from tests.support.ledger import batches


def events(count: int, first: int = 0) -> list[bytes]:
    return [orjson.dumps({"message": f"event {number}"}) for number in range(first, first + count)]


def bare(payloads: list[bytes], first: int = 1) -> bytes:
    return JsonRun.of(first, payloads).encode()


def packed(payloads: list[bytes], first: int = 1) -> bytes:
    return EnvelopeFrame(pack(bare(payloads, first))).encode()


async def _ack(peer: Peer, number: int, version: bytes = b"2") -> None:
    frame = await peer.next()
    assert frame == AckFrame(number), f"{frame} instead of A {number}"
    assert peer.version == version


async def _delivered(world: Any) -> list[bytes]:
    return (await ledger(world.disk)).foreign


# Windows and acknowledgements -------------------------------------------------------------------


@pytest.mark.parametrize("envelope", [False, True])
@in_virtual_time
async def test_a_window_is_acknowledged_with_its_last_number_once_it_is_durable(
    envelope: bool,
) -> None:
    async with receiver() as world:
        peer = await world.foreign()
        world.executor.delay = 2.0
        await peer.send(WindowFrame(5).encode(), (packed if envelope else bare)(events(5)))
        assert await peer.silent(1.9)
        await _ack(peer, 5)
    assert await _delivered(world) == events(5)


@pytest.mark.parametrize("announced", [1, 2, 998])
@in_virtual_time
async def test_a_run_of_many_windows_is_acknowledged_window_by_window(announced: int) -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(announced).encode(), packed(events(2 * 998)))
        for number in range(announced, 2 * 998 + 1, announced):
            await _ack(peer, number)
    assert await _delivered(world) == events(2 * 998)


@in_virtual_time
async def test_numbers_that_run_on_over_windows_are_acknowledged_as_they_are() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        for first in (0, 3, 6):
            await peer.send(WindowFrame(3).encode(), packed(events(3, first), first + 1))
            await _ack(peer, first + 3)
    assert await _delivered(world) == events(9)


@in_virtual_time
async def test_windows_in_flight_with_same_numbers_get_acknowledgement_each_and_no_more() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(
            *(WindowFrame(4).encode() + packed(events(4, first)) for first in (0, 4, 8))
        )
        for _ in range(3):
            await _ack(peer, 4)
        assert await peer.silent(60)
    assert await _delivered(world) == events(12)


@in_virtual_time
async def test_a_short_window_ends_where_the_next_is_announced() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(
            WindowFrame(100).encode(),
            packed(events(3)),
            WindowFrame(2).encode(),
            packed(events(2, 3)),
        )
        await _ack(peer, 3)
        await _ack(peer, 2)
    assert await _delivered(world) == events(5)


@in_virtual_time
async def test_events_beyond_the_window_are_kept_too() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(2).encode(), bare(events(3)))
        await _ack(peer, 2)
        await _ack(peer, 3)  # after a moment's silence
    assert await _delivered(world) == events(3)


@in_virtual_time
async def test_a_window_inside_the_envelope_with_numbers_from_0() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(EnvelopeFrame(pack(WindowFrame(3).encode() + bare(events(3), 0))).encode())
        await _ack(peer, 2)
    assert await _delivered(world) == events(3)


@in_virtual_time
async def test_a_window_of_no_events_is_answered_at_once() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(0).encode())
        assert await peer.next(1.0, keepalives=True) == AckFrame(0)
        await peer.send(WindowFrame(1).encode(), bare(events(1)))
        await _ack(peer, 1)


@in_virtual_time
async def test_a_window_announced_as_of_four_thousand_million_events_takes_no_memory() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(2**32 - 1).encode(), bare(events(3), 0))
        await _ack(peer, 2)
        assert world.counters.bytes < 1000


@in_virtual_time
async def test_events_without_a_window_are_acknowledged_after_a_silence() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(bare(events(2)))
        await _ack(peer, 2)
        await peer.send(bare(events(1, 2), 3))
        await _ack(peer, 3)


@in_virtual_time
async def test_a_waiting_v2_peer_hears_from_us_also_on_a_window_half_received() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(4).encode(), packed(events(2)))
        assert await peer.next(3.2, keepalives=True) == AckFrame(0)
        assert await peer.next(3.2, keepalives=True) == AckFrame(0)
        world.executor.delay = 4.0
        await peer.send(packed(events(2, 2), 3))
        frames = [await peer.next(keepalives=True) for _ in range(2)]
        assert frames == [AckFrame(0), AckFrame(4)]
        assert await peer.silent(60)


@in_virtual_time
async def test_a_peer_that_takes_no_acknowledgements_is_cut_off_and_does_not_stop_others() -> None:
    async with receiver() as world:
        world.network.link("deaf", "receiver").capacity = 64
        deaf, good = await world.foreign("deaf"), await world.foreign("good")
        with pytest.raises(TransientError):
            await _send_for_ever(deaf)
        await good.send(WindowFrame(1).encode(), bare(events(1)))
        await _ack(good, 1)


async def _send_for_ever(peer: Peer) -> None:
    while True:
        await peer.send(WindowFrame(1).encode(), bare(events(1)))
        await asyncio.sleep(0.1)


@in_virtual_time
async def test_a_peer_that_never_ends_its_window_is_idle_all_the_same() -> None:
    async with receiver(config=configuration(idle_seconds=20.0)) as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(4).encode(), packed(events(2)))
        assert await peer.next(30.0) is None


@in_virtual_time
async def test_the_peer_that_only_ended_its_side_still_gets_its_acknowledgement() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        world.executor.delay = 2.0
        await peer.send(WindowFrame(2).encode(), packed(events(2)))
        await peer.stream.end_writing()  # type: ignore[attr-defined]
        await _ack(peer, 2)
        assert await peer.next() is None


# Version 1 --------------------------------------------------------------------------------------


@in_virtual_time
async def test_v1_events_are_json_records_with_their_keys_as_given_and_acknowledged_in_v1() -> None:
    pairs = (("line", 'say "hi"'), ("host.name", "old-1"), ("offset", "17"))
    async with receiver() as world:
        peer = await world.foreign()
        frames = b"".join(KeyValueFrame(number, pairs).encode() for number in (1, 2))
        await peer.send(WindowFrame(2).encode(b"1"), EnvelopeFrame(pack(frames)).encode(b"1"))
        await _ack(peer, 2, b"1")
    assert [orjson.loads(record) for record in await _delivered(world)] == [dict(pairs)] * 2


@in_virtual_time
async def test_v1_peers_never_get_a_keepalive_since_they_take_any_answer_for_success() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        world.executor.delay = 20.0
        await peer.send(WindowFrame(1).encode(b"1"), KeyValueFrame(1, (("line", "x"),)).encode())
        assert await peer.silent(19.5)
        await _ack(peer, 1, b"1")


@in_virtual_time
async def test_v1_streaming_clients_announce_one_window_and_are_acknowledged_when_quiet() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(
            WindowFrame(3).encode(b"1"),
            *(KeyValueFrame(number, (("line", str(number)),)).encode() for number in range(1, 8)),
        )
        for number in (3, 6, 7):
            await _ack(peer, number, b"1")
        assert await peer.silent(30)
    assert [orjson.loads(record)["line"] for record in await _delivered(world)] == list("1234567")


# What is stored ---------------------------------------------------------------------------------


@in_virtual_time
async def test_r4_foreign_batches_have_a_header_without_positions() -> None:
    async with receiver() as world:
        peer = await world.foreign("beat-7", "dns:beat-7")
        await peer.send(WindowFrame(1).encode(), bare(events(1)))
        await _ack(peer, 1)
    (header,) = await headers(world.disk)
    assert (
        header["kind"],
        header["origin"],
        header["previous"],
        header["position"],
        header["mark"],
    ) == ("foreign", None, None, None, None)
    assert header["source"] == str(source_id(source_id(NAMESPACE, "beat-7"), "dns:beat-7"))
    assert header["peer"] == {
        "address": "beat-7",
        "identity": "dns:beat-7",
        "dialect": "lumberjack/2",
    }
    assert (header["records"], header["events"], header["attributes"]) == (1, 1, {})


@in_virtual_time
async def test_history_10_a_record_that_looks_like_a_header_is_a_record() -> None:
    forged = b'{"logdrive":{"v":1,"kind":"data","source":"x","bytes":0,"records":0}}'
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(3).encode(), bare([forged, *events(1), forged]))
        await _ack(peer, 3)
    assert await _delivered(world) == [forged, *events(1), forged]


@in_virtual_time
async def test_bytes_no_json_are_kept_and_acknowledged_so_nobody_resends_them_for_ever() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(3).encode(), packed([b"not json", b"\xff\x00", b"[1]"]))
        await _ack(peer, 3)
    assert await _delivered(world) == [b"not json", b"\xff\x00", b"[1]"]


@in_virtual_time
async def test_r3_a_large_window_becomes_several_batches_and_gets_one_acknowledgement() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(WindowFrame(5000).encode(), packed(events(5000)))
        await _ack(peer, 5000)
        assert await peer.silent(30)
    found = await headers(world.disk)
    assert [header["records"] for header in found] == [999, 999, 999, 999, 999, 5]
    assert await _delivered(world) == events(5000)


SIZES = {
    "1 byte over": RECORD_BYTES + 1,
    "two records": 2 * RECORD_BYTES,
    "10 MiB": 10 * MIB,
    "the limit": EVENT_BYTES,
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@in_virtual_time
async def test_r6_event_over_limit_of_record_stored_in_pieces_and_acknowledged_after_them(
    size: int,
) -> None:
    large = b"\xff" * size  # no JSON: pieces are of bytes
    async with receiver() as world:
        peer = await world.foreign()
        world.executor.delay = 1.0
        sending = asyncio.create_task(
            peer.send(WindowFrame(3).encode(), bare([*events(1), large, *events(1, 1)]))
        )
        assert await peer.silent(0.9)
        await _ack(peer, 3)
        await sending
        assert (world.counters.events, world.counters.dead_letters) == (3, 0)
    assert await _delivered(world) == [*events(1), large, *events(1, 1)]
    found = await headers(world.disk)
    assert sum(header["events"] for header in found) == 3
    assert all(header["bytes"] <= RUN_BYTES for header in found)
    assert not any(await stored(world.disk, "logs/events-dead"))


@in_virtual_time
async def test_r6_pieces_which_last_not_stored_not_acknowledged_and_event_sent_again_whole() -> (
    None
):
    large = b"l" * EVENT_BYTES  # more than the store writes at once
    async with receiver() as world:
        first = await world.foreign()
        world.executor.delay = 2.0
        sending = asyncio.create_task(first.send(WindowFrame(1).encode(), bare([large])))
        assert await first.silent(2.9)
        killed = world.disk.killed()
        await world.crash()
        await asyncio.gather(sending, return_exceptions=True)
    async with receiver(disk=killed) as world:
        again = await world.foreign()
        sending = asyncio.create_task(again.send(WindowFrame(1).encode(), bare([large])))
        await _ack(again, 1)
        await sending
    found = await ledger(world.disk)
    assert found.foreign == [large]
    assert [0 < len(begun) < len(large) for begun in found.unfinished.values()] == [True]


@in_virtual_time
async def test_r7_event_over_limit_of_all_dead_letter_logged_counted_and_noted_in_stream() -> None:
    # six times as long in JSON
    pairs = tuple((f"key {number}", "\x01" * MIB) for number in range(3))
    frames = b"".join(KeyValueFrame(number, pairs).encode() for number in (1, 2))
    with structlog.testing.capture_logs() as logs:
        async with receiver() as world:
            peer = await world.foreign()
            sending = asyncio.create_task(peer.send(WindowFrame(2).encode(b"1"), frames))
            await _ack(peer, 2, b"1")
            await sending
            assert world.counters.dead_letters == 2
    found = await headers(world.disk)
    size = len(orjson.dumps(dict(pairs)))
    assert size > EVENT_BYTES
    assert [
        (one["mark"]["reason"], one["mark"]["end"], one["records"], one["bytes"]) for one in found
    ] == [("dead_letter", size, 0, 0)] * 2
    (dead,) = await stored(world.disk, "logs/events-dead")
    pieces = [orjson.loads(record) for _, records in batches(dead) for record in records]
    first = [piece for piece in pieces if piece["dead_letter"]["id"] == found[0]["mark"]["letter"]]
    assert orjson.loads(
        b"".join(base64.b64decode(piece["original_base64"]) for piece in first)
    ) == dict(pairs)
    told = [log for log in logs if "dead letters" in log["event"]]
    assert [(log["log_level"], log.get("count"), log["bytes"]) for log in told] == [
        ("warning", None, size),
        ("warning", 2, 2 * size),
    ]


@in_virtual_time
async def test_s4_two_connections_of_one_host_share_a_segment_and_its_counting_writer() -> None:
    async with receiver() as world:
        first, second = await world.foreign(), await world.foreign()
        for number in range(5):
            for peer in (first, second):
                await peer.send(WindowFrame(1).encode(), bare(events(1, number)))
        for _ in range(5):
            await _ack(first, 1)
            await _ack(second, 1)
    assert sorted(await _delivered(world)) == sorted(events(5) * 2)


# Trouble ----------------------------------------------------------------------------------------


@in_virtual_time
async def test_sink_fails_closes_connection_without_acknowledgement_and_writer_sends_again() -> (
    None
):
    async with receiver() as world:
        first, other = await world.foreign(), await world.foreign("beat-2", "cn:beat-2")
        world.disk.fail_write(errno.ENOSPC)
        await first.send(WindowFrame(2).encode(), packed(events(2)))
        assert await first.next() is None
        again = await world.foreign()
        await again.send(WindowFrame(2).encode(), packed(events(2)))
        await _ack(again, 2)
        await other.send(WindowFrame(1).encode(), packed(events(1, 2)))
        await _ack(other, 1)
    assert sorted(await _delivered(world)) == events(3)


BAD = {
    "garbage": b"\x16\x03\x01\x02\x00garbage",
    "version 3": b"3W\0\0\0\x01",
    "an acknowledgement": b"2A\0\0\0\x01",
    "json of no bytes": b"2W\0\0\0\x012J\0\0\0\x01\0\0\0\0",
    "an envelope in an envelope": b"2W\0\0\0\x01" + EnvelopeFrame(pack(packed(events(1)))).encode(),
    "a bomb": b"2W\0\0\0\x01"
    + EnvelopeFrame(pack(b"2J\0\0\0\x01\x03\xff\xff\xff" + bytes(67_000_000))).encode(),
    "an envelope announced as of 4 GB": b"2W\0\0\0\x012C\xff\xff\xff\xff",
    "an event announced as of 4 GB": b"2W\0\0\0\x012J\0\0\0\x01\xff\xff\xff\xff",
}


@pytest.mark.parametrize("name", BAD)
@in_virtual_time
async def test_peer_breaks_protocol_is_closed_without_acknowledgement_and_others_go_on(
    name: str,
) -> None:
    async with receiver() as world:
        bad, good = await world.foreign("bad", "cn:bad"), await world.foreign()
        await bad.send(BAD[name])
        assert await bad.next() is None
        await good.send(WindowFrame(1).encode(), bare(events(1)))
        await _ack(good, 1)
        assert world.counters.protocol_errors == 1


@in_virtual_time
async def test_a_drain_finishes_what_was_received_acknowledges_it_and_closes() -> None:
    async with receiver() as world:
        whole, streaming = await world.foreign(), await world.foreign("beat-2", "cn:beat-2")
        world.executor.delay = 5.0
        await whole.send(WindowFrame(2).encode(), packed(events(2)))
        await streaming.send(
            WindowFrame(100).encode(b"1"), KeyValueFrame(1, (("line", "x"),)).encode()
        )
        await asyncio.sleep(0.1)
        world.stop.set()
        await _ack(whole, 2)
        await _ack(streaming, 1, b"1")
        assert await whole.next() is None
        assert await streaming.next() is None
        await world.task


@in_virtual_time
async def test_plain_tcp_serves_plain_peers_where_it_was_asked_for() -> None:
    async with receiver(config=configuration(tls="off")) as world:
        peer = await world.foreign(plain=True)
        await peer.send(WindowFrame(1).encode(), bare(events(1)))
        await _ack(peer, 1)
