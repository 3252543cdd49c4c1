"""Histories of files that are held until a store has said what it has of them (G5)."""

from tests.agent.histories.copied import (
    COPY,
    HEADER,
    NEXT,
    copytruncate,
    see_a_life_go_untold,
    sources_of,
    until_at_rest,
)
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


async def _held_until_the_store_answers(first: bytes, later: bytes) -> World:
    """Return a world in which `COPY` has *first*, and may be the rest of a file that is gone.

    Only the store can say how much it has of that one, which had *later*, too.
    """
    world = World()
    world.write(first + later)
    world.start()
    await world.clock.sleep(5)
    await world.kill()
    world.disk.remove(LOG)
    world.write(first, COPY)
    world.start()
    await world.clock.sleep(2)
    return world


def test_a_file_with_the_first_line_of_one_that_only_a_copy_can_tell_is_not_held_for_ever__G5() -> (
    None
):
    """The store has a number that may be its own or another's; its bytes are gone."""

    async def main() -> None:
        world = World()
        reader = await world.ships(HEADER + lines(0, 300))
        await world.kill()
        world.forget()
        world.truncate()
        gap = await see_a_life_go_untold(world)
        later = HEADER + lines(0, 50, prefix="later")
        world.write(later, f"{LOG}.2")
        reader = await world.reader()
        world.start()
        await world.clock.sleep(30)
        await until_at_rest(world)
        assert later in contents([each for each in sources_of(reader) if each.data])
        assert [told for each in sources_of(reader) for told in each.gaps] == [gap]
        await world.stop()

    run(main())


def test_a_held_file_that_is_removed_is_read_once_the_store_has_answered__G5_G1() -> None:
    """Many files begin with one header: that is no proof that this one is a copy."""

    async def main() -> None:
        world = await _held_until_the_store_answers(HEADER, lines(0, 3))
        world.disk.remove(COPY)
        await world.clock.sleep(60)
        reader = await world.reader()
        await until_at_rest(world)
        assert HEADER in contents(sources_of(reader))
        await world.stop()

    run(main())


def test_a_held_file_that_is_truncated_before_the_store_has_answered_is_a_gap__G5_P4() -> None:
    async def main() -> None:
        world = await _held_until_the_store_answers(HEADER, lines(0, 3))
        world.truncate(COPY)
        await world.clock.sleep(6)
        world.write(NEXT, COPY)
        await world.reader()
        await until_at_rest(world)
        following, held = world.stored(COPY)
        assert [gap[:2] for gap in held.gaps] == [(0, len(HEADER))]
        assert held.ended == (len(HEADER), "truncated")
        assert following.content == NEXT
        await world.stop()

    run(main())


def test_a_life_that_was_held_when_it_was_truncated_is_read_from_its_copy__G5() -> None:
    """It began as the one before, of which the store had yet to say how much it has."""

    async def main() -> None:
        world = World()
        first, held = HEADER + lines(0, 3, prefix="first"), HEADER + lines(0, 3, prefix="held")
        world.write(first)
        world.start()
        await world.clock.sleep(3)
        await world.kill()
        copytruncate(world)
        world.start()
        await world.clock.sleep(1)
        world.write(held)
        await world.clock.sleep(3)
        copytruncate(world, f"{LOG}.2")
        world.write(NEXT)
        await world.clock.sleep(3)
        reader = await world.reader()
        await until_at_rest(world)
        await until_at_rest(world)
        assert sorted(contents(sources_of(reader))) == sorted([first, held, NEXT])
        assert not any(each.gaps for each in sources_of(reader))
        await world.stop()

    run(main())
