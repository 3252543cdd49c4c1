"""The sink onto a streaming service, against the store's own face (rules D2, D3, S1–S4)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.cluster import IN_FLIGHT_BYTES, Cluster, open_cluster
from logdrive.services.pravega.sink import PravegaSink
from logdrive.services.sink import NumberConflictError, Sink
from tests.receiver.world import in_virtual_time, stored
from tests.support.memory.transport import MemoryNetwork
from tests.support.service import HOST, PORT, StoreService
from tests.support.virtual_time import VirtualClock

SOURCE = UUID("00112233-4455-6677-8899-aabbccddeeff")
STORE_ID = UUID(int=7)


@contextlib.asynccontextmanager
async def service(
    network: MemoryNetwork, host: str = "receiver", *, in_flight_bytes: int = IN_FLIGHT_BYTES
) -> AsyncIterator[Cluster]:
    target = Target(HOST, PORT)
    random = Random(host)
    async with open_cluster(
        network.host(host),
        target,
        clock=VirtualClock(),
        random=random,
        in_flight_bytes=in_flight_bytes,
    ) as made:
        yield made


@contextlib.asynccontextmanager
async def sink(
    network: MemoryNetwork, host: str = "receiver", *, in_flight_bytes: int = IN_FLIGHT_BYTES
) -> AsyncIterator[PravegaSink]:
    async with service(network, host, in_flight_bytes=in_flight_bytes) as made:
        yield await of_stream(made)


async def of_stream(made: Cluster, segments: int = 1) -> PravegaSink:
    return await PravegaSink.open_stream(
        made, "logs", "events", segments=segments, store_id=STORE_ID
    )


def running(network: MemoryNetwork, sync_seconds: float = 0.01) -> StoreService:
    store = StoreService(network, sync_seconds=sync_seconds)
    store.start()
    return store


# Streams ----------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_new_stream_gets_its_segments_and_one_that_is_there_keeps_them() -> None:
    network = MemoryNetwork()
    store = running(network)
    async with service(network) as made:
        found = await of_stream(made, 4)
        as_sink: Sink = found
        assert as_sink.keeps_numbers
        assert as_sink.store_id == STORE_ID
        assert found.segments == tuple(f"logs/events/{n}.#epoch.0" for n in range(4))
        assert {found.segment_for(UUID(int=n).hex) for n in range(50)} == set(found.segments)
        with capture_logs() as said:
            for configured in (1, 9):
                assert (await of_stream(made, configured)).segments == found.segments
        assert [entry["configured"] for entry in said] == [1, 9]
    await store.end()


@in_virtual_time
async def test_a_service_that_is_away_at_the_start_is_waited_for_and_reported_once() -> None:
    network = MemoryNetwork()
    store = StoreService(network)
    with capture_logs() as said:
        async with service(network) as made:
            opening = asyncio.create_task(of_stream(made))
            await asyncio.sleep(600)
            assert not opening.done()
            store.start()
            assert (await opening).segments
    assert [entry["log_level"] for entry in said if "service" in entry] == ["warning", "info"]
    await store.end()


@in_virtual_time
async def test_somebody_else_at_the_address_is_no_service() -> None:
    network = MemoryNetwork()

    async def mute(stream: object) -> None:
        await asyncio.sleep(3600)

    listener = await network.host(HOST).listen("0.0.0.0", PORT, None, mute)
    async with service(network) as made:
        opening = asyncio.create_task(of_stream(made))
        await asyncio.sleep(60)
        assert not opening.done()
        assert "no greeting" in str(made.outage.reason)
        await listener.close()
        store = running(network)
        assert (await opening).segments
    await network.crash(HOST)
    await store.kill()


# Appending --------------------------------------------------------------------------------------


@in_virtual_time
async def test_appends_are_conditional_and_numbers_are_told_once_durable__D2_S2() -> None:
    network = MemoryNetwork()
    store = running(network, sync_seconds=1.0)
    async with sink(network) as made:
        segment = made.segment_for(SOURCE.hex)
        assert await made.open_writer(segment, SOURCE) == ABSENT
        first = made.append_batch(segment, SOURCE, [b"head", b"record"], 2, ABSENT, 65537)
        second = made.append_batch(segment, SOURCE, [b"more"], 2, 65537, 131073)
        with pytest.raises(NumberConflictError, match="131073"):
            made.append_batch(segment, SOURCE, [b"again"], 2, 65537, 200000)
        assert not first.done()
        assert await made.open_writer(segment, SOURCE) == 131073  # waits for what was submitted
        assert first.done()
        await asyncio.gather(first, second)
    await store.end()
    assert await stored(store.disk) == [b"headrecordmore"]


@in_virtual_time
async def test_a_writer_never_seen_need_not_be_opened_and_one_that_was_seen_must_be__S4() -> None:
    network = MemoryNetwork()
    store = running(network)
    async with sink(network) as made, sink(network, "other") as other:
        segment = made.segments[0]
        batches = [
            made.append_batch(segment, SOURCE, [b"%d" % n], 1, n - 1 or ABSENT, n)
            for n in range(1, 6)
        ]
        await asyncio.gather(*batches)
        with pytest.raises(NumberConflictError, match="open it"):
            other.append_batch(segment, SOURCE, [b"x"], 1, 5, 6)
        doubled = [
            other.append_batch(segment, SOURCE, [b"x"], 1, n - 1 or ABSENT, n) for n in (1, 2, 3)
        ]
        for each in doubled:
            with pytest.raises(TransientError, match="number 5 already"):
                await each
    await store.end()
    assert await stored(store.disk) == [b"12345"]


@in_virtual_time
async def test_too_much_in_flight_refused_for_now_and_cancelled_submitter_is_no_trouble() -> None:
    network = MemoryNetwork()
    store = running(network)
    async with sink(network, in_flight_bytes=10_000) as made:
        segment = made.segments[0]
        await made.open_writer(segment, SOURCE)
        # a single larger one still goes
        big = made.append_batch(segment, SOURCE, [bytes(20_000)], 1, ABSENT, 1)
        with pytest.raises(TransientError, match="20000 bytes wait"):
            await made.append_batch(segment, SOURCE, [b"x"], 1, 1, 2)
        big.cancel()
        await made.close()
        await made.append_batch(segment, SOURCE, [b"x"], 1, 1, 2)
    await store.end()
    assert [len(segment) for segment in await stored(store.disk)] == [20_001]


@in_virtual_time
async def test_a_sealed_segment_takes_nothing_and_is_told_of_once() -> None:
    network = MemoryNetwork()
    store = running(network)
    with capture_logs() as said:
        async with (
            sink(network) as made,
            connect_segment_store(network.host("other"), HOST, PORT) as client,
        ):
            segment = made.segments[0]
            await client.seal_segment(segment)
            for _ in range(3):
                assert await made.open_writer(segment, SOURCE) == ABSENT
                batches = [
                    made.append_batch(segment, SOURCE, [b"x"], 1, n - 1 or ABSENT, n)
                    for n in (1, 2, 3)
                ]
                for each in batches:
                    with pytest.raises(TransientError, match="sealed"):
                        await each
    assert [entry["segment"] for entry in said if entry["log_level"] == "error"] == [segment]
    await store.end()


@in_virtual_time
async def test_a_full_disk_at_the_service_is_transient_told_once_and_mended() -> None:
    network = MemoryNetwork()
    store = running(network)
    with capture_logs() as said:
        async with sink(network) as made:
            segment = made.segments[0]
            store.disk.capacity = 0
            for _ in range(5):
                assert await made.open_writer(segment, SOURCE) == ABSENT
                with pytest.raises(TransientError):
                    await made.append_batch(segment, SOURCE, [b"x"], 1, ABSENT, 1)
            store.disk.capacity = None
            assert await made.open_writer(segment, SOURCE) == ABSENT
            await made.append_batch(segment, SOURCE, [b"x"], 1, ABSENT, 1)
    told = [entry["event"] for entry in said if entry.get("service")]
    assert told[-2:] == [
        "the streaming service does not take appends: retrying",
        "the streaming service answers again",
    ]
    assert len(told) <= 4  # an outage at the start included
    assert "its log says why" in next(
        entry["reason"] for entry in reversed(said) if entry["event"] == told[-2]
    )
    await store.end()
    assert await stored(store.disk) == [b"x"]


# Connections that end ---------------------------------------------------------------------------


@in_virtual_time
async def test_what_in_flight_fails_at_once_when_service_goes_and_open_waits_until_back() -> None:
    network = MemoryNetwork()
    store = running(network, sync_seconds=1.0)
    async with sink(network) as made:
        segment = made.segments[0]
        await made.open_writer(segment, SOURCE)
        batches = [
            made.append_batch(segment, SOURCE, [b"x"], 1, n - 1 or ABSENT, n) for n in range(1, 4)
        ]
        await asyncio.sleep(0.1)
        await store.kill()
        assert all(each.done() for each in batches)
        for each in batches:
            with pytest.raises(TransientError):
                await each
        with pytest.raises(TransientError, match="away"):
            await made.append_batch(segment, SOURCE, [b"x"], 1, ABSENT, 1)
        opening = asyncio.create_task(made.open_writer(segment, SOURCE))
        await asyncio.sleep(9)
        assert not opening.done()
        store.start()
        assert await opening in (ABSENT, 1)
        with pytest.raises(NumberConflictError):
            made.append_batch(segment, SOURCE, [b"x"], 1, 3, 4)
    await store.end()


@in_virtual_time
async def test_an_open_gives_up_in_the_end__E3() -> None:
    network = MemoryNetwork()
    store = running(network)
    async with sink(network) as made:
        await store.kill()
        with pytest.raises(TransientError, match="no answer within"):
            await made.open_writer(made.segments[0], SOURCE)


@in_virtual_time
async def test_a_service_that_falls_silent_is_given_up_and_found_again_where_it_answers() -> None:
    network = MemoryNetwork()
    store = running(network)
    async with sink(network) as made:
        segment = made.segments[0]
        await made.open_writer(segment, SOURCE)
        network.partition("receiver", HOST)
        async with asyncio.timeout(90):
            with pytest.raises(TransientError):
                await made.append_batch(segment, SOURCE, [b"x"], 1, ABSENT, 1)
        network.heal("receiver", HOST)
        async with asyncio.timeout(20):
            number = await made.open_writer(segment, SOURCE)
        await made.append_batch(segment, SOURCE, [b"y"], 1, number, 2)
        await asyncio.sleep(3600)  # an idle connection is kept
        await made.append_batch(segment, SOURCE, [b"z"], 1, 2, 3)
    await store.end()


@in_virtual_time
async def test_a_service_that_takes_connections_and_says_nothing_is_not_waited_for() -> None:
    network = MemoryNetwork()

    async def says_nothing(stream: ByteStream) -> None:
        while await stream.read():
            pass

    store = running(network)
    async with sink(network) as made:
        await store.kill()
        deaf = await network.host(HOST).listen("0.0.0.0", PORT, None, says_nothing)
        await asyncio.sleep(10)
        assert network.connections("receiver", HOST), "a client is connected to it"
        await deaf.close()
        store.start()
        assert await made.open_writer(made.segments[0], SOURCE) == ABSENT
    await store.end()


@in_virtual_time
async def test_a_store_without_the_stream_takes_nothing_until_the_right_one_is_back__D2() -> None:
    """It may be one whose volume was not mounted: what is acknowledged there would be lost with
    it.
    """
    network = MemoryNetwork()
    store = StoreService(network)
    empty = store.disk.killed()
    store.start()
    async with sink(network) as made:
        (segment,) = made.segments
        await made.append_batch(segment, SOURCE, [b"x"], 1, ABSENT, 5)
        await store.kill()
        right, store.disk = store.disk, empty
        store.start()
        await asyncio.sleep(30)
        with pytest.raises(TransientError, match="no segment"):
            await made.open_writer(segment, SOURCE)
        await store.kill()
        store.disk = right
        store.start()
        await asyncio.sleep(30)
        assert await made.open_writer(segment, SOURCE) == 5
        await made.append_batch(segment, SOURCE, [b"y"], 1, 5, 6)
    await store.end()


@in_virtual_time
async def test_a_slow_connection_is_not_taken_for_a_dead_one() -> None:
    network = MemoryNetwork()
    store = running(network)
    async with service(network) as at:
        made = await of_stream(at)
        segment = made.segments[0]
        await made.open_writer(segment, SOURCE)
        link = network.link("receiver", HOST)
        link.delay, link.capacity = 1.0, 16 * 1024  # some 16 KB a second
        await made.append_batch(segment, SOURCE, [bytes(3_000_000)], 1, ABSENT, 1)
        assert asyncio.get_running_loop().time() > 100
        assert len(network.connections("receiver", HOST)) == 4
        assert at.outage.reason is None
    await store.end()


@in_virtual_time
async def test_an_open_given_up_halfway_leaves_no_older_number_in_force__S2() -> None:
    network = MemoryNetwork()
    store = running(network)
    async with sink(network) as made, sink(network, "other") as other:
        segment = made.segments[0]
        assert await made.open_writer(segment, SOURCE) == ABSENT
        assert await other.open_writer(segment, SOURCE) == ABSENT
        await other.append_batch(segment, SOURCE, [b"o"], 1, ABSENT, 5)
        network.link("receiver", HOST).delay = 1.0
        opening = asyncio.create_task(made.open_writer(segment, SOURCE))
        await asyncio.sleep(0.5)
        opening.cancel()
        with pytest.raises(NumberConflictError):
            made.append_batch(segment, SOURCE, [b"stale"], 1, ABSENT, 9)
        assert await made.open_writer(segment, SOURCE) == 5
        await made.append_batch(segment, SOURCE, [b"m"], 1, 5, 6)
    await store.end()
    assert await stored(store.disk) == [b"om"]


# Two receivers ----------------------------------------------------------------------------------


@in_virtual_time
async def test_history_11_older_receivers_run_on_its_way_refused_after_newer_ones_open__S2() -> (
    None
):
    network = MemoryNetwork()
    store = running(network)
    async with sink(network, "east") as east, sink(network, "west") as west:
        segment = east.segments[0]
        await east.open_writer(segment, SOURCE)
        await east.append_batch(segment, SOURCE, [b"[0,1)"], 1, ABSENT, 1)
        network.link("east", HOST).delay = 1.0
        late = [
            east.append_batch(segment, SOURCE, [b"[1,3)"], 1, 1, 3),
            east.append_batch(segment, SOURCE, [b"[3,4)"], 1, 3, 4),
        ]
        assert await west.open_writer(segment, SOURCE) == 1
        for each in late:
            with pytest.raises(TransientError):
                await each
        await west.append_batch(segment, SOURCE, [b"[1,2)"], 1, 1, 2)
        assert await east.open_writer(segment, SOURCE) == 2  # and back
        await east.append_batch(segment, SOURCE, [b"[2,5)"], 1, 2, 5)
        with pytest.raises(TransientError):
            await west.append_batch(segment, SOURCE, [b"[2,9)"], 1, 2, 9)
    await store.end()
    assert await stored(store.disk) == [b"[0,1)[1,2)[2,5)"]


async def _deliver(
    made: PravegaSink, source: UUID, upto: int, random: Random, acknowledged: list[int]
) -> None:
    """Do as a session does with one source: from the number told, runs of random length, several in
    flight, anew after any failure.
    """
    segment = made.segments[0]
    while True:
        try:
            number = await made.open_writer(segment, source)
            while number < upto:
                flight = []
                for _ in range(random.randint(1, 5)):
                    after = min(max(number, 0) + random.randint(1, 9), upto)
                    run = b"".join(
                        b"%s:%d;" % (source.hex[-1:].encode(), n)
                        for n in range(max(number, 0), after)
                    )
                    flight.append(
                        (after, made.append_batch(segment, source, [run], 1, number, after))
                    )
                    number = after
                    if after == upto:
                        break
                await asyncio.wait([future for _, future in flight])
                for after, future in flight:
                    if future.exception() is None:
                        acknowledged.append(after)
                if any(future.exception() for _, future in flight):
                    break
                await asyncio.sleep(random.random() * 0.02)
            else:
                return
        except (TransientError, NumberConflictError):
            await asyncio.sleep(random.random())


@pytest.mark.parametrize("seed", range(12))
@in_virtual_time
async def test_every_run_once_and_in_order_whatever_is_cut_or_powered_off__D3_S2(seed: int) -> None:
    """Two receivers, three sources each delivered by three sessions at once: nothing lost, doubled
    or out of order in the segment.
    """
    random = Random(seed)
    network = MemoryNetwork(random)
    store = running(network)
    acknowledged: dict[UUID, list[int]] = {UUID(int=n): [] for n in (1, 2, 3)}
    async with sink(network, "east") as east, sink(network, "west") as west:
        for host in ("east", "west"):
            network.link(host, HOST).delay, network.link(host, HOST).jitter = 0.003, 0.01
        async with asyncio.TaskGroup() as tasks:
            for source, acks in acknowledged.items():
                for made in (east, east, west):
                    tasks.create_task(_deliver(made, source, 400, Random(random.random()), acks))
            for _ in range(12):
                await asyncio.sleep(random.random())
                match random.randrange(4):
                    case 0:
                        network.cut("east", HOST)
                    case 1:
                        network.cut("west", HOST)
                    case _:
                        held = {
                            source: max(acks, default=0) for source, acks in acknowledged.items()
                        }
                        await store.kill(random if random.random() < 0.5 else None)
                        await asyncio.sleep(random.random())
                        store.start()
                        for source, most in held.items():
                            # S1: what was acknowledged is there
                            assert max(await east.open_writer(east.segments[0], source), 0) >= most
    await store.end()
    (whole,) = await stored(store.disk)
    for source in acknowledged:
        name = source.hex[-1:].encode()
        found = [
            int(event.partition(b":")[2])
            for event in whole.split(b";")
            if event.startswith(name + b":")
        ]
        assert found == list(range(400))
