"""Histories about failed runs, clones, restored and other stores, and thousands of sources."""

import errno

import pytest

from logdrive.model.numbers import ABSENT, position_of
from logdrive.wire.lumberjack.frames import RunFrame
from tests.agent.world import LOG, World, contents, lines
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.virtual_time import run

HEADER = b"# constant header of every life\n"


def test_h03_the_first_of_two_runs_fails_in_the_sink__P2_D3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        failures = [True, True]

        def fails(tried: RunFrame) -> bool:
            return tried.previous == 0 and bool(failures) and failures.pop()

        reader.fail = fails
        world.write(lines(0, 200_000))
        world.start()
        await world.settle()
        assert not failures
        assert reader.refused_runs > 2, "runs that followed the failed one were in flight"
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_bytes_that_cannot_be_read_to_judge_a_position_are_tried_again__D4() -> None:
    """One bad block in one file must not end the agent."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 500))
        await world.stop()
        world.forget()
        world.disk = disk = _BadBlock.of(world.disk)
        world.write(lines(500, 500))
        world.write(lines(0, 5, prefix="other"), "/logs/other.log")
        disk.bad = range(5_800, 6_000)
        agent = world.start()
        await world.clock.sleep(20)
        assert contents(world.stored("/logs/other.log")) == [lines(0, 5, prefix="other")]
        assert any("can't be read" in source.problem for source in agent.status().sources)
        disk.bad = range(0)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 1000)]
        assert len(reader.by_path(LOG)) == 1
        await world.stop()

    run(main())


class _BadBlock(MemoryDisk):
    """A disk that can't read the bytes at *bad* of any file."""

    bad = range(0)

    @classmethod
    def of(cls, disk: MemoryDisk) -> "_BadBlock":
        other = disk.killed()
        other.__class__ = cls
        assert isinstance(other, cls)
        return other

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        file = super().open(path, write=write, create=create, private=private, direct=direct)
        whole = file.pread

        def pread(size: int, offset: int) -> bytes:
            if offset < self.bad.stop and offset + size > self.bad.start and size <= 256:
                raise OSError(errno.EIO, "Input/output error")
            return whole(size, offset)

        file.pread = pread  # type: ignore[method-assign]
        return file


@pytest.mark.parametrize("number", [-1, -(1 << 62), ABSENT + 3])
def test_a_number_that_no_store_has_ends_the_connection_and_not_the_agent__P1(number: int) -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.number_for = lambda source, stored: number
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(5)
        assert "number" in agent.connection.problem
        reader.number_for = lambda source, stored: stored
        await world.settle(200)
        assert contents(world.stored()) == [lines(0, 10)]
        await world.stop()

    run(main())


def test_h05_two_clones_with_one_identity_and_one_template__P1_D4() -> None:
    async def main() -> None:
        one = World()
        reader = await one.reader()
        template = HEADER + lines(0, 50)
        one.write(template)
        other = World(seed=2)
        other.network, other.readers, other.disk = one.network, one.readers, one.disk.killed()
        one.write(lines(0, 500, prefix="one"))
        other.write(lines(0, 800, prefix="other"))
        one.start()
        await one.settle()
        other.start()
        await other.settle()
        found = contents(reader.by_path(LOG))
        assert one.disk.content(LOG) in found
        assert other.disk.content(LOG) in found
        assert other.agent is not None
        assert (
            "second writer" in other.agent.status().sources[0].problem
            or other.agent.status().sources[0].count == 1
        )
        await one.stop()
        await other.stop()

    run(main())


def test_h05_a_host_restored_from_a_snapshot__P1_D4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        await world.clock.sleep(2)
        snapshot = world.disk.killed()
        world.write(lines(100, 100, prefix="lost"))
        await world.settle()
        before = world.disk.content(LOG)
        await world.kill()
        world.disk = snapshot
        world.write(lines(100, 300, prefix="new"))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [before, world.disk.content(LOG)]
        for _ in range(2):
            assert [stored.attributes.get("resend", False) for stored in world.stored()] == [
                False,
                True,
            ]
            await world.kill()
            world.write(lines(400, 10))
            world.start()  # the checkpoint knows
            await world.settle()
        assert world.agent is not None
        assert all(source.resend for source in world.agent.registry.sources)
        await world.stop()

    run(main())


def test_h08_store_restored_after_a_generation_had_ended__D9_G6_D5() -> None:
    async def main() -> None:
        world = World(end_after_seconds=5)
        reader = await world.reader()
        world.write(lines(0, 100), "/logs/gone.log")
        world.write(lines(0, 10), "/logs/stays.log")
        world.start()
        await world.settle()
        backup = reader.backup()
        world.write(lines(100, 100), "/logs/gone.log")
        world.write(lines(10, 10), "/logs/stays.log")
        await world.settle()
        world.disk.remove("/logs/gone.log")
        await world.clock.sleep(10)
        await world.settle()
        (gone,) = world.stored("/logs/gone.log")
        assert gone.ended == (2400, "removed")
        for restart in (False, True):
            await world.crash_reader()
            if restart:
                await world.kill()
            reader.stored = {source: stored.copy() for source, stored in backup.items()}
            await world.reader()
            if restart:
                world.start()
            await world.clock.sleep(60)
            await world.settle()
            (gone,), (stays,) = world.stored("/logs/gone.log"), world.stored("/logs/stays.log")
            assert gone.gaps == [(1200, 2400, "removed", True)]
            assert gone.ended == (2400, "removed")
            assert stays.content == lines(0, 20)
        await world.stop()

    run(main())


def test_h13_to_another_embedded_store_and_back__D3_D5() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["east:5044", "west:5044"]
        await world.reader("east")
        world.start()
        number = 0
        for name, before in (
            ("west", "east"),
            ("east", "west"),
            ("west", "east"),
            ("east", "west"),
        ):
            world.write(lines(number, 1000))
            await world.clock.sleep(2)
            world.write(lines(number + 1000, 1000))
            await world.crash_reader(before)
            number += 2000
            await world.reader(name)
            await world.settle()
        whole = world.disk.content(LOG)
        covered: dict[int, bytes] = {}
        for name in ("east", "west"):
            (stored,) = world.stored(LOG, name)
            assert {reason for _, _, reason, _ in stored.gaps} <= {"elsewhere"}
            covered |= {start: data for start, _, data in stored.data}
            for start, end, data in stored.data:
                assert data == whole[start:end]
        ends = 0
        for start in sorted(covered):
            assert start <= ends, f"no store has the bytes {ends} to {start}"
            ends = max(ends, start + len(covered[start]))
        assert ends == len(whole)
        assert len(world.readers["east"].registered) + len(world.readers["west"].registered) < 20
        await world.stop()

    run(main())


def test_h24_one_source_that_can_never_match_among_many__D3_E6() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        for number in range(300):
            world.write(lines(0, 5), f"/logs/{number:03d}.log")
        world.write(b"bad\n" + lines(0, 5), "/logs/bad.log")
        size = len(world.disk.content("/logs/bad.log"))
        reader.fail = lambda tried: position_of(tried.number) == size
        world.start()
        await world.clock.sleep(30)
        assert all(
            world.stored(f"/logs/{number:03d}.log")[0].content == lines(0, 5)
            for number in range(300)
        )
        registered = [frame for frame in reader.registered if b"bad.log" in frame.attributes]
        assert len(registered) <= 9, "eight counts and no second try within a minute"
        assert world.agent is not None
        (status,) = [s for s in world.agent.status().sources if s.path == "/logs/bad.log"]
        assert status.state == "paused"
        assert "E 6" in status.problem
        reader.fail = lambda tried: False
        await world.clock.sleep(200)
        assert contents(world.stored("/logs/bad.log")) == [world.disk.content("/logs/bad.log")]
        await world.stop()

    run(main())


def test_h25_thousands_of_sources_at_a_line_a_second__D9() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        paths = [f"/logs/{number:04d}.log" for number in range(2000)]
        for path in paths:
            world.write(lines(0, 1), path)
        world.start()
        await world.settle()
        assert reader.most_unanswered <= 256
        windows = reader.windows
        seconds = 10
        for second in range(1, seconds + 1):
            for path in paths:
                world.write(lines(second, 1), path)
            await world.clock.sleep(1)
        assert reader.windows - windows < seconds * 20, "lines of many sources share windows"
        await world.clock.sleep(4)
        stored = {each.path: each.content for each in reader.stored.values() if each.content}
        assert all(stored[path] == lines(0, seconds + 1) for path in paths)
        await world.stop()

    run(main())
