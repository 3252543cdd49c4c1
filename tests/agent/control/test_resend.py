"""An operator has a file sent again: its count ends, and the next one begins (rule A4)."""

import asyncio

import orjson
import pytest

from tests.agent.control.asking import ask
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


def test_a_resend_ends_the_old_count_and_the_new_one_has_all_lines_again__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        answer = await ask(world, "resend", source=LOG)
        assert answer.ok
        assert answer.change is not None
        assert (answer.change.done, answer.change.start, answer.change.end) == (True, 0, 1200)
        world.write(lines(100, 10))
        await world.settle()
        old, new = world.stored()
        assert (old.content, old.ended, old.gaps) == (lines(0, 100), (1200, "resent"), [])
        assert new.content == world.disk.content(LOG)
        assert (new.ended, new.attributes["resend"]) == (None, True)
        assert "resend" not in old.attributes
        await world.stop()

    run(main())


@pytest.mark.parametrize("first", [b"", lines(0, 10)])
def test_a_resend_says_what_is_then_there_twice(first: bytes) -> None:
    async def main() -> None:
        world = World()
        await world.ships(first + b"x" * 2000)
        answer = await ask(world, "resend", source=LOG, dry_run=True)
        assert answer.change is not None, answer.error
        assert answer.change.text.endswith(
            " 2,120 bytes so far: what was sent before, up to 120, is then there twice, under two "
            'sources. The first ends as "resent", so the audit takes it for no duplicate'
            if first
            else " 2,000 bytes so far"
        )
        await world.stop()

    run(main())


@pytest.mark.parametrize("forget", [False, True], ids=["checkpoint kept", "checkpoint lost"])
@pytest.mark.parametrize("seconds", [0.0, 0.4, 3.0])
def test_a_resend_that_a_kill_interrupts_sends_no_line_a_third_time__A4(
    seconds: float, forget: bool
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        asking = asyncio.create_task(ask(world, "resend", source=LOG))
        await world.clock.sleep(seconds)
        await world.kill()
        asking.cancel()
        if forget:
            world.forget()
        world.start()
        await world.settle()
        # what the receiver had before the kill decides whether the wish survives
        old, *new = world.stored()
        assert old.content == lines(0, 100)
        assert [each.content for each in new] in ([], [lines(0, 100)])
        assert bool(new) == (old.ended is not None)
        assert old.ended in (None, (1200, "resent"))
        await world.stop()

    run(main())


def test_nothing_of_a_file_that_is_sent_again_goes_before_the_checkpoint_has_it__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        assert (await ask(world, "resend", source=LOG)).ok
        for _ in range(100):
            await world.clock.sleep(0.05)
            old, *new = world.stored()
            if new or old.ended is not None:
                break
        else:
            pytest.fail("it was not sent again")
        entries = orjson.loads(world.disk.content("/state/checkpoint.json"))["entries"]
        assert sorted(entry.get("ended", "") for entry in entries) == ["", "resent"]
        await world.stop()

    run(main())


def test_what_is_read_from_a_copy_is_not_sent_again__A4_G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 3.0
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        world.write(world.disk.content(LOG), f"{LOG}.1")
        world.truncate()
        await world.clock.sleep(2)
        refused = await ask(world, "resend", source=LOG)
        assert "is read to its end from a copy" in refused.error
        await world.settle(60)
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_what_was_truncated_with_a_copy_and_not_looked_at_since_is_not_sent_again__A4_G5() -> None:
    async def main() -> None:
        world = World()
        first = lines(0, 100)
        await world.ships(first)
        world.write(first, f"{LOG}.1")
        world.truncate()  # no look has seen it
        refused = await ask(world, "resend", source=LOG)
        assert "was truncated" in refused.error
        await world.kill()
        world.start()
        await world.settle()
        assert contents(world.stored()) == [first]
        await world.stop()

    run(main())


def test_a_resend_while_lines_are_on_the_way_loses_none__A4() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 2.0
        world.write(lines(10, 40_000))
        await world.clock.sleep(1)
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        assert source.position == 120 < source.sent_position
        answer = await ask(world, "resend", source=LOG)
        assert answer.ok, answer.error
        await world.settle(300)
        old, new = world.stored()
        assert old.ended == (len(old.content), "resent")
        assert world.disk.content(LOG).startswith(old.content)
        assert new.content == world.disk.content(LOG)
        await world.stop()

    run(main())
