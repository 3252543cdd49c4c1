"""`agent ship`: everything arrives, a second run sends nothing, and what can't be shipped is
reported (P3, G3).
"""

import asyncio
import errno
from typing import Any

import pytest

from agent.inputs.files.tail import Tailer
from agent.ship import Shipped, output_for, ship
from agent.sources.source import Source
from logdrive.errors import ConfigError, RejectedError, TransientError
from logdrive.host.host import Host
from logdrive.host.transport import ByteStream
from logdrive.model.units import MIB
from logdrive.net.settings import ClientTlsConfig
from tests.agent.world import LOG, World, contents, lines
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.virtual_time import run


async def shipped(
    world: World, *files: str, dialect: str = "logdrive/1", tls: Any = "off", **options: Any
) -> Shipped:
    table = ClientTlsConfig(**tls) if tls != "off" else tls
    return await ship(
        files or (LOG,),
        output_for("reader", table, windows_in_flight=2, window_bytes=MIB, dialect=dialect),
        host=Host(
            clock=world.clock,
            disk=world.disk,
            transport=world.network.host("agent", identity="dns:agent"),
            executor=InlineExecutor(),
            random=world.random,
        ),
        agent="a",
        host_name="h",
        **options,
    )


def test_everything_arrives_and_a_second_run_sends_nothing__G3_D3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        files = [f"/logs/{number}.log" for number in range(30)]
        for number, path in enumerate(files):
            world.write(lines(0, 50 * number + 1) + b"no newline", path)
        first = await shipped(world, *files)
        assert first.complete
        assert (
            first.bytes == first.total_bytes == sum(len(world.disk.content(path)) for path in files)
        )
        assert all(contents(world.stored(path)) == [world.disk.content(path)] for path in files)
        assert reader.most_unanswered <= 256
        windows = reader.windows
        second = await shipped(world, *files)
        assert (second.bytes, second.events, second.complete, reader.windows) == (
            0,
            0,
            True,
            windows,
        )

    run(main())


@pytest.mark.parametrize("after", [b"", b"another\n", b"other"])
@pytest.mark.parametrize("seen", [True, False])
def test_a_file_truncated_while_its_position_is_asked_for_is_shipped_as_it_is_then__G3(
    monkeypatch: pytest.MonkeyPatch, after: bytes, *, seen: bool
) -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(b"no newline")
        await shipped(world)
        verify = Tailer.verify_source

        def truncate_and_verify(tailer: Tailer, source: Source) -> bool:
            if not seen:
                verify(tailer, source)
            if world.disk.content(LOG) == b"no newline":
                world.truncate()
                world.write(after)
            return verify(tailer, source) if seen else True

        monkeypatch.setattr(Tailer, "verify_source", truncate_and_verify)
        assert (await shipped(world)).complete
        assert contents(world.stored()) == [b"no newline", *([after] if after else [])]

    run(main())


def test_a_third_run_sends_what_was_added__P3() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(b"one\ntw")
        await shipped(world)
        world.write(b"o\nthree\n")
        assert (await shipped(world)).bytes == 8
        assert contents(world.stored()) == [b"one\ntwo\nthree\n"]

    run(main())


def test_h16_a_file_without_a_first_line_is_shipped_whole_and_ended__P3() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(b"no line yet")
        await shipped(world)
        (stored,) = world.stored()
        assert (stored.content, stored.ended) == (b"no line yet", (11, "shipped"))
        again = await shipped(world)
        assert (again.bytes, again.complete) == (0, True)
        world.write(b", but now\n")
        await shipped(world)
        assert contents(world.stored()) == [b"no line yet", b"no line yet, but now\n"]
        assert (await shipped(world)).bytes == 0

    run(main())


def test_h16_a_shipment_cut_off_before_its_end_record_is_ended_by_the_next__P3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        world.write(b"no line yet")
        reader.fail = lambda tried: tried.kind == 2
        with pytest.raises(TransientError):
            await shipped(world, give_up_seconds=20)
        assert world.stored()[0].ended is None
        reader.fail = lambda tried: False
        await shipped(world)
        assert world.stored()[0].ended == (11, "shipped")

    run(main())


def test_an_agent_goes_on_where_a_shipment_ended__G3() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 10))
        await shipped(world)
        world.write(lines(10, 10))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_empty_files_and_files_named_twice() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(b"", "/logs/empty.log")
        world.write(lines(0, 3))
        done = await shipped(world, LOG, "/logs/empty.log", "/logs/../logs/app.log")
        assert (done.files, done.events, done.complete) == (2, 3, True)
        assert (await shipped(world, "/logs/empty.log")).complete

    run(main())


def test_files_that_cannot_be_read_are_named_all_at_once() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 3))
        world.write(b"compressed", "/logs/app.log.1.gz")
        with pytest.raises(ConfigError) as caught:
            await shipped(world, LOG, "/logs/none.log", "/logs", "/logs/app.log.1.gz")
        refused = ["/logs/none.log", "/logs", "/logs/app.log.1.gz"]
        assert [mistake.value for mistake in caught.value.mistakes] == refused
        assert caught.value.mistakes[2].remedy == "it is compressed: unpack it first"

    run(main())


class _FewHandles(MemoryDisk):
    """A disk of a process that may open only *handles* more files."""

    handles = 1000

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        if self.handles == 0:
            raise OSError(errno.EMFILE, "Too many open files", path)
        self.handles -= 1
        return super().open(path, write=write, create=create, private=private, direct=direct)


def test_a_limit_of_open_files_is_named_once() -> None:
    async def main() -> None:
        world = World()
        world.disk = disk = _FewHandles(["/logs"])
        paths = [f"/logs/{number:02d}.log" for number in range(40)]
        for path in paths:
            world.write(lines(0, 1), path)
        disk.handles = 5
        with pytest.raises(ConfigError) as caught:
            await shipped(world, *paths)
        (mistake,) = caught.value.mistakes
        assert mistake.remedy.startswith("no more than 5 of 40 can be open")

    run(main())


def test_no_receiver_and_a_refusal_end_with_their_reason() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 3))
        steps: list[Shipped] = []
        with pytest.raises(TransientError, match="connection refused"):
            await shipped(world, give_up_seconds=10, progress=steps.append)
        assert any("connection refused" in each.problem for each in steps)
        reader = await world.reader()
        reader.refuse = lambda frame: (5, "no route for this")
        began = world.clock.monotonic()
        with pytest.raises(TransientError, match="no route for this"):
            await shipped(world)
        assert world.clock.monotonic() - began < 5

    run(main())


def test_a_refusal_that_will_stay_ends_at_once_and_a_restart_does_not() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 3))
        closed = [0]

        async def close(stream: ByteStream) -> None:
            await stream.read()
            closed[0] += 1
            await stream.close()

        listener = await world.network.host("reader").listen("0.0.0.0", 5044, None, close)
        began = world.clock.monotonic()
        with pytest.raises(RejectedError, match="is TLS on at both ends"):
            await shipped(world, give_up_seconds=600)
        assert (closed[0], world.clock.monotonic() - began < 10) == (3, True)

        async def twice() -> None:
            while closed[0] < 5:
                await world.clock.sleep(0.01)
            await listener.close()
            await world.reader()

        restart = asyncio.get_running_loop().create_task(twice())
        assert (await shipped(world)).complete
        await restart

    run(main())


def test_progress_is_reported() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 0.1
        world.write(lines(0, 300_000))
        steps: list[Shipped] = []
        await shipped(world, progress=steps.append)
        assert [each.left for each in steps] == sorted((each.left for each in steps), reverse=True)
        assert steps[-1].left == 0
        assert len({each.left for each in steps}) > 2

    run(main())


def test_a_shipment_survives_broken_connections__D3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 0.05
        world.write(lines(0, 500_000))
        cuts = [3]

        def cut(_: Shipped) -> None:
            if world.random.random() < 0.2 and cuts[0]:
                cuts[0] -= 1
                world.network.cut("agent")

        done = await shipped(world, progress=cut)
        assert done.complete
        assert contents(world.stored()) == [world.disk.content(LOG)]

    run(main())
