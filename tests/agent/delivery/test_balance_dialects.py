"""Several receivers at once that speak other dialects, or take no packs (D8, R8).

Plain Lumberjack shows best what is sent twice: its readers keep no positions.
"""

from typing import Any

import msgspec
import pytest

from agent.config.config import AgentConfig
from logdrive.host.transport import ByteStream
from tests.agent.delivery.test_balance import PATHS, all_stored, balanced, homes, write_all
from tests.agent.test_dialects import PlainModel
from tests.agent.world import World, lines
from tests.support.virtual_time import run


class SlowPlainModel(PlainModel):
    """A Lumberjack v2 receiver that takes its time, and shares what it stores with others."""

    def __init__(self, world: World, events: dict[str, list[dict[str, Any]]]) -> None:
        super().__init__()
        self.world, self.events, self.connections = world, events, 0

    async def accept(self, stream: ByteStream) -> None:
        self.connections += 1
        await super().accept(stream)

    async def _batch(self, stream: ByteStream, events: Any, ack: int | None) -> None:
        await self.world.clock.sleep(0.1)
        await super()._batch(stream, events, ack)


@pytest.mark.parametrize("change", ["a receiver comes", "connections grow old", "a reload"])
def test_nothing_is_sent_twice_where_no_connection_fails(change: str) -> None:
    async def main() -> None:
        world, events = World(), dict[str, list[dict[str, Any]]]()
        models = [SlowPlainModel(world, events) for _ in range(2)]
        world.settings["output"] |= {
            "hosts": ["one:5044", "two:5044"],
            "mode": "balance",
            "dialect": "lumberjack/2",
        }
        if change == "connections grow old":
            world.settings["output"]["max_connection_seconds"] = 5
        await world.network.host("one").listen("0.0.0.0", 5044, None, models[0].accept)
        late = change == "a receiver comes"
        if not late:
            await world.network.host("two").listen("0.0.0.0", 5044, None, models[1].accept)
        agent, count = world.start(), 0
        for step in range(60):
            write_all(world, count, 40)
            count += 40
            await world.clock.sleep(0.2)
            if step == 20 and late:
                await world.network.host("two").listen("0.0.0.0", 5044, None, models[1].accept)
            if step in (20, 40) and change == "a reload":
                world.settings["output"]["windows_in_flight"] = step // 10
                await agent.reload(msgspec.convert(world.settings, AgentConfig))
        await world.settle(100)
        for path in PATHS:
            stored = b"".join(
                event["message"].encode() + b"\n"
                for event in sorted(events[path], key=lambda event: int(event["log"]["offset"]))
            )
            assert stored == lines(0, count)
        assert homes(agent) == {"one": 3, "two": 3}
        assert all(model.connections == 1 for model in models) is late
        await world.stop()

    run(main())


def test_runs_whose_file_is_gone_get_the_form_that_their_next_receiver_takes() -> None:
    async def main() -> None:
        world = await balanced(("one", "two"))
        one, two = world.readers["one"], world.readers["two"]
        two.packs = "refused"
        write_all(world, 0, 10)
        agent = world.start()
        await world.clock.sleep(90)
        await world.settle()
        write_all(world, 10, 10)
        await world.settle()
        assert homes(agent) == {"one": 3, "two": 3}
        one.silent = True
        one.fail = lambda run: True
        write_all(world, 20, 10)
        await world.clock.sleep(1)
        for path in PATHS:
            world.truncate(path)
        await world.clock.sleep(10)
        await world.crash_reader("one")
        await world.clock.sleep(30)
        assert homes(agent)["one"] == 0
        assert all_stored(world, 30)
        assert agent.connection.connectors[1].session is not None
        await world.stop()

    run(main())
