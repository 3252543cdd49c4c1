"""`Agent.reload`: other settings hold while the agent runs; only what they change is dropped."""

import asyncio
from typing import Any

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from agent.config.config import AgentConfig
from agent.reload import Reloader
from logdrive.config.load import name_keys_in_errors
from logdrive.errors import ConfigError, Mistake
from tests.agent.world import LOG, World, contents, lines
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

OTHER = "/logs/other.txt"


async def reloaded(world: World, **tables: Any) -> list[str]:
    """Reload the agent of *world* with these tables; return what needs a restart."""
    world.settings |= tables
    assert world.agent is not None
    return await world.agent.reload(msgspec.convert(world.settings, AgentConfig))


def test_a_reload_that_changes_nothing_drops_nothing() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        before = len(reader.registered)
        assert await reloaded(world) == []
        world.write(lines(10, 10))
        await world.settle()
        assert (reader.connections, len(reader.registered)) == (1, before)
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_files_of_a_new_input_are_read_from_their_beginning() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 3), OTHER)
        reader = await world.ships(lines(0, 10))
        await reloaded(world, input=[*world.settings["input"], {"paths": [OTHER]}])
        await world.clock.sleep(1)
        await world.settle()
        assert contents(world.stored(OTHER)) == [lines(0, 3)]
        assert reader.connections == 1
        await world.stop()

    run(main())


def test_a_file_that_no_input_names_is_read_on_from_its_position_once_one_does() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        agent, former = world.agent, world.settings["input"]
        assert agent is not None
        await reloaded(world, input=[{"paths": [OTHER]}])
        world.write(lines(10, 10))
        await world.clock.sleep(20)
        assert contents(world.stored()) == [lines(0, 10)]
        assert (agent.tailer.followed, list(agent.registry.sources)) == ({}, [])
        await reloaded(world, input=former)
        await world.clock.sleep(1)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_a_copy_that_a_later_input_names_is_looked_for_in_the_store__G5() -> None:
    async def main() -> None:
        world = World(paths=[f"{LOG}*"])
        await world.ships(lines(0, 100))
        world.write(lines(0, 100), f"{LOG}.1")
        world.truncate()
        await world.kill()
        world.forget()

        former = world.settings["input"]
        world.settings["input"] = [{"paths": [OTHER]}]
        world.start()
        await world.clock.sleep(1)
        await reloaded(world, input=former)
        await world.clock.sleep(1)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 100)]
        assert not world.stored(f"{LOG}.1")
        await world.stop()

    run(main())


def test_a_copy_that_was_read_and_not_acknowledged_is_read_again_once_an_input_names_it__G5() -> (
    None
):
    async def main() -> None:
        world = World(paths=[f"{LOG}*"])
        reader = await world.ships(lines(0, 100))
        kept, reader.ack_seconds = reader.backup(), 1e6  # not durable: nothing is acknowledged
        world.write(lines(100, 100))
        world.write(lines(0, 200), f"{LOG}.1")
        world.truncate()
        await world.clock.sleep(30)
        await world.kill()

        former = world.settings["input"]
        world.settings["input"] = [{"paths": [OTHER]}]
        await world.crash_reader()
        world.start()
        await world.clock.sleep(20)
        assert world.agent is not None
        [entry] = world.agent.registry.absent.values()
        assert entry.ended == "truncated"
        reader.stored, reader.ack_seconds = kept, 0.001
        await world.reader()
        await reloaded(world, input=former)
        await world.clock.sleep(15)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 200)]
        assert not any(each.gaps for each in world.stored())
        await world.stop()

    run(main())


def test_what_was_not_acknowledged_of_an_input_taken_away_for_good_is_a_gap_after_an_hour__P4() -> (
    None
):
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 100))
        kept, reader.ack_seconds = reader.backup(), 1e6  # not durable: nothing is acknowledged
        world.write(lines(100, 100))
        await world.clock.sleep(3)
        world.truncate()
        await world.clock.sleep(30)
        await world.kill()
        reader.stored, reader.ack_seconds = kept, 0.001

        world.settings["input"] = [{"paths": [OTHER]}]
        world.start()
        await world.clock.sleep(3000)
        [stored] = world.stored()
        assert not stored.gaps
        await world.clock.sleep(700)
        await world.settle()
        [stored] = world.stored()
        [(start, end, *_)] = stored.gaps
        assert (start, end) == (len(lines(0, 100)), len(lines(0, 200)))
        assert world.agent is not None
        assert not world.agent.registry.absent
        await world.stop()

    run(main())


def test_a_line_that_a_later_input_finds_unfinished_is_counted_after_the_next_start__G3() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.kill()
        world.forget()
        world.truncate()
        world.write(lines(0, 1)[:-1])

        former = world.settings["input"]
        world.settings["input"] = [{"paths": [OTHER]}]
        world.start()
        await world.clock.sleep(5)
        assert world.agent is not None
        assert not world.agent.registry.uncounted
        await reloaded(world, input=former)
        await world.clock.sleep(5)
        assert world.agent.registry.uncounted
        world.write(b"\n")
        await world.clock.sleep(5)
        assert not world.agent.registry.uncounted
        await world.stop()

    run(main())


def test_a_file_is_let_go_only_once_what_is_in_flight_was_acknowledged() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 3.0
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(4)
        assert agent.connection.session is not None
        assert agent.connection.session.in_flight == 1
        await reloaded(world, input=[{"paths": [OTHER]}])
        assert len(agent.tailer.followed) == 1
        await world.clock.sleep(4)
        [entry] = agent.registry.absent.values()
        assert (entry.number >> 16, agent.tailer.followed) == (len(lines(0, 10)), {})
        await world.stop()

    run(main())


def test_a_reload_takes_back_what_the_one_before_let_go() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.ack_seconds = 3.0
        world.write(lines(0, 10))
        world.start()
        await world.clock.sleep(4)
        former, before = world.settings["input"], len(reader.registered)
        await reloaded(world, input=[{"paths": [OTHER]}])
        await reloaded(world, input=former)
        reader.ack_seconds = 0.001
        world.write(lines(10, 10))
        await world.clock.sleep(4)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        assert (reader.connections, len(reader.registered)) == (1, before)
        await world.stop()

    run(main())


def test_other_labels_are_in_the_headers_of_what_is_read_next__R4() -> None:
    async def main() -> None:
        world = World(fields={"service": "one"})
        reader = await world.ships(lines(0, 10))
        [table], before = world.settings["input"], len(reader.registered)
        await reloaded(world, input=[{**table, "fields": {"service": "two"}}])
        world.write(lines(10, 10))
        await world.settle()
        [stored] = world.stored()
        assert stored.content == lines(0, 20)
        assert stored.attributes["fields"] == {"service": "two"}
        assert (reader.connections, len(reader.registered)) == (1, before + 1)
        await world.stop()

    run(main())


def test_other_events_begin_with_what_is_read_next() -> None:
    async def main() -> None:
        world = World(end_after_seconds=5)
        await world.ships(lines(0, 10))
        [table] = world.settings["input"]
        trace = b"line a\n  at one\n  at two\nline b\n"
        await reloaded(world, input=[{**table, "multiline": {"start": "^line"}}])
        world.write(trace)
        await world.clock.sleep(60)
        await world.settle()
        [stored] = world.stored()
        assert (stored.content, stored.events) == (lines(0, 10) + trace, 12)
        await reloaded(world, input=[table])
        world.write(trace)
        await world.settle()
        assert (stored.content, stored.events) == (lines(0, 10) + trace * 2, 16)
        await world.stop()

    run(main())


def test_other_output_settings_are_used_from_the_end_of_a_window_on() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["one:5044"]
        one, two = await world.reader("one"), await world.reader("two")
        one.store, one.ack_seconds = two.store, 2.0
        two.stored = one.stored
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(4.5)
        with capture_logs() as log:
            await reloaded(world, output={**world.settings["output"], "hosts": ["two:5044"]})
            world.write(lines(10, 10))
            await world.settle()
        assert agent.status().host == "two:5044"
        assert (one.connections, two.connections) == (1, 1)
        assert (one.refused_runs, two.refused_runs) == (0, 0), "nothing was sent again"
        assert contents(world.stored(LOG, "two")) == [lines(0, 20)]
        assert not [line for line in log if line["log_level"] in ("warning", "error")]
        await world.stop()

    run(main())


def test_certificates_that_can_not_be_used_change_nothing() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        tls = {"ca": "/tls/ca.pem", "cert": "/tls/client.pem", "key": "/tls/client.key"}
        output = {**world.settings["output"], "tls": tls}
        config = msgspec.convert({**world.settings, "output": output}, AgentConfig)
        named = r"etc/agent\.toml: output\.tls\.ca = .?/tls/ca\.pem.?: No such file"
        with (
            pytest.raises(ConfigError, match=named),
            name_keys_in_errors("etc/agent.toml", config),
        ):
            await reloaded(world, output=output)
        world.write(lines(10, 10))
        await world.settle()
        assert reader.connections == 1
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_connections_of_a_reload_wait_for_the_first_receiver_that_answers() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        for hosts in (["two:5044"], ["three:5044", "four:5044"]):
            output = {**world.settings["output"], "hosts": hosts, "mode": "balance"}
            await reloaded(world, output=output)
            world.write(lines(10 if hosts == ["two:5044"] else 20, 10))
            await world.clock.sleep(60)
        four = ReaderModel("four")
        four.store, four.stored = reader.store, reader.stored
        await world.reader("four", four)
        await world.clock.sleep(40)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 30)]
        await world.stop()

    run(main())


def test_a_connection_that_is_being_made_when_its_settings_change_gets_no_source() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["hosts"] = ["one:5044"]
        one, two = await world.reader("one"), await world.reader("two")
        world.network.link("agent", "one").delay = 2.0
        world.write(lines(0, 10))
        agent = world.start()
        await world.clock.sleep(1)
        await reloaded(world, output={**world.settings["output"], "hosts": ["two:5044"]})
        await world.settle()
        await world.clock.sleep(20)
        assert (agent.status().host, len(agent.connection.connectors)) == ("two:5044", 1)
        assert (one.registered, contents(world.stored(LOG, "two"))) == ([], [lines(0, 10)])
        assert two.connections == 1
        await world.stop()

    run(main())


@pytest.mark.parametrize("key", ["state_dir", "id", "host"])
def test_what_names_sources_holds_until_a_restart__G2(key: str) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        agent = {**world.settings["agent"], key: "/elsewhere", "drain_seconds": 7.0}
        with capture_logs() as log:
            assert await reloaded(world, agent=agent) == [f"agent.{key}"]
        warnings = [line for line in log if line["log_level"] == "warning"]
        assert [line["key"] for line in warnings] == [f"agent.{key}"]
        world.write(lines(10, 10))
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        with capture_logs() as log:
            await world.stop()
        assert {"seconds": 7.0, "event": "draining", "log_level": "info"} in log

    run(main())


def test_a_file_with_mistakes_changes_nothing_and_the_next_one_is_taken() -> None:
    async def main() -> None:
        world = World()
        world.settings["agent"]["rescan_seconds"] = 3600
        world.write(lines(0, 3), OTHER)
        await world.reader()
        asked = asyncio.Event()
        found: list[AgentConfig | ConfigError] = [
            ConfigError("agent.toml", [Mistake("output.hosts", "", "name one")]),
            msgspec.convert({**world.settings, "input": [{"paths": [OTHER]}]}, AgentConfig),
        ]
        told: list[str] = []

        def load() -> AgentConfig:
            result = found.pop(0)
            if isinstance(result, ConfigError):
                raise result
            return result

        reloader = Reloader(
            load,
            asked,
            on_begin=lambda: told.append("begins"),
            on_end=lambda: told.append("ends"),
        )
        with capture_logs() as log:
            world.start(reloader=reloader, log=structlog.get_logger("agent"))
            for _ in range(2):
                await world.clock.sleep(1)
                asked.set()
            await world.clock.sleep(2)
            await world.settle()
        [error] = [line for line in log if line["log_level"] == "error"]
        assert "output.hosts" in error["reason"]
        assert told == ["begins", "ends"] * 2
        assert contents(world.stored(OTHER)) == [lines(0, 3)]
        await world.stop()

    run(main())
