"""The histories of delivery.md §7 that break naive agents, each under virtual time against a reader whose store is a dict."""

import asyncio
from dataclasses import replace

from logdrive.disk import FileStat
from logdrive.record import END, GAP, position_of
from logdrive.wire.lumberjack.frames import Run
from tests.agent.world import LOG, World, contents, lines
from tests.support.memory_disk import MemoryDisk
from tests.support.memory_node import Node
from tests.support.virtual_time import run

HEADER = b"# constant header of every life\n"


def test_h02_copytruncated_and_checkpoint_lost__G3_D4() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        first = HEADER + lines(0, 10_000, prefix="first")
        world.write(first)
        world.start()
        await world.settle()
        world.truncate()
        world.write(HEADER + lines(0, 3000, prefix="second"))
        await world.settle()
        await world.kill()
        world.forget()
        world.write(lines(3000, 9000, prefix="second"))
        world.start()
        await world.settle()
        old, new = world.stored()
        assert old.content == first
        assert old.ended == (len(first), "truncated")
        assert new.content == world.disk.content(LOG)
        await world.stop()

    run(main())


def test_h02_truncated_while_away_and_checkpoint_lost__G3_D4() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        first = HEADER + lines(0, 1000, prefix="first")
        world.write(first)
        world.start()
        await world.settle()
        await world.kill()
        world.forget()
        world.truncate()
        world.write(HEADER + lines(0, 1200, prefix="second"))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [first, world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_h03_the_first_of_two_runs_fails_in_the_sink__P2_D3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        failures = [True, True]

        def fails(tried: Run) -> bool:
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


def test_h04_start_end_sigkill_before_first_ship__P2() -> None:
    async def main() -> None:
        world = World(start="end")
        skipped = lines(0, 100)
        world.write(skipped + b"half a li")
        world.write(b"no line yet", "/logs/short.log")
        world.start()  # no reader yet: nothing can be shipped
        await world.clock.sleep(2)
        world.write(b"ne\n" + lines(100, 5))
        await world.clock.sleep(2)
        await world.kill()
        world.write(lines(105, 5))
        world.write(b", now it is\n", "/logs/short.log")
        world.write(lines(0, 5), "/logs/later.log")
        await world.reader()
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert stored.content == world.disk.content(LOG)[len(skipped) :]
        assert stored.gaps == [(0, len(skipped), "not_wanted", True)]
        assert contents(world.stored("/logs/short.log")) == [world.disk.content("/logs/short.log")]
        assert contents(world.stored("/logs/later.log")) == [world.disk.content("/logs/later.log")]
        await world.stop()

    run(main())


def test_h04_start_end_tells_the_gap_even_if_nothing_grows__P2() -> None:
    async def main() -> None:
        world = World(start="end")
        await world.reader()
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert stored.gaps == [(0, 120, "not_wanted", True)]
        assert stored.content == b""
        await world.stop()

    run(main())


def test_h04_a_checkpoint_lost_later_does_not_move_the_start__P2() -> None:
    async def main() -> None:
        world = World(start="end")
        await world.reader()
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        world.write(lines(10, 10))
        await world.settle()
        await world.kill()
        world.forget()
        world.write(lines(20, 10))
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert stored.gaps == [(0, 120, "not_wanted", True)]
        assert stored.content == lines(10, 20)
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
        assert "second writer" in other.agent.status().sources[0].problem or other.agent.status().sources[0].count == 1
        await one.stop()
        await other.stop()

    run(main())


def test_h05_a_host_restored_from_a_snapshot__P1_D4() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 100))
        world.start()
        await world.settle()
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
        await world.stop()

    run(main())


def test_h06_regrown_past_the_position_between_two_polls__G4() -> None:
    async def main() -> None:
        for header in (HEADER, b""):
            world = World()
            await world.reader()
            first = HEADER + lines(0, 100, prefix="first")
            world.write(first)
            world.start()
            await world.settle()
            world.truncate()
            world.write(header + lines(0, 1000, prefix="second"))
            await world.settle()
            old, new = world.stored()
            assert old.content == first
            assert old.ended == (len(first), "truncated")
            assert new.content == world.disk.content(LOG)
            await world.stop()

    run(main())


def test_h06_rewritten_at_the_same_length__G4() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(HEADER + lines(0, 100, prefix="one"))
        world.start()
        await world.settle()
        world.truncate()
        world.write(HEADER + lines(0, 100, prefix="two"))
        await world.clock.sleep(15)
        assert contents(world.stored()) == [HEADER + lines(0, 100, prefix="one"), HEADER + lines(0, 100, prefix="two")]
        await world.stop()

    run(main())


def test_h06_unread_bytes_of_a_truncated_life_are_a_gap__P4() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 100))
        world.start()
        await world.settle()
        world.write(b"half a line")
        await world.settle()
        world.truncate()
        world.write(lines(0, 10, prefix="next"))
        await world.settle()
        old, new = world.stored()
        assert old.gaps == [(1200, 1211, "truncated", False)]
        assert old.ended == (1211, "truncated")
        assert contents([new]) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_h06_truncated_while_the_agent_was_away__G4_P4() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 100))
        world.start()
        await world.settle()
        await world.clock.sleep(2)
        await world.crash_reader()
        world.write(lines(100, 50))
        await world.clock.sleep(5)  # seen, not sent, and in the checkpoint
        await world.kill()
        world.truncate()
        world.write(lines(0, 400, prefix="next"))
        await world.reader()
        world.start()
        await world.settle()
        old, new = world.stored()
        assert old.content == lines(0, 100)
        assert old.gaps == [(1200, 1800, "truncated", False)]
        assert old.ended == (1800, "truncated")
        assert new.content == world.disk.content(LOG)
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


def test_h09_rename_and_create_while_the_old_name_is_written_to__G1() -> None:
    async def main() -> None:
        world = World(paths=["/logs/app.log"])  # the rotated name is outside of the pattern
        await world.reader()
        world.write(lines(0, 10, prefix="old"))
        world.start()
        await world.settle()
        world.disk.replace(LOG, "/logs/app.log.1")
        for second in range(60):
            world.write(lines(second, 1), LOG)
            world.write(lines(10 + second, 1, prefix="old"), "/logs/app.log.1")
            await world.clock.sleep(1)
            if second == 30:
                await world.kill()
                world.write(lines(10 + second, 1, prefix="old"), "/logs/app.log.1")
                await world.clock.sleep(1)
                world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content("/logs/app.log.1"), world.disk.content(LOG)]
        assert all(stored.ended is None for stored in world.stored())
        await world.stop()

    run(main())


def test_h09_an_unlinked_log_is_read_as_long_as_it_is_written__G1() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        ghost = world.disk.open(LOG, write=True)
        world.disk.remove(LOG)
        for second in range(10, 30):
            await world.clock.sleep(10)
            ghost.append([lines(second, 1)])
        await world.clock.sleep(5)
        ghost.append([b"no newline"])
        await world.settle()
        assert world.stored()[0].ended is None
        await world.clock.sleep(120)
        (stored,) = world.stored()
        assert stored.content == lines(0, 30) + b"no newline"
        assert stored.ended == (370, "removed")
        await world.stop()

    run(main())


def test_h09_a_file_that_is_gone_after_a_restart_is_a_gap__G1_P4() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(5)
        await world.kill()
        world.disk.remove(LOG)
        await world.reader()
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert stored.gaps == [(120, 240, "removed", False)]
        assert stored.ended == (240, "removed")
        await world.stop()

    run(main())


def test_h13_to_another_embedded_store_and_back__D3_D5() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["east:5044", "west:5044"]
        await world.reader("east")
        world.start()
        number = 0
        for name, before in (("west", "east"), ("east", "west"), ("west", "east"), ("east", "west")):
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
            assert start <= ends, f"nobody has the bytes {ends} to {start}"
            ends = max(ends, start + len(covered[start]))
        assert ends == len(whole)
        assert len(world.readers["east"].registered) + len(world.readers["west"].registered) < 20
        await world.stop()

    run(main())


def test_h16_a_first_line_without_newline_that_grows_later__G2_P3() -> None:
    async def main() -> None:
        world = World(quiet_seconds=5)
        reader = await world.reader()
        world.write(b"the beginning")
        world.start()
        await world.clock.sleep(60)
        assert not reader.registered, "it has no name yet"
        world.write(b" and the end\nmore")
        await world.clock.sleep(1)
        assert contents(world.stored()) == [b"the beginning and the end\n"]
        await world.clock.sleep(10)
        assert contents(world.stored()) == [world.disk.content(LOG)]
        world.write(b" of it\n")
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        assert world.stored()[0].events == 3
        await world.stop()

    run(main())


def test_h16_a_life_that_ends_without_a_first_line_is_shipped_then__P3() -> None:
    async def main() -> None:
        world = World(end_after_seconds=5)
        await world.reader()
        world.write(b"one", "/logs/cut.log")
        world.write(b"two", "/logs/gone.log")
        world.start()
        await world.clock.sleep(2)
        world.truncate("/logs/cut.log")
        world.disk.remove("/logs/gone.log")
        await world.clock.sleep(20)
        await world.settle()
        (cut,), (gone,) = world.stored("/logs/cut.log"), world.stored("/logs/gone.log")
        assert (cut.content, cut.ended) == (b"one", (3, "truncated"))
        assert (gone.content, gone.ended) == (b"two", (3, "removed"))
        await world.stop()

    run(main())


def test_h17_a_reboot_that_changes_device_numbers__G2() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        await world.stop()
        world.disk = _OtherDevice.of(world.disk)
        world.settings["agent"]["host"] = "renamed"
        world.write(lines(10, 10))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


class _OtherDevice(MemoryDisk):
    """The same disk after a reboot that numbered devices, and told birth times, otherwise."""

    @classmethod
    def of(cls, disk: MemoryDisk) -> "_OtherDevice":
        other = disk.killed()
        other.__class__ = cls
        assert isinstance(other, cls)
        return other

    def _stat(self, node: Node) -> FileStat:
        return replace(super()._stat(node), device=77, birth_ns=0)


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
        assert all(world.stored(f"/logs/{number:03d}.log")[0].content == lines(0, 5) for number in range(300))
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


def test_h27_the_end_of_a_truncated_life_whose_tail_is_in_memory__G3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 3.0
        world.write(HEADER + lines(0, 1000))
        world.start()
        await world.clock.sleep(5)
        first = world.disk.content(LOG)
        kinds: list[int] = []

        def note(tried: Run) -> bool:
            kinds.append(tried.kind)
            return False

        reader.fail = note
        world.truncate()  # what was read of it is not acknowledged yet
        world.write(HEADER + lines(0, 2000, prefix="next"))
        await world.settle(200)
        old, new = world.stored()
        assert old.content == first
        assert old.ended == (len(first), "truncated")
        assert new.content == world.disk.content(LOG)
        assert END in kinds
        assert GAP not in kinds
        await world.stop()

    run(main())


def test_h27_next_life_while_the_reader_is_away__G3() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(HEADER + lines(0, 10))
        world.start()
        await world.settle()
        await world.crash_reader()
        lives = [HEADER + lines(0, 10)]
        for life in range(1, 4):
            world.truncate()
            lives.append(HEADER + lines(0, 80 - 20 * life, prefix=f"life {life}"))
            world.write(lives[-1])
            await world.clock.sleep(2)
        await world.reader()
        await asyncio.sleep(30)
        await world.settle()
        stored = world.stored()
        assert [each.ended is not None for each in stored] == [True, True, True, False]
        assert [(each.content, each.gaps) for each in stored] == [
            (lives[0], []),
            (b"", [(0, len(lives[1]), "truncated", False)]),
            (b"", [(0, len(lives[2]), "truncated", False)]),
            (lives[3], []),
        ]
        await world.stop()

    run(main())
