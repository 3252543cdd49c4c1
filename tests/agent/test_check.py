"""`agent check` tells what a start would do, and does nothing."""

import msgspec

from agent.check import check
from agent.config import AgentConfig
from tests.agent.world import LOG, World, lines
from tests.support.virtual_time import run


def test_what_would_be_read_from_where() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        await world.stop()
        world.write(lines(10, 1))
        world.write(lines(0, 1), "/logs/new.log")
        world.settings["input"].append({"paths": ["/none/*.log"]})
        before = world.disk.content("/state/checkpoint.json")
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check(config, disk=world.disk, transport=world.network.host("agent"))
        assert [(file.path, file.input, file.size, file.plan) for file in checked.files] == [
            (LOG, 0, 132, "from 120: 12 bytes are new"),
            ("/logs/new.log", 0, 12, "from 0, unless the receiver knows it"),
        ]
        findings = {finding.name: finding for finding in checked.findings}
        assert findings["checkpoint"].ok
        assert findings["reader:5044"].ok
        assert not findings["directory"].ok
        assert "/none" in findings["directory"].detail
        assert not findings["input[1]"].ok
        assert world.disk.content("/state/checkpoint.json") == before

    run(main())


def test_what_stands_in_the_way() -> None:
    async def main() -> None:
        world = World(start="end")
        world.write(lines(0, 10))
        world.disk.write("/state/checkpoint.json", b"{")
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check(config, disk=world.disk, transport=world.network.host("agent"))
        findings = {finding.name: finding for finding in checked.findings}
        assert "can't be read" in findings["checkpoint"].detail
        assert "connection refused" in findings["reader:5044"].detail
        assert checked.files[0].plan == "from the end, unless the receiver knows it"
        assert world.disk.content("/state/checkpoint.json") == b"{"

    run(main())
