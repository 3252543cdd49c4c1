"""Lumberjack v1 from an agent: pairs of text, at least once (D8)."""

from typing import Any

import pytest

from logdrive.errors import RejectedError
from logdrive.host.transport import ByteStream
from logdrive.wire.lumberjack.frames import VERSION_1, VERSION_2, AckFrame
from tests.agent.test_ship import shipped
from tests.agent.v1_model import V1Model
from tests.agent.world import LOG, World, lines
from tests.support.virtual_time import run


async def v1_world(**output: Any) -> tuple[World, V1Model]:
    """Return a world whose agent speaks version 1 to a receiver of version 1."""
    world, model = World(), V1Model()
    world.settings["output"] |= {"dialect": "lumberjack/1"} | output
    await world.network.host("reader").listen("0.0.0.0", 5044, None, model.accept)
    return world, model


@pytest.mark.parametrize("compression", ["zstd", "zlib", "none"])
def test_every_line_arrives_with_the_fields_of_its_input__R1(compression: str) -> None:
    async def main() -> None:
        world, model = await v1_world(compression=compression)
        world.settings["input"][0] |= {
            "fields": {"service": "web", "app": {"name": "shop"}},
            "tags": ["x"],
        }
        text = lines(0, 10_000) + b"crlf\r\n\xff\n" + b"y" * 200_000 + b"\n"
        world.write(text)
        world.start()
        await world.settle()
        assert (model.faults, model.connections) == ([], 1)
        assert model.content(LOG) == text
        assert len(model.events[LOG]) == sum(model.windows) == 10_005, "nothing came twice"
        assert max(model.windows) <= 2048
        event = model.events[LOG][1]
        assert (event["line"], event["offset"], event["host"], event["file"]) == (
            "line 000001",
            "12",
            "h",
            LOG,
        )
        assert (event["service"], event["app.name"], event["tags"]) == ("web", "shop", '["x"]')
        await world.stop()

    run(main())


def test_at_least_once_from_the_checkpoint__D8() -> None:
    async def main() -> None:
        world, model = await v1_world()
        world.write(lines(0, 5000))
        world.start()
        await world.settle()
        model.acknowledge = False
        world.write(lines(5000, 5000))
        await world.clock.sleep(3)
        await world.kill()
        model.acknowledge = True
        world.start()
        await world.settle()
        assert (model.faults, model.content(LOG)) == ([], lines(0, 10_000))
        assert len(model.events[LOG]) == 15_000, (
            "what was not acknowledged came again, the rest did not"
        )
        await world.stop()

    run(main())


def test_keepalives_are_no_success_whatever_their_version() -> None:
    """Logstash sends keepalives of version 2 to all peers.

    Logstash-forwarder took any answer for that of the window.
    """

    async def main() -> None:
        world, model = await v1_world()
        model.patience = [
            AckFrame(0, VERSION_2).encode(),
            AckFrame(0, VERSION_1).encode(),
            AckFrame(5, VERSION_1).encode(),
        ]
        world.write(lines(0, 10))
        agent = world.start()
        await world.settle()
        assert (model.connections, agent.connection.problem, len(model.events[LOG])) == (1, "", 10)
        model.acknowledge = False
        world.write(lines(10, 10))
        await world.clock.sleep(5)
        (source,) = agent.status().sources
        assert source.events == 10
        await world.kill()

    run(main())


def test_an_acknowledgement_in_version_2_ends_the_connection() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"] |= {"dialect": "lumberjack/1"}

        async def accept(stream: ByteStream) -> None:
            while await stream.read():
                await stream.write([AckFrame(10).encode()])

        await world.network.host("reader").listen("0.0.0.0", 5044, None, accept)
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(30)
        assert (
            "an acknowledgement in version 2 of a window in version 1" in agent.connection.problem
        )
        (source,) = agent.status().sources
        assert (source.position, source.events) == (0, 0)
        await world.kill()

    run(main())


def test_a_generation_that_ended_without_a_first_line_is_sent_with_its_path__P3() -> None:
    """Its only record is made when it ends, before a dialect is agreed on."""

    async def main() -> None:
        world = World(end_after_seconds=3)
        world.settings["output"] |= {"dialect": "lumberjack/1"}
        world.write(b"no line yet")
        world.start()
        await world.clock.sleep(7)
        world.disk.remove(LOG)
        await world.clock.sleep(20)
        model = V1Model()
        await world.network.host("reader").listen("0.0.0.0", 5044, None, model.accept)
        await world.settle(200)
        assert model.faults == []
        (event,) = model.events[LOG]
        assert (event["line"], event["offset"], event["log.eol"], event["host"]) == (
            "no line yet",
            "0",
            "",
            "h",
        )
        await world.stop()

    run(main())


def test_the_error_mentions_version_1_if_a_receiver_only_closes_connections() -> None:
    """Such a receiver can't be told from a wrong port, so the error names both."""

    async def main() -> None:
        world, model = await v1_world()
        world.write(lines(0, 10))
        with pytest.raises(RejectedError, match="does it speak lumberjack/2"):
            await shipped(world, dialect="lumberjack/2")
        assert set(model.faults) == {"version 2"}

    run(main())


def test_ship_names_a_receiver_that_answers_in_another_version() -> None:
    async def main() -> None:
        world = World()

        async def accept(stream: ByteStream) -> None:
            while await stream.read():
                await stream.write([AckFrame(10).encode()])

        await world.network.host("reader").listen("0.0.0.0", 5044, None, accept)
        world.write(lines(0, 10))
        with pytest.raises(
            RejectedError,
            match=r"in version 2 of a window in version 1.* no reader of lumberjack/1",
        ):
            await shipped(world, dialect="lumberjack/1")

    run(main())


def test_ship_in_version_1_sends_all_lines_again_each_time() -> None:
    async def main() -> None:
        world, model = await v1_world()
        world.write(lines(0, 3000) + b"no newline")
        for times in (1, 2):
            done = await shipped(world, dialect="lumberjack/1")
            assert (done.complete, done.events, len(model.events[LOG])) == (
                True,
                3001,
                3001 * times,
            )
        assert (model.faults, model.content(LOG)) == ([], world.disk.content(LOG))

    run(main())
