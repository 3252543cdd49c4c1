"""Histories about generations that look alike, where to start, and unread bytes."""

import asyncio

import pytest

from agent.inputs.files.tail import Tailer
from agent.sources.source import Source
from logdrive.model.records import END, GAP
from logdrive.wire.lumberjack.frames import RunFrame
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run

CHECKPOINT = "/state/checkpoint.json"
HEADER = b"# constant header of every life\n"


def _has_both_generations(world: World, first: bytes) -> None:
    """Assert that the receiver has all of the *first* generation and of the one after it."""
    old, new = world.stored()
    assert old.content == first
    assert old.ended == (len(first), "truncated")
    assert new.content == world.disk.content(LOG)


def test_h02_copytruncated_and_checkpoint_lost__G3_D4() -> None:
    async def main() -> None:
        world = World()
        first = HEADER + lines(0, 10_000, prefix="first")
        await world.ships(first)
        world.truncate()
        world.write(HEADER + lines(0, 3000, prefix="second"))
        await world.settle()
        await world.kill()
        world.forget()
        world.write(lines(3000, 9000, prefix="second"))
        world.start()
        await world.settle()
        _has_both_generations(world, first)
        await world.stop()

    run(main())


def test_h02_truncated_while_away_and_checkpoint_lost__G3_D4() -> None:
    async def main() -> None:
        world = World()
        first = HEADER + lines(0, 1000, prefix="first")
        await world.ships(first)
        await world.kill()
        world.forget()
        world.truncate()
        world.write(HEADER + lines(0, 1200, prefix="second"))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [first, world.disk.content(LOG)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("forgotten", [False, True])
def test_h02_truncated_between_the_look_and_the_number__G3_D4(
    monkeypatch: pytest.MonkeyPatch, *, forgotten: bool
) -> None:
    """The store has more of it than the checkpoint says, and the file no longer has so much."""

    async def main() -> None:
        world = World()
        await world.ships(HEADER + lines(0, 100, prefix="first"))
        await world.clock.sleep(2)
        before = world.disk.content(CHECKPOINT)
        world.write(lines(100, 100, prefix="first"))
        await world.settle()
        await world.kill()
        first = world.disk.content(LOG)
        world.disk.remove(CHECKPOINT)
        if not forgotten:
            world.write(before, CHECKPOINT)

        verify = Tailer.verify_source
        looks: list[int] = []

        def verify_then_truncate(tailer: Tailer, source: Source) -> bool:
            verified = verify(tailer, source)
            if not looks:
                world.truncate()
                world.write(HEADER + lines(0, 10, prefix="second"))
            looks.append(source.position)
            return verified

        monkeypatch.setattr(Tailer, "verify_source", verify_then_truncate)
        world.start()
        await world.settle()
        assert looks
        _has_both_generations(world, first)
        await world.stop()

    run(main())


def test_h02_a_second_life_may_be_like_one_of_before_the_checkpoint_was_lost__G3() -> None:
    async def main() -> None:
        world = World()
        first = HEADER + lines(0, 100, prefix="first")
        await world.ships(first)
        await world.kill()
        await world.crash_reader()
        world.forget()
        world.truncate()
        world.write(lines(0, 10, prefix="second"))
        world.start()
        await world.clock.sleep(3)
        lives = [HEADER + lines(0, 10, prefix="third"), lines(0, 10, prefix="fourth")]
        for life in lives:
            world.truncate()
            world.write(life)
            await world.clock.sleep(3)
        await world.reader()
        await world.clock.sleep(30)
        await world.settle()
        stored = {each.content: each for each in world.stored() if each.content}
        assert set(stored) == {first, lives[1]}
        assert stored[first].ended is None, "nobody saw it go"
        gaps = [each.gaps for each in world.stored() if not each.content and each.gaps]
        assert sorted(gaps) == [
            [(0, 140, "truncated", False)],
            [(0, len(lives[0]), "truncated", False)],
        ]
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


def test_h04_start_end_sends_the_gap_even_if_nothing_grows__P2() -> None:
    async def main() -> None:
        world = World(start="end")
        await world.ships(lines(0, 10))
        (stored,) = world.stored()
        assert stored.gaps == [(0, 120, "not_wanted", True)]
        assert stored.content == b""
        await world.stop()

    run(main())


def test_h04_a_checkpoint_lost_later_does_not_move_the_start__P2() -> None:
    async def main() -> None:
        world = World(start="end")
        await world.ships(lines(0, 10))
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


def test_h06_regrown_past_the_position_between_two_polls__G4() -> None:
    async def main() -> None:
        for header in (HEADER, b""):
            world = World()
            first = HEADER + lines(0, 100, prefix="first")
            await world.ships(first)
            world.truncate()
            world.write(header + lines(0, 1000, prefix="second"))
            await world.settle()
            _has_both_generations(world, first)
            await world.stop()

    run(main())


def test_h06_rewritten_at_the_same_length__G4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(HEADER + lines(0, 100, prefix="one"))
        world.truncate()
        world.write(HEADER + lines(0, 100, prefix="two"))
        await world.clock.sleep(15)
        assert contents(world.stored()) == [
            HEADER + lines(0, 100, prefix="one"),
            HEADER + lines(0, 100, prefix="two"),
        ]
        await world.stop()

    run(main())


def test_h06_unread_bytes_of_a_truncated_generation_are_a_gap__P4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
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
        await world.ships(lines(0, 100))
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


def test_h27_a_truncated_generation_ends_after_its_runs_in_memory__G3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 3.0
        world.write(HEADER + lines(0, 1000))
        world.start()
        await world.clock.sleep(5)
        first = world.disk.content(LOG)
        kinds: list[int] = []

        def note(tried: RunFrame) -> bool:
            kinds.append(tried.kind)
            return False

        reader.fail = note
        world.truncate()  # what was read of it is not acknowledged yet
        world.write(HEADER + lines(0, 2000, prefix="next"))
        await world.settle(200)
        _has_both_generations(world, first)
        assert END in kinds
        assert GAP not in kinds
        await world.stop()

    run(main())


def test_h27_the_next_generation_begins_while_the_receiver_is_away__G3() -> None:
    async def main() -> None:
        world = World()
        await world.ships(HEADER + lines(0, 10))
        await world.crash_reader()
        generations = [HEADER + lines(0, 10)]
        for number in range(1, 4):
            world.truncate()
            generations.append(HEADER + lines(0, 80 - 20 * number, prefix=f"life {number}"))
            world.write(generations[-1])
            await world.clock.sleep(2)
        await world.reader()
        await asyncio.sleep(30)
        await world.settle()
        stored = world.stored()
        assert [each.ended is not None for each in stored] == [True, True, True, False]
        assert [(each.content, each.gaps) for each in stored] == [
            (generations[0], []),
            (b"", [(0, len(generations[1]), "truncated", False)]),
            (b"", [(0, len(generations[2]), "truncated", False)]),
            (generations[3], []),
        ]
        await world.stop()

    run(main())
