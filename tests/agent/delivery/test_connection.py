"""Connector and session: which host is next, when it connects again, and how silent, slow and
refusing receivers are handled (D9, codes of E).
"""

import pytest
from structlog.testing import capture_logs

from agent.delivery.refusals import refusal_pause_seconds
from agent.sources.connection_queue import ConnectionQueue
from agent.sources.registration import SourceState
from logdrive.host.transport import ByteStream
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


def test_failover_to_the_host_that_answers() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["one:5044", "two:5044", "three:5044"]
        await world.reader("three")
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        assert contents(world.stored(LOG, "three")) == [lines(0, 10)]
        assert world.agent is not None
        assert world.agent.status().host == "three:5044"
        await world.stop()

    run(main())


def test_a_draining_receiver_is_left_for_another_at_once__E0() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["one:5044", "two:5044"]
        one, two = await world.reader("one"), await world.reader("two")
        one.store = two.store
        two.stored = one.stored
        world.write(lines(0, 10))
        agent = world.start()
        await world.settle()
        here = agent.status().host.split(":")[0]
        began = world.clock.monotonic()
        await world.readers[here].drain()
        world.write(lines(10, 10))
        while agent.status().host in ("", f"{here}:5044"):
            await world.clock.sleep(0.01)
        assert world.clock.monotonic() - began < 0.1
        await world.settle()
        assert contents(world.stored(LOG, "one")) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_connected_is_logged_after_failures_only_once_the_receiver_has_answered() -> None:
    async def main() -> None:
        world = World()

        async def turn_away(_stream: ByteStream) -> None:
            """End the connection at once, as TLS 1.3 does for want of a client's certificate."""

        host = world.network.host("reader")
        listener = await host.listen("0.0.0.0", 5044, None, turn_away)
        world.write(lines(0, 10))
        with capture_logs() as logs:
            world.start()
            await world.clock.sleep(120)
        events = [entry["event"] for entry in logs if entry["event"].startswith("connect")]
        assert events.count("connection failed") > 3
        assert events.count("connected") == 1

        await listener.close()
        await world.reader()
        with capture_logs() as logs:
            await world.settle(200)
        events = [entry["event"] for entry in logs if entry["event"].startswith("connect")]
        assert events[-1] == "connected"
        await world.stop()

    run(main())


def test_connected_is_logged_after_a_failure_though_there_is_nothing_to_send() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["timeout_seconds"] = 8
        await world.ships(lines(0, 10))
        with capture_logs() as logs:
            await world.crash_reader()
            await world.clock.sleep(10)
            reader = await world.reader()
            connections = reader.connections
            await world.clock.sleep(60)
        assert reader.connections == connections + 1
        events = [entry["event"] for entry in logs if entry["event"].startswith("connect")]
        assert events.count("connected") == 1
        assert events[-1] == "connected"
        await world.stop()

    run(main())


@pytest.mark.parametrize(("code", "most"), [(3, 30), (4, 4), (1, 4)])
def test_a_refusing_receiver_is_tried_again_later_for_graver_reasons(code: int, most: int) -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        world.start()
        for _ in range(180):
            await world.clock.sleep(1)
            await reader.drain(code, "no")
        assert 1 < reader.connections <= most
        assert world.agent is not None
        await world.kill()

    run(main())


def test_a_silent_receiver_is_given_up__timeout() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        world.write(lines(0, 10))
        agent = world.start()
        await world.settle()
        reader.silent = True
        world.write(lines(10, 10))
        await world.clock.sleep(25)
        assert reader.connections == 1
        await world.clock.sleep(20)
        assert reader.connections > 1
        reader.silent = False
        await world.clock.sleep(60)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        assert agent.connection.problem == ""
        await world.stop()

    run(main())


def test_a_receiver_that_only_keeps_alive_is_given_up__stall() -> None:
    async def main() -> None:
        world = World()
        connections = 0

        async def accept(stream: ByteStream) -> None:
            nonlocal connections
            connections += 1
            await stream.read()
            while True:
                await world.clock.sleep(3)
                await stream.write([b"2A\0\0\0\0"])

        await world.network.host("reader").listen("0.0.0.0", 5044, None, accept)
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(290)
        assert connections == 1
        await world.clock.sleep(60)
        assert connections == 2
        assert agent.connection.session is not None
        await world.kill()

    run(main())


def test_a_receiver_that_only_keeps_alive_is_left_for_another_one() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["one:5044", "two:5044"]
        world.random.seed(2)
        stalls: list[str] = []

        async def keep_alive(stream: ByteStream) -> None:
            stalls.append("one")
            await stream.read()
            while True:
                await world.clock.sleep(3)
                await stream.write([b"2A\0\0\0\0"])

        await world.network.host("one").listen("0.0.0.0", 5044, None, keep_alive)
        two = await world.reader("two")
        world.write(lines(0, 10))
        agent = world.start()
        # from whichever host it begins with, it comes to the one that stalls, and leaves it
        for _ in range(20):
            if stalls:
                break
            await two.drain()
            await world.clock.sleep(1)
        world.write(lines(10, 10))
        await world.clock.sleep(330)
        await world.settle()
        assert agent.status().host == "two:5044"
        assert contents(world.stored(LOG, "two")) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_each_connection_asks_for_the_addresses_of_its_name() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["logs.example:5044"]
        one, two = await world.reader("one"), await world.reader("two")
        two.store, two.stored = one.store, one.stored
        asked: list[str] = []
        answer = "one"

        def resolve(host: str) -> str:
            asked.append(host)
            return answer

        world.network.resolve = resolve
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        answer = "two"
        await world.crash_reader("one")
        world.write(lines(10, 10))
        await world.settle()
        assert asked == ["logs.example"] * 2
        assert (one.connections, two.connections) == (1, 1)
        assert contents(world.stored(LOG, "two")) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_a_connection_closed_while_idle_is_made_again_when_there_is_data() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        await reader.drain(0, "idle")  # an E and an end: not while anything is awaited
        await world.clock.sleep(1)
        for stream in reader.streams:
            await stream.close()
        world.write(lines(10, 10))
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


@pytest.mark.parametrize(("idle", "failures"), [(True, 0), (False, 1)])
def test_only_a_receiver_that_leaves_while_something_waits_is_a_failure__E0(
    idle: bool, failures: int
) -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        agent = world.agent
        assert agent is not None
        before = agent.connection.counts.failed
        if not idle:
            reader.silent = True
            world.write(lines(10, 10))
            await world.clock.sleep(2)
        with capture_logs() as logged:
            await reader.drain(0, "idle for 900 s")
            reader.silent = False
            await world.settle()
        assert agent.connection.counts.failed - before == failures
        assert ("connection failed" in [each["event"] for each in logged]) == (not idle)
        assert agent.status().host == "reader:5044"
        await world.stop()

    run(main())


def test_a_connection_closed_while_sources_are_refused_is_made_again_when_their_pause_is_over() -> (
    None
):
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.refuse = lambda frame: (3, "full")
        world.network.cut("agent")
        world.write(lines(10, 10))
        await world.clock.sleep(2)
        assert world.agent is not None
        [source] = world.agent.registry.sources
        assert source.state is SourceState.PAUSED
        reader.refuse = lambda frame: None
        for stream in reader.streams:
            await stream.close()
        await world.clock.sleep(source.registration.retry_at - world.clock.monotonic() + 0.1)
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_refusals_never_leave_more_registrations_unanswered_than_allowed__D9_D1() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 0.3
        paths = [f"/logs/{number:03d}.log" for number in range(150)]
        for path in paths:
            world.write(lines(0, 3), path)
        refusals = [400]

        def refuse(_: object) -> tuple[int, str] | None:
            refusals[0] -= 1
            return (3, "stalled") if refusals[0] > 0 and refusals[0] % 3 == 0 else None

        reader.refuse = refuse
        world.start()
        await world.clock.sleep(60)
        await world.settle()
        assert all(contents(world.stored(path)) == [lines(0, 3)] for path in paths)
        assert reader.most_unanswered <= 256
        await world.stop()

    run(main())


def test_pauses_of_a_refused_source_grow_and_depend_on_the_reason__E() -> None:
    assert [refusal_pause_seconds(3, n, 0.0) for n in range(4)] == [1, 2, 4, 8]
    assert [refusal_pause_seconds(6, n, 0.0) for n in range(3)] == [60, 120, 240]
    assert refusal_pause_seconds(77, 0, 0.0) == 1, "unknown codes are taken as 9"
    assert [refusal_pause_seconds(code, 40, 0.0) for code in (3, 9, 77)] == [60, 60, 60]
    assert [refusal_pause_seconds(code, 40, 0.0) for code in (6, 8)] == [3600, 3600]
    assert refusal_pause_seconds(None, 9, 0.0) == 60, "a file may be readable again at any time"
    assert refusal_pause_seconds(5, 40, 0.999) <= 3600 * 1.5


def test_a_line_leaves_at_once_while_nothing_is_in_flight_else_it_may_wait__D9() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 1))
        for delay in (0.0, 1.0):
            reader.ack_seconds = delay
            began = world.clock.monotonic()
            before = reader.windows
            world.write(lines(1, 1))
            while reader.windows == before:
                await world.clock.sleep(0.01)
            assert world.clock.monotonic() - began < 0.3, "polling included"
        world.write(lines(2, 1))  # one window is in flight
        began, before = world.clock.monotonic(), reader.windows
        while reader.windows == before:
            await world.clock.sleep(0.01)
        assert 0.2 <= world.clock.monotonic() - began < 0.7
        await world.settle()
        await world.stop()

    run(main())


def test_a_window_is_due_by_the_age_or_the_amount_of_its_data__D9() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 1))
        world.write(lines(0, 40_000), "/logs/big.log")
        agent = world.start()
        await world.clock.sleep(1)
        await world.kill()
        small, big = agent.registry.sources
        for source in (small, big):
            source.open_unregistered()
        demand = ConnectionQueue()
        assert demand.seconds_until_due(0.0, in_flight=False, open_sources=1) is None
        demand.enqueue(small, 10.0)
        assert demand.seconds_until_due(10.0, in_flight=False, open_sources=1) == 0.0
        assert demand.seconds_until_due(10.05, in_flight=True, open_sources=1) == pytest.approx(
            0.15
        )
        assert demand.seconds_until_due(10.05, in_flight=True, open_sources=5000) == pytest.approx(
            0.95
        )
        assert demand.seconds_until_due(
            10.05, in_flight=True, open_sources=50_000
        ) == pytest.approx(1.95)
        demand.enqueue(big, 10.05)
        assert demand.seconds_until_due(10.05, in_flight=True, open_sources=50_000) == 0.0
        assert demand.next_to_send() is small
        assert demand.next_to_send() is big
        assert not demand

    run(main())
