"""Figures for Prometheus and health: read by the library that Prometheus offers for it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.config.config import AgentConfig
from agent.metrics.server import HealthServer
from agent.metrics.text import Family, encode_families
from logdrive.errors import ConfigError
from logdrive.host.transport import ByteStream, Peer
from logdrive.model.framing import Part
from tests.agent.world import World, lines
from tests.receiver.world import configuration, receiver
from tests.support.virtual_time import run

_DOCUMENTED = Path(__file__).parents[3] / "docs" / "agent.md"


async def fetch(world: World, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Return status, head and body of an answer."""
    stream = await world.network.host("agent").connect("127.0.0.1", 9600, None)
    await stream.write([f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()])
    head, _, body = (await _all(stream)).partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body.decode()


async def _all(stream: ByteStream) -> bytes:
    data = bytearray()
    while piece := await stream.read():
        data += piece
    return bytes(data)


def _world() -> World:
    world = World()
    world.settings["control"] = {"metrics": "127.0.0.1:9600", "behind_seconds": 30}
    return world


def _values(text: str) -> dict[str, float]:
    return {
        sample.name
        + "".join(
            f" {value}" for key, value in sample.labels.items() if key == "input"
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures_are_by_input_however_many_files_there_are() -> None:
    async def main() -> None:
        world = _world()
        world.settings["input"] = [{"paths": ["/logs/a*"]}, {"paths": ["/logs/b*"]}]
        await world.reader()
        for number in range(20):
            world.write(lines(2 * number, 2), f"/logs/a{number}.log")
        world.write(lines(0, 5), "/logs/b.log")
        world.start()
        await world.settle()
        status, head, body = await fetch(world, "/metrics")
        assert (status, "text/plain; version=0.0.4" in head) == (200, True)
        values = _values(body)
        assert values["logdrive_agent_events_total input[0]"] == 40
        assert values["logdrive_agent_bytes_total input[1]"] == 60
        assert values["logdrive_agent_sources input[0]"] == 20
        assert values["logdrive_agent_sources_behind input[0]"] == 0
        assert values["logdrive_agent_files"] == 21
        assert values["logdrive_agent_connected"] == values["logdrive_agent_ready"] == 1
        assert len(values) < 40
        assert ".log" not in body

        # of a removed file, what was counted stays
        await world.crash_reader()
        world.write(lines(5, 5), "/logs/b.log")
        await world.clock.sleep(40)
        values = _values((await fetch(world, "/metrics"))[2])
        assert values["logdrive_agent_lag_bytes input[1]"] == 60
        assert 30 <= values["logdrive_agent_lag_seconds input[1]"] <= 40
        assert values["logdrive_agent_connection_failures_total"] >= 1
        assert values["logdrive_agent_connected"] == 0
        await world.reader()
        world.disk.remove("/logs/a0.log")
        await world.clock.sleep(300)
        values = _values((await fetch(world, "/metrics"))[2])
        assert values["logdrive_agent_sources input[0]"] == 19
        assert values["logdrive_agent_events_total input[0]"] == 40
        await world.stop()

    run(main())


def test_formats_and_processors_are_figures_too_and_outlive_their_files() -> None:
    async def main() -> None:
        world = _world()
        paths = {"paths": ["/logs/*.log*"], "end_after_seconds": 1}
        drop = [{"exclude": {"pattern": "drop"}}]
        world.settings["input"] = [{**paths, "format": "json", "processor": drop}]
        world.settings["output"]["hosts"] = ["receiver:5044"]
        world.write(b'{"a":1}\n{"a":"drop"}\nnone\n')
        async with receiver(network=world.network, config=configuration(tls="off")):
            world.start()
            await world.settle()
            world.disk.remove("/logs/app.log")
            await world.clock.sleep(60)
            body = (await fetch(world, "/metrics"))[2]
            await world.stop()
        assert 'logdrive_agent_format_lines_total{input="input[0]",result="parsed"} 2\n' in body
        assert 'logdrive_agent_format_lines_total{input="input[0]",result="failed"} 1\n' in body
        labels = 'input="input[0]",processor="0",action="exclude",rule=""'
        assert f"logdrive_agent_processor_events_total{{{labels}}} 1\n" in body
        assert f"logdrive_agent_processor_bytes_total{{{labels}}} 13\n" in body

    run(main())


def test_a_reload_keeps_figures_under_their_inputs_and_no_counter_begins_anew() -> None:
    async def main() -> None:
        world = _world()
        drop = [{"exclude": {"pattern": "drop"}}]
        world.settings["input"] = [{"paths": ["/logs/*.log*"], "processor": drop}]
        world.settings["output"]["hosts"] = ["receiver:5044"]
        world.write(b"drop\n" + lines(0, 9))
        async with receiver(network=world.network, config=configuration(tls="off")):
            world.start()
            await world.settle()
            counted = _counters((await fetch(world, "/metrics"))[2])
            (table,) = world.settings["input"]
            for change in (
                {},
                {"output": world.settings["output"] | {"windows_in_flight": 4}},
                {"input": [table | {"tags": ["other"]}]},
                {"input": [table | {"tags": ["another"]}]},
            ):
                world.settings |= change
                assert world.agent is not None
                await world.agent.reload(msgspec.convert(world.settings, AgentConfig))
                world.write(b"drop\n" + lines(0, 9))
                await world.settle()
                before, counted = counted, _counters((await fetch(world, "/metrics"))[2])
                assert not [name for name in before if counted[name] < before[name]]
            await world.stop()
        assert not [name for name in counted if '"gone"' in name]
        assert counted['logdrive_agent_events_total{input="input[0]"}'] == 45
        labels = '{input="input[0]",processor="0",action="exclude",rule=""}'
        assert counted[f"logdrive_agent_processor_events_total{labels}"] == 5
        assert counted["logdrive_agent_connections_total"] == 2

    run(main())


def _counters(text: str) -> dict[str, float]:
    """Return the counters by name and labels, each of which is there once."""
    found = [line.rsplit(" ", 1) for line in text.splitlines() if "_total" in line.split(" ", 1)[0]]
    assert len({name for name, _ in found}) == len(found)
    return {name: float(value) for name, value in found}


def test_each_figure_is_documented() -> None:
    async def main() -> set[str]:
        world = _world()
        drop = [{"exclude": {"pattern": "x"}}]
        world.settings["input"] = [{"paths": ["/logs/*"], "format": "json", "processor": drop}]
        world.settings["output"]["hosts"] = ["receiver:5044"]
        world.write(lines(0, 10))
        async with receiver(network=world.network, config=configuration(tls="off")):
            world.start()
            await world.settle()
            body = (await fetch(world, "/metrics"))[2]
            await world.stop()
        return {name.split()[0] for name in _values(body)}

    text = _DOCUMENTED.read_text()
    assert {name for name in run(main()) if f"`{name}`" not in text} == set()


def test_health_says_ok_and_readiness_why_not() -> None:
    async def main() -> None:
        world = _world()
        await world.ships(lines(0, 10))
        assert (await fetch(world, "/healthz"))[::2] == (200, "ok\n")
        assert (await fetch(world, "/readyz?verbose"))[::2] == (200, "ok\n")
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(45)
        status, _, reason = await fetch(world, "/readyz")
        assert (status, reason.startswith("lines have waited for ")) == (503, True)
        assert (await fetch(world, "/healthz"))[0] == 200
        await world.reader()
        await world.settle(200)
        assert (await fetch(world, "/readyz"))[0] == 200
        await world.stop()

    run(main())


def test_a_draining_agent_is_not_ready() -> None:
    async def main() -> None:
        world = _world()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        stopping = asyncio.ensure_future(world.stop())
        await world.clock.sleep(1)
        assert (await fetch(world, "/readyz"))[::2] == (503, "the agent is draining\n")
        assert (await fetch(world, "/healthz"))[0] == 200
        await stopping

    run(main())


def test_other_requests_are_answered_and_harm_nothing() -> None:
    async def main() -> None:
        world = _world()
        await world.ships(lines(0, 10))
        assert (await fetch(world, "/"))[0] == 404
        assert (await fetch(world, "/metrics", "POST"))[0] == 405
        status, head, body = await fetch(world, "/healthz", "HEAD")
        assert (status, "Content-Length: 3" in head, body) == (200, True, "")

        host = world.network.host("agent")
        for garbage in (b"\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET /\r\n\r\n"):
            stream = await host.connect("127.0.0.1", 9600, None)
            await stream.write([garbage])
            assert (await _all(stream)).startswith(b"HTTP/1.1 400 ")
        endless = await host.connect("127.0.0.1", 9600, None)
        await endless.write([b"x" * 40_000])
        assert await _all(endless) == b""
        # a load balancer that asks and resets, or only connects
        for words in (b"GET /readyz HTTP/1.1\r\n\r\n", b""):
            stream = await host.connect("127.0.0.1", 9600, None)
            await stream.write([words] if words else [])
            stream.abort()
        silent = [await host.connect("127.0.0.1", 9600, None) for _ in range(64)]
        refused = await host.connect("127.0.0.1", 9600, None)
        await refused.write([b"GET /healthz HTTP/1.1\r\n\r\n"])
        assert await _all(refused) == b""
        await world.clock.sleep(11)
        assert [await _all(stream) for stream in silent] == [b""] * 64
        assert (await fetch(world, "/healthz"))[0] == 200
        await world.stop()

    run(main())


def test_a_scraper_that_reads_no_answer_is_given_up() -> None:
    class Slow:
        """Asks, and reads nothing."""

        peer = Peer("slow:1")

        async def read(self) -> bytes:
            return b"GET /healthz HTTP/1.1\r\n\r\n"

        async def write(self, parts: Sequence[Part]) -> None:
            await asyncio.Event().wait()

        def refuse_more(self) -> None: ...

        async def close(self) -> None: ...

        def abort(self) -> None: ...

    async def main() -> None:
        server = HealthServer(lambda: b"", lambda: "")
        await asyncio.wait_for(server.serve(Slow()), 60)

    run(main())


def test_an_address_that_is_taken_is_named() -> None:
    async def main() -> None:
        world = _world()
        await world.network.host("agent").listen("127.0.0.1", 9600, None, _never)
        world.start()
        with pytest.raises(ConfigError, match=r"control\.metrics = 127\.0\.0\.1:9600"):
            await world.stop()

    run(main())


async def _never(stream: ByteStream) -> None:
    raise AssertionError(stream)


_TEXTS = st.text(
    st.characters(
        exclude_categories=["Cs"], exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"
    )
)


@given(st.lists(st.tuples(_TEXTS, st.floats(allow_nan=False)), max_size=5), _TEXTS)
def test_any_text_and_number_is_read_as_it_was_written(
    samples: list[tuple[str, float]], text: str
) -> None:
    family = Family("x_total", "counter", text)
    for label, value in samples:
        family.add(value, input=label)
    (read,) = text_string_to_metric_families(encode_families([family]).decode())
    assert [(each.labels["input"], each.value) for each in read.samples] == samples
