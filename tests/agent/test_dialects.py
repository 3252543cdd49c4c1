"""Plain Lumberjack v2 at least once, and the fallback to it only where that is allowed (D8,
lumberjack.md §2.2).
"""

from typing import Any

import orjson
import pytest

from logdrive.errors import ProtocolError, TransientError
from logdrive.host.transport import ByteStream, ServerTls
from logdrive.model.limits import RUN_RECORDS
from logdrive.wire.lumberjack.frames import VERSION_1, AckFrame, KeyValueFrame, WindowFrame
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.plain_windows import WindowReader
from logdrive.wire.lumberjack.reader import FrameReader
from tests.agent.inputs.files.rebuild import rebuilt
from tests.agent.world import LOG, World, contents, lines
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

TLS = {"ca": "ca.pem", "cert": "c.pem", "key": "c.key"}


class PlainModel:
    """A Lumberjack v2 receiver that acknowledges whole windows; *events* by path, with those that
    came twice.
    """

    def __init__(self) -> None:
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.counts: list[int] = []
        self.writes = 0
        self.acknowledge = True
        self.forgetful = False
        """Nothing is kept of what comes while nothing is acknowledged."""
        self.partial = False

    async def accept(self, stream: ByteStream) -> None:
        reader, windows = (
            FrameReader(PLAIN_LUMBERJACK, side="reader", dialect="lumberjack"),
            WindowReader(),
        )
        try:
            while data := await stream.read():
                self.writes += 1
                frames = reader.receive_data(data)
                self.counts += [frame.count for frame in frames if isinstance(frame, WindowFrame)]
                for batch in windows.group_frames(frames):
                    await self._batch(stream, batch.events, batch.ack)
        except (TransientError, ProtocolError):
            stream.abort()

    async def _batch(self, stream: ByteStream, events: Any, ack: int | None) -> None:
        for run_ in events if self.acknowledge or not self.forgetful else ():
            assert not isinstance(run_, KeyValueFrame)
            for payload in run_.payloads:
                event = orjson.loads(payload)
                self.events.setdefault(event["log"]["file"]["path"], []).append(event)
        if ack is not None and self.acknowledge:
            await stream.write([AckFrame(0).encode()])
            if self.partial:
                await stream.write([AckFrame(ack // 2).encode()])
            await stream.write([AckFrame(ack).encode()])

    def content(self, path: str = LOG) -> bytes:
        """Return the bytes of the first delivery of each event, joined."""
        first = {event["log"]["offset"]: event for event in reversed(self.events.get(path, []))}
        return rebuilt((orjson.dumps(first[offset]) for offset in sorted(first)), 0)[0]


async def plain_world(**output: Any) -> tuple[World, PlainModel]:
    world, model = World(), PlainModel()
    world.settings["output"] |= {"dialect": "lumberjack/2"} | output
    await world.network.host("reader").listen("0.0.0.0", 5044, None, model.accept)
    return world, model


@pytest.mark.parametrize("compression", ["zstd", "zlib", "none"])
def test_full_records_in_windows_of_at_most_4096__R1(compression: str) -> None:
    async def main() -> None:
        world, model = await plain_world(compression=compression)
        model.partial = True
        world.settings["input"][0] |= {"fields": {"service": "web"}, "tags": ["x"]}
        text = lines(0, 30_000) + b"crlf\r\n\xff\n"
        world.write(text)
        world.start()
        await world.settle()
        assert model.content() == text
        assert len(model.events[LOG]) == 30_002, "nothing came twice"
        assert 4096 - RUN_RECORDS < max(model.counts) <= 4096
        event = model.events[LOG][0]
        assert event["message"] == "line 000000"
        assert event["host"] == {"name": "h"}
        assert event["agent"]["id"] == "a"
        assert (event["fields"], event["tags"]) == ({"service": "web"}, ["x"])
        await world.stop()

    run(main())


def test_at_least_once_from_the_checkpoint__D8() -> None:
    async def main() -> None:
        world, model = await plain_world()
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
        assert model.content() == lines(0, 10_000)
        assert len(model.events[LOG]) == 15_000, (
            "what was not acknowledged came again, the rest did not"
        )
        await world.stop()

    run(main())


def test_a_lost_connection_resends_whole_windows__D8() -> None:
    async def main() -> None:
        world, model = await plain_world()
        model.acknowledge = False
        world.write(lines(0, 3000))
        world.start()
        await world.clock.sleep(2)
        model.acknowledge = True
        world.network.cut("agent")
        await world.settle()
        assert model.content() == lines(0, 3000)
        await world.stop()

    run(main())


def test_truncation_and_removal_go_on_without_marks__G1() -> None:
    async def main() -> None:
        world, model = await plain_world()
        world.settings["input"][0]["end_after_seconds"] = 3
        world.write(lines(0, 10), "/logs/gone.log")
        world.write(lines(0, 10, prefix="old"))
        world.start()
        await world.settle()
        world.disk.remove("/logs/gone.log")
        world.truncate()
        world.write(lines(0, 5, prefix="new"))
        await world.clock.sleep(20)
        await world.settle()
        messages = [event["message"] for event in model.events[LOG]]
        assert messages == [f"old {n:06d}" for n in range(10)] + [f"new {n:06d}" for n in range(5)]
        assert world.agent is not None
        assert len(world.agent.registry.ended) == 2
        await world.stop()

    run(main())


def test_an_acknowledgement_of_more_than_was_sent_ends_the_connection() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"] |= {"dialect": "lumberjack/2"}
        connections = 0

        async def accept(stream: ByteStream) -> None:
            nonlocal connections
            connections += 1
            while await stream.read():
                await stream.write([AckFrame(9999).encode()])

        await world.network.host("reader").listen("0.0.0.0", 5044, None, accept)
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(30)
        assert "9999" in agent.connection.problem
        assert connections == 1, "the peer counts otherwise than we do: not again soon"
        await world.kill()

    run(main())


def test_an_acknowledgement_in_version_1_ends_the_connection_of_version_2() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"] |= {"dialect": "lumberjack/2"}
        connections = 0

        async def accept(stream: ByteStream) -> None:
            nonlocal connections
            connections += 1
            while await stream.read():
                await stream.write([AckFrame(10).encode(VERSION_1)])

        await world.network.host("reader").listen("0.0.0.0", 5044, None, accept)
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(30)
        assert "version 1" in agent.connection.problem
        (status,) = agent.status().sources
        assert (status.position, status.events, connections) == (0, 0, 1)
        await world.kill()

    run(main())


def test_h20_a_balancer_drops_alpn_for_an_hour__D8() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        native, plain = ReaderModel("reader"), PlainModel()
        world.readers["reader"] = native
        host = world.network.host("reader", identity="dns:reader")
        with_alpn = ServerTls("s.pem", "s.key", "ca.pem", ("logdrive/1",))
        listener = await host.listen("0.0.0.0", 5044, with_alpn, native.accept)
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        await listener.close()
        listener = await host.listen(
            "0.0.0.0", 5044, ServerTls("s.pem", "s.key", "ca.pem"), plain.accept
        )
        world.network.cut("agent")
        world.write(lines(10, 10))
        world.write(lines(0, 7), "/logs/new.log")
        await world.clock.sleep(1800)
        assert LOG not in plain.events, "what was registered waits"
        assert plain.content("/logs/new.log") == lines(0, 7)
        assert world.agent is not None
        status = {source.path: source for source in world.agent.status().sources}
        assert "waits for a receiver that speaks logdrive/1" in status[LOG].problem
        await listener.close()
        await host.listen("0.0.0.0", 5044, with_alpn, native.accept)
        world.write(lines(7, 3), "/logs/new.log")
        await world.clock.sleep(300)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        together = plain.content("/logs/new.log") + b"".join(
            stored.content for stored in world.stored("/logs/new.log")
        )
        assert together == lines(0, 10)
        assert len(plain.events["/logs/new.log"]) <= 10
        await world.stop()

    run(main())


def test_h20_an_agent_that_may_not_fall_back_waits__D8() -> None:
    async def main() -> None:
        world, plain = World(), PlainModel()
        world.settings["output"] |= {"tls": TLS}
        host = world.network.host("reader", identity="dns:reader")
        await host.listen("0.0.0.0", 5044, ServerTls("s.pem", "s.key", "ca.pem"), plain.accept)
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(120)
        assert not plain.writes
        assert "does not speak logdrive/1" in agent.connection.problem
        await world.kill()

    run(main())


def test_full_records_to_a_logdrive_receiver_by_option__R1() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.settings["output"]["records"] = "full"
        world.write(lines(0, 3000))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [lines(0, 3000)]
        await world.stop()

    run(main())
