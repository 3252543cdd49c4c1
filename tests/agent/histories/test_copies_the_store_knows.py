"""Histories of copies that only a store can tell: the checkpoint lacks their lives (G5, D4)."""

import errno
import os

import pytest

from tests.agent.histories.copied import (
    COPY,
    NEXT,
    copytruncate,
    ship_behind_the_checkpoint,
    sources_of,
    until_at_rest,
)
from tests.agent.world import LOG, World, contents, lines
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.virtual_time import run


def _rename_when_opened(disk: MemoryDisk) -> None:
    """Rename the log between the look at its name and the opening."""
    opened = disk.open

    def open_renamed(path: str, **options: bool) -> MemoryFile:
        if path == LOG and LOG in disk.paths():
            disk.replace(LOG, f"{LOG}.2")
        return opened(path, **options)

    disk.open = open_renamed  # type: ignore[method-assign]


@pytest.mark.parametrize("seen_by", ["open", "closed"])
def test_the_copies_of_a_host_without_a_checkpoint_are_known_by_the_store__G5_D4_h14(
    seen_by: str,
) -> None:
    """Their lives' ids are made of the inode that the truncated file has still."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 300, prefix="first"))
        if seen_by == "open":
            await world.kill()
            world.write(lines(300, 50, prefix="first"))
        first = copytruncate(world)
        world.write(lines(0, 300, prefix="second"))
        if seen_by == "closed":
            await until_at_rest(world)
            await world.kill()
        world.forget()
        world.write(lines(300, 10, prefix="second"))
        world.start()
        await until_at_rest(world)
        assert sorted(contents(sources_of(reader))) == sorted([first, world.disk.content(LOG)])
        by_content = {each.content: each for each in sources_of(reader)}
        assert by_content[first].ended == (len(first), "truncated")
        await world.stop()

    run(main())


@pytest.mark.parametrize("size", [1, 2, 300], ids=lambda size: f"{size} lines")
@pytest.mark.parametrize("asked", ["at once", "after a restart"])
def test_the_store_knows_copies_of_lives_that_the_checkpoint_lacks__G5_D4(
    size: int, asked: str
) -> None:
    """It lags behind: the life was sent after it was written."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 5), "/logs/other.log")
        await ship_behind_the_checkpoint(world, lines(0, size))
        data = copytruncate(world)
        if asked == "after a restart":
            await world.crash_reader()
            world.start()
            await world.clock.sleep(3)
            await world.kill()
            await world.reader()
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [lines(0, 5), data]
        assert sources_of(reader)[1].ended == (len(data), "truncated")
        await world.stop()

    run(main())


def test_a_copy_made_before_its_file_could_be_read_since_the_start_is_known__G5_D4(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checkpoint lags behind: only the store knows what the file had."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 5), "/logs/other.log")
        await ship_behind_the_checkpoint(world, lines(0, 20))

        disk, readable = world.disk, world.disk.open

        def fail(path: str, **how: bool) -> MemoryFile:
            if path == LOG and not how:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return readable(path, **how)

        monkeypatch.setattr(disk, "open", fail)
        world.start()
        await world.clock.sleep(2)
        data = copytruncate(world)
        world.write(NEXT)
        await world.clock.sleep(6)
        monkeypatch.setattr(disk, "open", readable)
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [lines(0, 5), data, NEXT]
        await world.stop()

    run(main())


@pytest.mark.parametrize("then", ["renamed", "removed", "renamed amid the start"])
def test_a_copy_is_known_though_the_truncated_file_has_gone_before_the_store_was_asked__G5_D4(
    then: str,
) -> None:
    """The checkpoint has its inode by then."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 300))
        await world.kill()
        world.forget()
        data = copytruncate(world)
        world.write(NEXT)
        await world.crash_reader()
        world.start()
        await world.clock.sleep(3)
        await world.kill()
        if then == "renamed":
            world.disk.replace(LOG, f"{LOG}.2")
        elif then == "removed":
            world.disk.remove(LOG)
        else:
            _rename_when_opened(world.disk)
        await world.reader()
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader))[0] == data
        assert data not in contents(sources_of(reader))[1:]
        await world.stop()

    run(main())


def test_the_store_says_what_was_read_of_a_life_whose_first_line_the_checkpoint_has__G5_D4() -> (
    None
):
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 1))
        await world.clock.sleep(2)
        kept = world.disk.content("/state/checkpoint.json")
        world.write(lines(1, 1))
        await world.clock.sleep(1)
        await world.settle()
        await world.kill()
        world.forget()
        world.write(kept, "/state/checkpoint.json")
        data = copytruncate(world)
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data]
        assert sources_of(reader)[0].ended == (len(data), "truncated")
        await world.stop()

    run(main())


def test_a_file_that_begins_as_another_does_not_take_its_registration__G5_D4() -> None:
    """The store is asked for the ids of the file beside it, but for that of its living source."""

    async def main() -> None:
        world = World()
        reader = await world.ships(b"header\n" + lines(0, 300))
        await world.clock.sleep(2)
        await world.kill()
        world.write(b"header\n" + lines(0, 300, prefix="other"), COPY)
        world.start()
        await until_at_rest(world)
        own = f'"{LOG}"'.encode()
        named_so = [frame.origin for frame in reader.registered if own in frame.attributes]
        assert len(set(named_so)) == 8, "the ids of the file's other lives"
        assert named_so.count(named_so[0]) == 2, "once a start"
        assert len(sources_of(reader)) == 2
        await world.stop()

    run(main())


def test_the_store_has_the_end_of_a_life_whose_count_the_checkpoint_lacks__G5_D4() -> None:
    """Its first line is known, and no answer of the store."""

    async def main() -> None:
        world = World()
        world.write(lines(0, 300))
        world.start()
        await world.clock.sleep(3)  # no receiver has said what it has
        kept = world.disk.content("/state/checkpoint.json")
        reader = await world.reader()
        await until_at_rest(world)
        data = copytruncate(world)
        await until_at_rest(world)
        await world.kill()
        world.forget()
        world.write(kept, "/state/checkpoint.json")
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data]
        await world.stop()

    run(main())


@pytest.mark.parametrize("size", [1, 20], ids=lambda size: f"{size} lines")
def test_a_copy_of_a_file_that_lives_on_does_not_take_over_its_source__G5_D4(size: int) -> None:
    """The store has the lines of both under one name: they are the living file's."""

    async def main() -> None:
        world = World()
        data = lines(0, size)
        reader = await world.ships(data)
        await world.kill()
        world.forget()
        world.write(data, COPY)
        world.start()
        await until_at_rest(world)
        world.write(lines(size, 5))
        await until_at_rest(world)
        assert sorted(contents(sources_of(reader))) == [data, world.disk.content(LOG)]
        assert [each.ended for each in sources_of(reader)] == [None, None]
        await world.stop()

    run(main())
