"""The dialect `auto`: what is spoken, what the log says, and what happens to lines that were
encoded for another dialect (D8, adr/0018).
"""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from agent.check import check_agent
from agent.config.config import AgentConfig
from agent.config.output import DialectSetting
from agent.delivery.dialect_choice import DialectChoice, choose_dialect, offered_protocols
from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream, Peer, ServerTls
from logdrive.wire.lumberjack.frames import VERSION_1, AckFrame
from tests.agent.test_dialects import TLS, PlainModel
from tests.agent.test_ship import shipped
from tests.agent.v1_model import V1Model
from tests.agent.world import LOG, World, contents, lines
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run


def tls_with(*alpn: str) -> ServerTls:
    """Return the TLS settings of a receiver that agrees on *alpn*."""
    return ServerTls("s.pem", "s.key", "ca.pem", alpn)


@pytest.mark.parametrize(
    ("configured", "alpn", "secure", "dialect", "fell_back"),
    [
        ("logdrive/1", "logdrive/1", True, "logdrive/1", False),
        ("logdrive/1", "logdrive/1.1", True, "logdrive/1", False),
        ("auto", "logdrive/1.1", True, "logdrive/1", False),
        ("logdrive/1", None, False, "logdrive/1", False),
        ("auto", "logdrive/1", True, "logdrive/1", False),
        ("auto", "lumberjack/2", True, "lumberjack/2", True),
        ("auto", "lumberjack/1", True, "lumberjack/1", True),
        ("auto", None, True, "lumberjack/2", True),
        ("lumberjack/2", None, True, "lumberjack/2", False),
        ("lumberjack/1", None, True, "lumberjack/1", False),
        ("lumberjack/1", None, False, "lumberjack/1", False),
    ],
)
def test_the_dialect_follows_from_the_configuration_and_the_handshake__D8(
    configured: DialectSetting, alpn: str | None, secure: bool, dialect: str, fell_back: bool
) -> None:
    choice = choose_dialect(configured, Peer("p", "", alpn, secure))
    assert isinstance(choice, DialectChoice)
    assert (choice.dialect, choice.fell_back) == (dialect, fell_back)
    assert choice.version == (b"1" if dialect == "lumberjack/1" else b"2")


def test_no_dialect_but_the_configured_one_is_spoken__D8() -> None:
    assert choose_dialect("logdrive/1", Peer("p", secure=True)) is None


def test_no_protocol_is_offered_to_receivers_configured_as_plain() -> None:
    assert offered_protocols("auto") == (
        "logdrive/1.1",
        "logdrive/1",
        "lumberjack/2",
        "lumberjack/1",
    )
    assert (
        offered_protocols("logdrive/1"),
        offered_protocols("lumberjack/2"),
        offered_protocols("lumberjack/1"),
    ) == (
        ("logdrive/1.1", "logdrive/1"),
        (),
        (),
    )


def test_a_reader_that_chooses_version_1_gets_it_and_the_log_says_why() -> None:
    async def main() -> None:
        world, model = World(), V1Model()
        world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        await world.network.host("reader").listen(
            "0.0.0.0", 5044, tls_with("lumberjack/1"), model.accept
        )
        world.write(lines(0, 100))
        with capture_logs() as logs:
            world.start()
            await world.settle()
        assert (model.faults, model.content(LOG)) == ([], lines(0, 100))
        (connected,) = [entry for entry in logs if entry["event"] == "connected"]
        assert (connected["dialect"], connected["log_level"]) == ("lumberjack/1", "warning")
        assert "instead of logdrive/1" in connected["because"]
        await world.stop()

    run(main())


def test_after_a_fallback_the_log_says_to_what_and_why_and_warns_once() -> None:
    async def main() -> None:
        world, model = World(), PlainModel()
        world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        await world.network.host("reader").listen("0.0.0.0", 5044, tls_with(), model.accept)
        world.write(lines(0, 100))
        with capture_logs() as logs:
            world.start()
            await world.settle()
            world.network.cut("agent")
            world.write(lines(100, 100))
            await world.clock.sleep(30)
            await world.settle()
        connected = [entry for entry in logs if entry["event"] == "connected"]
        assert [(entry["dialect"], entry["log_level"]) for entry in connected] == [
            ("lumberjack/2", "warning"),
            ("lumberjack/2", "info"),
        ]
        assert all("did not agree on logdrive/1" in entry["because"] for entry in connected)
        await world.stop()

    run(main())


@pytest.mark.parametrize("dialect", ["logdrive/1", "lumberjack/2"])
def test_the_log_says_that_a_dialect_was_configured(dialect: str) -> None:
    async def main() -> None:
        world = World()
        world.settings["output"] |= {"dialect": dialect}
        model: ReaderModel | PlainModel = (
            ReaderModel("reader") if dialect == "logdrive/1" else PlainModel()
        )
        await world.network.host("reader").listen("0.0.0.0", 5044, None, model.accept)
        with capture_logs() as logs:
            world.start()
            await world.settle()
        (connected,) = [entry for entry in logs if entry["event"] == "connected"]
        assert (connected["dialect"], connected["because"], connected["log_level"]) == (
            dialect,
            "configured",
            "info",
        )
        await world.stop()

    run(main())


class _AnswersInVersion1(V1Model):
    """A receiver that takes windows of version 2, too, and answers all in version 1, as some
    servers do that never look at the version byte.
    """

    async def accept(self, stream: ByteStream) -> None:
        data = await stream.read()
        if data[:1] == b"2":
            self.connections += 1
            await stream.write([AckFrame(int.from_bytes(data[2:6]), VERSION_1).encode()])
            while await stream.read():
                pass
            return
        await super().accept(_Read(stream, data))


class _Read:
    """A stream of which the *first* bytes were read already; *came* gets all that is read."""

    def __init__(self, stream: ByteStream, first: bytes, came: bytearray | None = None) -> None:
        self.peer, self._stream, self._first = stream.peer, stream, first
        self._came = came if came is not None else bytearray()
        self.write, self.close, self.abort = stream.write, stream.close, stream.abort
        self.refuse_more = stream.refuse_more

    async def read(self) -> bytes:
        first, self._first = self._first, b""
        data = first or await self._stream.read()
        self._came += data
        return data


def test_a_receiver_that_answers_version_2_in_version_1_is_spoken_to_in_version_1() -> None:
    async def main() -> None:
        world, model = World(), _AnswersInVersion1()
        world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        await world.network.host("reader").listen("0.0.0.0", 5044, tls_with(), model.accept)
        world.write(lines(0, 1000))
        with capture_logs() as logs:
            world.start()
            await world.settle()
        assert (model.faults, model.content(LOG), len(model.events[LOG])) == (
            [],
            lines(0, 1000),
            1000,
        )
        connected = [entry for entry in logs if entry["event"] == "connected"]
        assert [entry["dialect"] for entry in connected] == ["lumberjack/2", "lumberjack/1"]
        assert "answered lumberjack/2 in version 1" in connected[1]["because"]
        await world.stop()

    run(main())


def test_registered_sources_wait_where_the_receiver_chooses_version_1__D8() -> None:
    async def main() -> None:
        world, native, plain = World(), ReaderModel("reader"), V1Model()
        world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        world.readers["reader"] = native
        host = world.network.host("reader", identity="dns:reader")
        listener = await host.listen("0.0.0.0", 5044, tls_with("logdrive/1"), native.accept)
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        await listener.close()
        listener = await host.listen("0.0.0.0", 5044, tls_with("lumberjack/1"), plain.accept)
        world.network.cut("agent")
        world.write(lines(10, 10))
        world.write(lines(0, 7), "/logs/new.log")
        await world.clock.sleep(600)
        assert (list(plain.events), plain.content("/logs/new.log")) == (
            ["/logs/new.log"],
            lines(0, 7),
        )
        await listener.close()
        await host.listen("0.0.0.0", 5044, tls_with("logdrive/1"), native.accept)
        world.write(lines(7, 3), "/logs/new.log")
        await world.clock.sleep(300)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        assert contents(world.stored("/logs/new.log")) == [lines(7, 3)]
        assert (plain.faults, len(plain.events["/logs/new.log"])) == ([], 7)
        await world.stop()

    run(main())


def test_runs_in_the_form_of_version_1_are_encoded_again_for_logdrive_1() -> None:
    """One generation can be read again.

    The file of the other is gone, so only its runs in memory can be sent.
    """

    async def main() -> None:
        world, native, plain = World(end_after_seconds=3), ReaderModel("reader"), V1Model()
        plain.acknowledge = False
        world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        world.readers["reader"] = native
        host = world.network.host("reader", identity="dns:reader")
        listener = await host.listen("0.0.0.0", 5044, tls_with("lumberjack/1"), plain.accept)
        gone = lines(0, 2000, prefix="gone") + b"crlf\r\n\xff\n" + b"z" * 100_000 + b"\n"
        world.write(gone, "/logs/gone.log")
        world.write(lines(0, 2000))
        world.start()
        await world.clock.sleep(2)
        world.disk.remove("/logs/gone.log")
        await world.clock.sleep(15)
        assert plain.content("/logs/gone.log") == gone, "all of it is in memory"
        await listener.close()
        await host.listen("0.0.0.0", 5044, tls_with("logdrive/1"), native.accept)
        world.network.cut("agent")
        await world.clock.sleep(30)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 2000)]
        assert contents(world.stored("/logs/gone.log")) == [gone]
        await world.stop()

    run(main())


def test_runs_in_the_form_of_logdrive_1_are_not_sent_as_blocks_to_plain_receivers() -> None:
    """A generation that ended without a first line is encoded before any dialect is agreed on."""

    async def main() -> None:
        world = World(end_after_seconds=3)
        world.settings["output"] |= {"dialect": "lumberjack/2"}
        world.write(b"no line yet")
        world.start()
        await world.clock.sleep(7)
        world.disk.remove(LOG)
        await world.clock.sleep(20)
        model = PlainModel()
        await world.network.host("reader").listen("0.0.0.0", 5044, None, model.accept)
        await world.settle(200)
        (event,) = model.events[LOG]
        assert (event["message"], event["log"]["eol"], event["host"]) == (
            "no line yet",
            "",
            {"name": "h"},
        )
        await world.stop()

    run(main())


def test_events_of_version_2_have_the_metadata_that_index_patterns_use() -> None:
    async def main() -> None:
        world, model = World(), PlainModel()
        world.settings["output"] |= {"dialect": "lumberjack/2"}
        await world.network.host("reader").listen("0.0.0.0", 5044, None, model.accept)
        world.write(b"plain\ncrlf\r\n")
        world.start()
        await world.settle()
        for event in model.events[LOG]:
            assert event["@metadata"] == {
                "beat": "logdrive",
                "type": "_doc",
                "version": event["agent"]["version"],
            }
        assert len(model.events[LOG]) == 2
        await world.stop()

    run(main())


def test_full_records_under_logdrive_1_have_no_metadata() -> None:
    async def main() -> None:
        world, native, came = World(), ReaderModel("reader"), bytearray()
        world.readers["reader"] = native
        await world.network.host("reader").listen(
            "0.0.0.0", 5044, None, lambda stream: native.accept(_Read(stream, b"", came))
        )
        world.settings["output"] |= {"records": "full", "compression": "none"}
        world.write(b"plain\n")
        world.start()
        await world.settle()
        assert contents(world.stored()) == [b"plain\n"]
        assert b'"@timestamp"' in came
        assert b"@metadata" not in came
        await world.stop()

    run(main())


def test_ship_falls_back_where_that_is_allowed() -> None:
    async def main() -> None:
        world, model = World(), PlainModel()
        await world.network.host("reader").listen("0.0.0.0", 5044, tls_with(), model.accept)
        world.write(lines(0, 100))
        with capture_logs() as logs:
            done = await shipped(world, dialect="auto", tls=TLS)
        assert (done.complete, model.content()) == (True, lines(0, 100))
        assert [entry["log_level"] for entry in logs if entry["event"] == "connected"] == [
            "warning"
        ]

    run(main())


def test_ship_prefers_logdrive_1_and_never_falls_back_once_registered__D8() -> None:
    async def main() -> None:
        world, plain = World(), PlainModel()
        native = ReaderModel("reader")
        world.readers["reader"] = native
        host = world.network.host("reader", identity="dns:reader")
        listener = await host.listen("0.0.0.0", 5044, tls_with("logdrive/1"), native.accept)
        world.write(lines(0, 100))
        assert (await shipped(world, dialect="auto", tls=TLS)).bytes == len(lines(0, 100))
        world.write(lines(100, 100))

        def fall_silent(_: object) -> bool:
            native.silent = True
            return True

        native.fail = fall_silent

        async def change() -> None:
            await world.clock.sleep(2)
            await listener.close()
            await host.listen("0.0.0.0", 5044, tls_with(), plain.accept)
            world.network.cut("agent")

        changing = asyncio.get_running_loop().create_task(change())
        with pytest.raises(TransientError, match="waits for a receiver that speaks logdrive/1"):
            await shipped(world, dialect="auto", tls=TLS)
        await changing
        assert not plain.writes

    run(main())


def test_check_names_the_dialect_that_would_be_spoken() -> None:
    async def main() -> None:
        world, model = World(), PlainModel()
        world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        await world.network.host("reader").listen("0.0.0.0", 5044, tls_with(), model.accept)
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        (finding,) = [finding for finding in checked.findings if finding.name == "reader:5044"]
        assert (finding.ok, finding.warn) == (True, True)
        assert (
            "lumberjack/2 would be spoken: the receiver did not agree on logdrive/1"
            in finding.detail
        )

    run(main())
