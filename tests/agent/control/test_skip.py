"""An operator leaves out what was not sent: that is a gap, up to the end of a line (rule A4)."""

from typing import Any

import pytest

from tests.agent.control.asking import ask
from tests.agent.world import LOG, World, lines
from tests.receiver.world import configuration, receiver
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


@pytest.mark.parametrize("copied", [False, True], ids=["no copy", "copy"])
def test_what_was_truncated_and_not_looked_at_since_is_not_skipped__A4(copied: bool) -> None:
    """The file has other lines by then: the last one's end would be inside a line of the source."""

    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        first = lines(0, 10) + b"longer lines\n" * 10
        world.write(first[120:])
        await world.clock.sleep(1)
        if copied:
            world.write(first, f"{LOG}.1")
        world.truncate()
        world.write(lines(10, 15))  # no look has seen it
        refused = await ask(world, "skip", source=LOG)
        assert "was truncated" in refused.error
        await world.reader()
        await world.settle(200)
        old, new = world.stored()
        assert new.content == lines(10, 15)
        assert old.content == (first if copied else lines(0, 10))
        assert old.gaps == ([] if copied else [(120, len(first), "truncated", False)])
        await world.stop()

    run(main())


def test_what_is_skipped_is_a_gap_and_later_lines_follow__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 90) + b"half a li")
        await world.clock.sleep(1)
        answer = await ask(world, "skip", source=LOG)
        assert answer.change is not None, answer.error
        assert (answer.change.start, answer.change.end) == (120, 1200)
        await world.reader()
        world.write(b"ne\n")
        await world.settle(200)
        (stored,) = world.stored()
        assert stored.content == lines(0, 10) + b"half a line\n"
        assert stored.gaps == [(120, 1200, "skipped", True)]
        await world.stop()

    run(main())


def test_of_what_is_skipped_the_lines_that_are_on_the_way_are_named__A4() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["windows_in_flight"] = 1
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 2.0
        world.write(lines(10, 400_000))
        await world.clock.sleep(1)
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        sent = source.sent_position
        assert source.position == 120 < sent
        answer = await ask(world, "skip", source=LOG)
        assert answer.change is not None, answer.error
        change = answer.change
        assert (change.start, change.end) == (120, len(lines(0, 400_010)))
        assert f"up to {sent:,} are under way" in change.text
        await world.settle(300)
        (stored,) = world.stored()
        assert stored.gaps == [(sent, change.end, "skipped", True)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_what_is_to_be_skipped__A4(end: str) -> None:
    async def main() -> None:
        world = World()
        world.settings["agent"]["drain_seconds"] = 1
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        assert (await ask(world, "skip", source=LOG)).ok  # the checkpoint has it
        await (world.stop() if end == "stop" else world.kill())
        world.write(lines(20, 10))
        await world.reader()
        world.start()
        await world.settle(200)
        (stored,) = world.stored()
        assert stored.content == lines(0, 10) + lines(20, 10)
        assert stored.gaps == [(120, 240, "skipped", True)]
        await world.stop()

    run(main())


def test_a_file_that_is_removed_before_its_skip_was_sent_says_what_was_skipped__A4_P4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        assert (await ask(world, "skip", source=LOG)).ok
        world.write(lines(20, 10))
        await world.clock.sleep(1)
        world.truncate()
        await world.clock.sleep(10)
        await world.reader()
        await world.settle(200)
        (stored,) = world.stored()
        assert stored.content == lines(0, 10)
        assert stored.gaps == [(120, 240, "skipped", True), (240, 360, "truncated", False)]
        await world.stop()

    run(main())


def test_nothing_is_skipped_where_all_was_sent() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10) + b"no whole line")
        answer = await ask(world, "skip", source=LOG)
        assert answer.error.endswith("there is no whole line that was not sent")
        await world.stop()

    run(main())


def test_nothing_is_skipped_where_all_is_under_way_and_a_broken_connection_sends_it_again() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 30.0
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        assert (source.position, source.sent_position) == (120, 240)
        answer = await ask(world, "skip", source=LOG)
        assert "all that was seen is under way, up to 240, and is sent again" in answer.error
        await world.crash_reader()
        await world.reader()
        await world.settle(200)
        (stored,) = world.stored()
        assert (stored.content, stored.gaps) == (lines(0, 20), [])
        await world.stop()

    run(main())


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({"encoding": "utf-16-le"}, "\n"),
        ({"encoding": "utf-16"}, "\n"),
        ({"encoding": "utf-16-be"}, "\n"),
        ({"line_end": "||"}, "||"),
        ({"line_end": "\0", "encoding": "latin-1"}, "\0"),
    ],
    ids=["utf-16-le", "utf-16 with a mark", "utf-16-be", "delimiter", "NUL"],
)
def test_a_skip_ends_where_a_line_of_the_file_ends__A4(settings: dict[str, Any], end: str) -> None:
    """Characters whose bytes look like a line end, on both sides of it."""

    async def main() -> None:
        world, disk = World(**settings), MemoryDisk()
        world.settings["agent"]["drain_seconds"] = 1
        world.settings["output"]["hosts"] = ["receiver:5044"]
        encoding = settings.get("encoding", "utf-8")
        mark = "\ufeff".encode("utf-16-be") if encoding == "utf-16" else b""
        codec = "utf-16-be" if mark else encoding
        letters = "\u0a00\u000b\u0a0b" if "utf-16" in encoding else "|x"
        first = f"first{letters}{end}".encode(codec)
        skipped = f"skipped{letters}{end}".encode(codec) * 9000  # more than is read at once
        world.write(mark + first)
        async with receiver(network=world.network, disk=disk, config=configuration(tls="off")):
            world.start()
            await world.settle()
        world.write(skipped + f"half{letters}".encode(codec))
        await world.clock.sleep(2)
        answer = await ask(world, "skip", source=LOG)
        assert answer.change is not None, answer.error
        begin = len(mark + first)
        assert (answer.change.start, answer.change.end) == (begin, begin + len(skipped))
        await world.stop()

    run(main())
