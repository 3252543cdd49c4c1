"""The agent as a whole: the lines of a file arrive once and in order, whatever ends in between."""

import pytest
from structlog.testing import capture_logs

from logdrive.model.units import MIB
from tests.agent.world import LOG, World, contents, lines
from tests.support.memory.disk import MemoryFile
from tests.support.virtual_time import run


def test_written_lines_arrive__P1_D3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 100))
        world.write(lines(100, 50))
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        assert world.stored()[0].attributes == {"host": "h", "agent": "a", "path": LOG}
        assert reader.connections == 1
        await world.stop()

    run(main())


def test_a_chunk_that_is_encoded_bit_by_bit_arrives_whole__P1_R2() -> None:
    async def main() -> None:
        world = World()
        await world.ships(b"\xff\n" * 80_000 + lines(0, 10))
        assert world.agent is not None
        assert [source.position for source in world.agent.registry.sources] == [160_120]
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("forget", [False, True], ids=["checkpoint kept", "checkpoint lost"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_loses_and_doubles_no_line__D3_G3(end: str, forget: bool) -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 1000))
        for round_ in range(1, 4):
            world.start()
            await world.settle()
            await (world.stop() if end == "stop" else world.kill())
            if forget:
                world.forget()
            world.write(lines(round_ * 1000, 100))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_a_file_that_rotates_while_a_start_looks_for_it_is_found_without_a_warning__G1() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.stop()
        world.write(lines(10, 10))
        opened = world.disk.open

        def rotate_first(path: str, **how: bool) -> MemoryFile:
            if path == LOG:
                world.disk.open = opened  # type: ignore[method-assign]
                world.disk.replace(LOG, f"{LOG}.1")
            return opened(path, **how)

        world.disk.open = rotate_first  # type: ignore[method-assign]
        with capture_logs() as logs:
            world.start()
            await world.settle()
            await world.clock.sleep(15)
            await world.stop()
        assert contents(world.stored()) == [lines(0, 20)]
        assert not [line for line in logs if line["log_level"] != "info"], logs

    run(main())


def test_a_stop_ships_the_lines_written_before_it__drain() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.start()
        await world.settle()
        world.write(lines(0, 20_000))
        world.write(lines(0, 10), "/logs/new.log")
        await world.stop()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        assert contents(world.stored("/logs/new.log")) == [world.disk.content("/logs/new.log")]

    run(main())


def test_a_stop_looks_at_files_only_where_something_has_changed__drain() -> None:
    """A receiver that says nothing is no reason to look at files again and again."""

    async def main() -> None:
        world = World()
        world.settings["agent"]["drain_seconds"] = 5
        reader = await world.ships(lines(0, 10))
        reader.silent = True
        world.write(lines(10, 10))
        agent = world.agent
        assert agent is not None
        looks, look = 0, agent.tailer.poll_waiting

        def counted() -> bool:
            nonlocal looks
            looks += 1
            return look()

        agent.tailer.poll_waiting = counted  # type: ignore[method-assign]
        began = world.clock.monotonic()
        await world.stop()
        assert world.clock.monotonic() - began >= 5
        assert 1 <= looks < 10

    run(main())


def test_a_stop_without_a_receiver_ends_in_time__drain() -> None:
    async def main() -> None:
        world = World()
        world.settings["agent"]["drain_seconds"] = 5
        world.write(lines(0, 10))
        world.start()
        await world.clock.sleep(3)
        began = world.clock.monotonic()
        await world.stop()
        assert world.clock.monotonic() - began < 6

    run(main())


def test_a_receiver_that_dies_and_comes_back_gets_the_rest__D3() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.start()
        for round_ in range(5):
            world.write(lines(round_ * 3000, 3000))
            await world.clock.sleep(0.3)
            await world.crash_reader()
            world.write(lines(round_ * 3000, 10), "/logs/other.log")
            await world.clock.sleep(1)
            await world.reader()
        await world.settle(200)
        for path in (LOG, "/logs/other.log"):
            assert contents(world.stored(path)) == [world.disk.content(path)]
        await world.stop()

    run(main())


def test_lines_that_were_read_are_sent_before_more_are_read__D1() -> None:
    """Lines that are not UTF-8 make many runs of one read, and there are many files to catch up
    with.
    """

    async def main() -> None:
        world = World()
        world.settings["output"]["records"] = "block"
        reader = await world.reader()
        reader.ack_seconds = 0.5
        world.settings["output"].update(windows_in_flight=2, window_bytes=MIB)
        text = ("caf\xe9 " * 12 + "\n").encode("latin-1") * 5_000
        paths = [f"/logs/{number:02d}.log" for number in range(40)]
        for path in paths:
            world.write(text, path)
        agent = world.start()
        most = 0
        for _ in range(100):
            await world.clock.sleep(0.1)
            unsent = [
                run.size
                for source in agent.registry.sources
                for run in source.unacknowledged.runs[source.unacknowledged.sent :]
            ]
            most = max(most, sum(unsent))
        assert 0 < most < 10 * MIB
        await world.settle(200)
        for path in paths:
            assert contents(world.stored(path)) == [text]
        await world.stop()

    run(main())


def test_large_files_go_in_windows_that_are_bounded__D1() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 0.5
        world.settings["output"].update(windows_in_flight=4, window_bytes=MIB)
        world.write(lines(0, 800_000))
        agent = world.start()
        most = 0
        for _ in range(200):
            await world.clock.sleep(0.01)
            if agent.connection.session is not None:
                most = max(most, agent.connection.session.in_flight)
            kept = sum(
                run.size for source in agent.registry.sources for run in source.unacknowledged.runs
            )
            assert kept <= 5 * 1_700_000
        assert most == 4
        await world.settle(100)
        assert contents(world.stored()) == [world.disk.content(LOG)]
        assert reader.windows < 4 + len(world.disk.content(LOG)) / 900_000, (
            "all but the first few are full"
        )
        await world.stop()

    run(main())
