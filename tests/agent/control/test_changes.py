"""Skip and resend: which file a name means, and what is left alone (rule A4)."""

import asyncio

import pytest

from tests.agent.control.asking import ask
from tests.agent.world import LOG, World, lines
from tests.support.virtual_time import run


def test_change_that_the_checkpoint_has_no_room_for_is_done_and_said_to_be_not_durable() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        world.disk.capacity = 0
        answer = await ask(world, "resend", source=LOG)
        assert answer.change is not None, answer.error
        assert (answer.change.done, answer.change.durable) == (True, False)
        world.disk.capacity = None
        await world.settle()
        old, new = world.stored()
        assert (old.ended, new.content) == ((120, "resent"), lines(0, 10))
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_dry_run_changes_nothing(do: str) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        answer = await ask(world, do, source=LOG, dry_run=True)
        assert answer.change is not None, answer.error
        assert not answer.change.done
        await world.reader()
        await world.settle(200)
        (stored,) = world.stored()
        assert (stored.content, stored.gaps) == (world.disk.content(LOG), [])
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_source_of_which_no_receiver_has_said_anything_is_left_alone(do: str) -> None:
    """Without a checkpoint, only the receiver knows which count it has (rule G3)."""

    async def main() -> None:
        world = World()
        world.write(lines(0, 10))
        world.start()
        await world.clock.sleep(3)
        answer = await ask(world, do, source=LOG)
        assert "no receiver has said yet" in answer.error
        await world.stop()

    run(main())


def test_sources_are_named_by_path_or_by_the_beginning_of_their_id() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        for name in (LOG, str(source.origin), str(source.origin)[:8], source.origin.hex[:12]):
            assert (await ask(world, "resend", source=name, dry_run=True)).ok, name
        for name, error in (
            ("/logs/none", "no source has this path:"),
            ("20240101", "no source has this origin id (a file is named as ./20240101)"),
            (str(source.origin)[:5], "6 or more characters are needed"),
        ):
            assert error in (await ask(world, "resend", source=name)).error
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_path_means_the_file_that_stands_there_though_rotated_ones_were_found_under_it(
    do: str,
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        for number in range(2):
            world.disk.replace(LOG, f"{LOG}.{number}")
            world.write(lines(10 * number + 10, 10))
            await world.clock.sleep(10)
        await world.crash_reader()
        world.write(lines(50, 10))
        await world.clock.sleep(6)
        assert world.agent is not None
        registry = world.agent.registry
        assert [registry.path_of(source) for source in registry.sources] == [LOG] * 3
        newest = list(registry.sources)[-1]

        answer = await ask(world, do, source=LOG)
        assert answer.change is not None, answer.error
        assert answer.change.origin == str(newest.origin)
        chosen = f"3 sources have this path: this is {newest.origin}, whose file stands there now"
        assert answer.change.text.endswith(f". {chosen}")

        world.disk.replace(LOG, f"{LOG}.2")
        refused = await ask(world, do, source=LOG)
        assert "sources have it: name one by its id" in refused.error
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_path_means_the_file_that_stands_there_though_it_was_found_under_another(do: str) -> None:
    async def main() -> None:
        world = World(paths=["/logs/*"])
        first, second = f"{LOG}.1", f"{LOG}.2"
        world.write(lines(0, 10), first)
        await world.ships(lines(10, 10))
        world.disk.replace(first, second)
        world.disk.replace(LOG, first)
        await world.settle()
        await world.crash_reader()
        world.write(lines(50, 10), first)
        world.write(lines(60, 10), second)
        await world.clock.sleep(6)
        assert world.agent is not None
        registry = world.agent.registry
        found = {registry.path_of(source): source for source in registry.sources}
        assert set(found) == {LOG, first}

        for path, source in ((first, found[LOG]), (second, found[first])):
            answer = await ask(world, do, source=path)
            assert answer.change is not None, answer.error
            assert answer.change.origin == str(source.origin)
            known_as = registry.path_of(source)
            assert answer.change.text.endswith(
                f". This is {source.origin}, whose file was found as {known_as} and stands there "
                "now"
            )
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_path_is_not_taken_for_the_file_that_was_found_there_while_another_stands_there(
    do: str,
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.disk.replace(LOG, f"{LOG}.1")
        world.write(lines(50, 10), f"{LOG}.1")
        await world.clock.sleep(6)
        gone = await ask(world, do, source=LOG, dry_run=True)
        assert gone.change is not None, gone.error
        assert gone.change.text.endswith(". Its file was found there, and is gone from there")

        world.write(b"half a line", LOG)
        await world.clock.sleep(6)
        refused = await ask(world, do, source=LOG)
        assert "no source has the file that stands there now" in refused.error
        assert gone.change.origin in refused.error
        await world.stop()

    run(main())


def test_of_a_file_that_was_truncated_its_path_means_the_life_after_that__G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 3.0
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        world.truncate()
        world.write(lines(20, 10))
        await world.clock.sleep(6)
        assert world.agent is not None
        old, new = world.agent.registry.sources
        assert (old.ended, old.ending is None, new.ending) == (None, False, None)
        answer = await ask(world, "resend", source=LOG, dry_run=True)
        assert answer.change is not None, answer.error
        assert answer.change.origin == str(new.origin)
        await world.stop()

    run(main())


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/logs/a b.log", ["/logs/a b.log"]),
        ("/logs/new\nline.log", ["/logs/new\nline.log", "/logs/new\\nline.log"]),
        ("/logs/\x1b[31m.log", ["/logs/\x1b[31m.log", "/logs/\\x1b[31m.log"]),
        ("/logs/\udcff\udcfe.log", ["/logs/\ufffd\ufffd.log"]),
    ],
    ids=["space", "newline", "escape", "not UTF-8"],
)
def test_a_source_is_named_by_its_path_as_it_is_shown(path: str, names: list[str]) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10), path)
        for name in names:
            answer = await ask(world, "resend", source=name, dry_run=True)
            assert answer.ok, answer.error
        for pattern in (names[0], "/logs/*.log"):
            status = (await ask(world, "status", path=pattern)).status
            assert status is not None
            assert status.matching == 1
        await world.stop()

    run(main())


def _write_many(world: World, line: bytes) -> None:
    for number in range(600):
        world.write(line, f"/logs/{number}.log")


@pytest.mark.parametrize("again", [False, True], ids=["first start", "checkpoint"])
def test_many_files_are_looked_at_in_turns_and_nothing_is_changed_meanwhile(again: bool) -> None:
    async def main() -> None:
        world = World(start="end")
        await world.reader()
        _write_many(world, b"first\n")
        if again:
            world.start()
            await world.settle()
            await world.stop()
        _write_many(world, b"second\n")
        agent = world.start()
        looked_at = 0
        while not looked_at:
            await asyncio.sleep(0)
            files = agent.tailer.followed.values()
            looked_at = sum(file.generation.seen == len(b"first\nsecond\n") for file in files)
        assert looked_at == 256
        answer = await ask(world, "skip", source="/logs/1.log")
        assert "still looking for its files" in answer.error
        await world.settle()
        answer = await ask(world, "skip", source="/logs/1.log")
        assert "no whole line that was not sent" in answer.error
        await world.stop()

    run(main())
