"""What operators see of a running agent: lag, rates and errors of sources, in any order."""

import errno
from typing import Any

import pytest

from tests.agent.control.asking import ask
from tests.agent.metrics.test_metrics import fetch
from tests.agent.world import LOG, World, lines
from tests.receiver.world import configuration, receiver
from tests.support.memory.disk import MemoryFile
from tests.support.virtual_time import run


def test_what_waits_for_a_receiver_is_told_in_bytes_and_seconds() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        world.write(lines(0, 5), "/logs/other.log")
        await world.clock.sleep(6)  # until a scan
        await world.settle()
        await world.crash_reader()
        world.write(lines(10, 100))
        await world.clock.sleep(60)
        status = (await ask(world, "status")).status
        assert status is not None
        first, other = status.sources
        assert (first.path, first.position, first.seen, first.lag_bytes) == (LOG, 120, 1320, 1200)
        assert 50 < first.lag_seconds <= 60
        assert (other.lag_bytes, other.lag_seconds) == (0, 0.0)
        assert (status.behind, status.lag_bytes, status.files, status.living) == (1, 1200, 2, 2)
        assert (status.host, status.phase) == ("", "running")
        assert status.problem

        await world.reader()
        await world.settle(200)
        status = (await ask(world, "status")).status
        assert status is not None
        assert (status.behind, status.lag_bytes, status.lag_seconds) == (0, 0, 0.0)
        assert (status.events, status.host, status.problem) == (115, "reader:5044", "")
        await world.stop()

    run(main())


def test_of_a_rotated_file_it_is_told_where_it_stands_now() -> None:
    async def main() -> None:
        world = World(paths=["/logs/*"])
        await world.ships(lines(0, 10))
        world.disk.replace(LOG, f"{LOG}.1")
        world.write(lines(10, 10))
        await world.clock.sleep(6)  # until a scan
        await world.settle()
        status = (await ask(world, "status")).status
        assert status is not None
        assert {(one.path, one.name) for one in status.sources} == {(LOG, f"{LOG}.1"), (LOG, "")}
        await world.stop()

    run(main())


def test_files_that_can_not_be_read_are_counted_although_they_have_no_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 10))

        def refuse(path: str, **keys: Any) -> MemoryFile:
            if path == LOG:
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return opened(path, **keys)

        opened = world.disk.open
        monkeypatch.setattr(world.disk, "open", refuse)
        await world.reader()
        world.start()
        await world.settle()
        status = (await ask(world, "status")).status
        assert status is not None
        assert (status.files, status.unreadable, status.living) == (1, 1, 0)
        assert status.unreadable_files == []
        status = (await ask(world, "status", problems=True)).status
        assert status is not None
        (file,) = status.unreadable_files
        assert (file.path, file.problem, status.matching) == (LOG, "Permission denied", 1)
        status = (await ask(world, "status", problems=True, path="/logs/other*")).status
        assert status is not None
        assert (status.unreadable_files, status.matching) == ([], 0)
        monkeypatch.undo()
        await world.clock.sleep(30)  # until it is tried again
        await world.settle()
        status = (await ask(world, "status")).status
        assert status is not None
        assert (status.files, status.unreadable, status.living) == (1, 0, 1)
        await world.stop()

    run(main())


def test_absent_sources_are_among_those_with_problems() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.stop()
        world.settings["input"] = [{"paths": ["/logs/other*"]}]
        world.start()
        await world.clock.sleep(5)
        status = (await ask(world, "status", problems=True)).status
        assert status is not None
        (source,) = status.sources
        assert (source.path, source.state, status.matching) == (LOG, "absent", 1)
        assert "no input names it" in source.problem
        await world.stop()

    run(main())


def test_lag_is_the_age_of_what_waits_not_of_the_source() -> None:
    """Lines never stop coming, so the source is always a little behind; each waits for little."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 3.0
        for number in range(1, 200):
            world.write(lines(number * 10, 10))
            await world.clock.sleep(0.5)
        status = (await ask(world, "status")).status
        assert status is not None
        (source,) = status.sources
        assert source.lag_bytes > 0
        assert source.lag_seconds < 20
        assert 100 < source.rate < 500  # 240 bytes a second are written
        await world.stop()

    run(main())


def test_sources_are_filtered_and_sorted_and_the_rest_is_counted() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        for number in range(30):
            world.write(lines(0, number + 1), f"/logs/{number:02}.log")
        world.start()
        await world.settle()
        await world.crash_reader()
        for number in range(10):
            world.write(lines(0, 1 + number), f"/logs/{number:02}.log")
        await world.clock.sleep(5)

        status = (await ask(world, "status", limit=3)).status
        assert status is not None
        assert [source.path for source in status.sources] == [
            "/logs/09.log",
            "/logs/08.log",
            "/logs/07.log",
        ]
        assert (status.matching, status.living) == (30, 30)
        status = (await ask(world, "status", limit=100, behind=True, sort="path")).status
        assert status is not None
        assert [source.path for source in status.sources] == [
            f"/logs/{n:02}.log" for n in range(10)
        ]
        status = (await ask(world, "status", limit=1, sort="size", path="/logs/2*.log")).status
        assert status is not None
        assert ([source.path for source in status.sources], status.matching) == (
            ["/logs/29.log"],
            10,
        )
        status = (await ask(world, "status", state="paused")).status
        assert status is not None
        assert status.matching == 0
        status = (await ask(world, "status", limit=0)).status
        assert status is not None
        assert (status.sources, status.matching) == ([], 30)
        await world.stop()

    run(main())


def test_a_file_that_can_not_be_read_is_shown_with_its_error() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.refuse = lambda frame: (3, "not yours")
        world.write(lines(0, 10))
        world.write(lines(0, 10), "/logs/b.log")
        world.start()
        await world.clock.sleep(3)
        status = (await ask(world, "status", problems=True)).status
        assert status is not None
        assert [source.state for source in status.sources] == ["paused", "paused"]
        assert all("not yours" in source.problem for source in status.sources)
        await world.stop()

    run(main())


def test_formats_and_processors_are_counted_by_source_and_by_rule() -> None:
    async def main() -> None:
        world = World(
            format="json",
            processor=[{"redact": {"presets": ["email"]}}, {"exclude": {"pattern": "noise"}}],
        )
        world.settings["output"]["hosts"] = ["receiver:5044"]
        line = b'{"message":"to a@example.org"}\n'
        world.write(line * 3 + b"not json\n" + b'{"message":"noise"}\n')
        async with receiver(network=world.network, config=configuration(tls="off")):
            world.start()
            await world.settle()
            status = (await ask(world, "status")).status
            await world.stop()
        assert status is not None
        (source,) = status.sources
        assert (source.format, source.parsed, source.failed) == ("json", 4, 1)
        by_action = {rule.action: rule for rule in status.rules if rule.events}
        # in the message, and in the field
        assert (by_action["redact"].events, by_action["redact"].matches) == (3, 6)
        assert (by_action["exclude"].events, by_action["exclude"].bytes) == (1, 20)
        assert {rule.input for rule in status.rules} == {"input[0]"}

    run(main())


def test_events_over_the_limit_are_counted_by_source_and_by_input() -> None:
    async def main() -> None:
        world = World(longest_event_bytes=4)
        world.settings["output"]["hosts"] = ["receiver:5044"]
        world.settings["control"] = {"metrics": "127.0.0.1:9600"}
        world.write(b"four\n12345\n" * 3 + b"x" * 1_000_000 + b"\n")
        async with receiver(network=world.network, config=configuration(tls="off")):
            world.start()
            await world.settle()
            status = (await ask(world, "status")).status
            figures = (await fetch(world, "/metrics"))[2]
            await world.stop()
        assert status is not None
        assert [source.truncated for source in status.sources] == [4]
        assert 'logdrive_agent_truncated_events_total{input="input[0]"} 4\n' in figures

    run(main())


def test_ended_and_absent_sources_are_listed_on_demand() -> None:
    async def main() -> None:
        world = World(end_after_seconds=1)
        await world.ships(lines(0, 10))
        world.disk.remove(LOG)
        await world.clock.sleep(30)
        await world.settle()
        plain = (await ask(world, "status")).status
        assert plain is not None
        assert (plain.sources, plain.ended) == ([], 1)
        by_state = (await ask(world, "status", state="ended")).status
        status = (await ask(world, "status", gone=True)).status
        assert status is not None
        assert by_state is not None
        (source,) = status.sources
        assert by_state.sources == status.sources
        assert (source.path, source.state, source.position) == (LOG, "ended", 120)
        assert (source.problem, source.lag_bytes) == ("removed", 0)
        await world.stop()

    run(main())


def test_what_is_no_request_is_refused_with_the_reason() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        assert world.agent is not None
        desk = world.agent.operations.desk
        for line in (
            b"\n",
            b"status\n",
            b"[]\n",
            b'{"do":"dance"}\n',
            b'{"do":"status","limit":-1}\n',
            b'{"do":"status","limit":10001}\n',
            b'{"do":"status","colour":1}\n',
            b'{"do":"skip"}\n',
            b'{"do":"skip","source":""}\n',
            b'{"do":"status","path":"\xff"}\n',
        ):
            answer = await desk.answer(line)
            assert answer.startswith(b'{"ok":false,"error":"not a request: '), (line, answer)
        await world.stop()

    run(main())
