"""The agent keeps nothing of connections, registrations and files that are over."""

from agent.delivery.logdrive1 import Logdrive1Sender
from agent.delivery.session import SenderSession
from agent.inputs.files.file import Generation
from agent.sources.incarnation_search import IncarnationSearch
from tests.agent.world import LOG, World, lines
from tests.support.let_go import Made, left_of
from tests.support.virtual_time import run


def test_nothing_is_kept_of_a_connection_that_ended() -> None:
    async def main() -> None:
        made = Made(SenderSession, Logdrive1Sender)
        world = World()
        await world.ships(lines(0, 100))
        first = made.now()
        assert made.names() == ["Logdrive1Sender", "SenderSession"]
        world.write(lines(100, 100))
        world.network.cut("agent")
        await world.settle()
        assert left_of(first) == []
        assert made.names() == ["Logdrive1Sender", "SenderSession"]
        await world.stop()
        assert made.names() == []

    run(main())


def test_nothing_is_kept_of_the_counts_that_sources_asked_for() -> None:
    async def main() -> None:
        made = Made(IncarnationSearch)
        world = World()
        world.write(lines(0, 100))
        world.start()
        reader = await world.reader()
        await world.settle()
        assert reader.by_path(LOG)
        assert made.names() == []
        await world.stop()

    run(main())


def test_nothing_is_kept_of_a_file_that_was_acknowledged_to_its_end() -> None:
    async def main() -> None:
        made = Made(Generation)
        world = World()
        await world.ships(lines(0, 100))
        assert made.names() == ["Generation"]
        world.disk.remove(LOG)
        await world.clock.sleep(600)
        await world.settle()
        assert made.names() == []
        await world.stop()

    run(main())
