"""The agent as a whole: what is written arrives once, in order, whatever ends in between."""

from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


def test_what_is_written_arrives__P1_D3() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        world.write(lines(0, 100))
        world.start()
        await world.settle()
        world.write(lines(100, 50))
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        assert reader.stored and reader.connections == 1
        await world.stop()

    run(main())
