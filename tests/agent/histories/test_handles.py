"""Histories of files that lost their handles or never had one: they are rotated, moved and removed
while the agent runs (rules G1, P4).
"""

from typing import Any

import pytest
from structlog.testing import capture_logs

from logdrive.host.disk import FileStat
from logdrive.records.runs import OUT_OF_SIGHT
from tests.agent.world import World, contents, lines
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

FILES = 24
"""More than there are handles for: 16 at least may be open."""


def _world(**inputs: Any) -> World:
    world = World(**inputs)
    world.disk.make_directory("/logs/old")
    world.disk.make_directory("/attic")
    world.settings["input"][0]["paths"] = ["/logs/*.log", "/logs/old/*"]
    world.settings["agent"] |= {"max_open_files": 16, "close_idle_seconds": 1}
    return world


async def _all_rest(world: World, **machine: Any) -> list[str]:
    """Ship a few lines of each of many files, and wait until some files have no handle."""
    await world.reader()
    paths = [f"/logs/{number:02d}.log" for number in range(FILES)]
    for path in paths:
        world.write(lines(0, 5, prefix=path), path)
    world.start(**machine)
    await world.settle()
    await world.clock.sleep(60)
    return paths


def _closed(world: World) -> list[str]:
    assert world.agent is not None
    return [
        f.generation.place.path
        for f in world.agent.tailer.followed.values()
        if f.generation.file is None
    ]


@pytest.mark.parametrize("handles", [{}, {"open_files": 32}])
def test_files_without_handle_move_to_another_watched_directory_go_on_where_they_were__G1(
    handles: dict[str, int],
) -> None:
    """Logrotate's `olddir` moves files like this.

    In the second case the system allows few handles, with default settings.
    """

    async def main() -> None:
        world = _world()
        if handles:
            del (
                world.settings["agent"]["max_open_files"],
                world.settings["agent"]["close_idle_seconds"],
            )
        paths = await _all_rest(world, **handles)
        assert _closed(world), "some have no handle"
        for path in paths:
            moved = f"/logs/old/{path[-6:]}.1"
            world.disk.replace(path, moved)
            world.write(lines(5, 5, prefix=path), moved)
            world.write(lines(0, 3, prefix=f"next {path}"), path)
        await world.clock.sleep(120)
        await world.settle()
        for path in paths:
            old, new = world.stored(path)
            assert (old.content, new.content) == (
                lines(0, 10, prefix=path),
                lines(0, 3, prefix=f"next {path}"),
            )
            assert old.ended is None
            assert world.stored(f"/logs/old/{path[-6:]}.1") == []
        await world.stop()

    run(main())


class _Rotating(MemoryDisk):
    """A disk that rotates /logs/old after its next listing, once *due*."""

    due = False

    def names(self, directory: str) -> list[str]:
        """Return the names, then rotate the directory if that is due."""
        names = super().names(directory)
        if self.due and directory == "/logs/old":
            self.due = False
            for name in sorted(names, reverse=True):
                self.replace(f"/logs/old/{name}", f"/logs/old/x.{int(name[2:]) + 1}")
        return names


@pytest.mark.parametrize("away", [False, True])
def test_a_file_is_found_while_the_directory_that_it_moved_to_rotates__G1(away: bool) -> None:
    async def main() -> None:
        world = _world()
        world.disk = disk = _Rotating(["/logs", "/logs/old", "/state", "/attic"])
        await _all_rest(world)
        path = _closed(world)[0]
        if away:
            await world.stop()
        disk.replace(path, "/logs/old/x.1")
        disk.due = True
        if away:
            world.start()
        await world.clock.sleep(60)
        await world.settle()
        assert "/logs/old/x.2" in disk.paths()
        (stored,) = world.stored(path)
        assert (stored.content, stored.ended) == (lines(0, 5, prefix=path), None)
        assert world.stored("/logs/old/x.2") == []
        await world.stop()

    run(main())


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_a_removed_file_without_a_handle_ends_as_out_of_sight__P4(
    how: str,
) -> None:
    """It is unknown whether the file grew before it was removed.

    The log does not say that the agent was away. A file with a handle is read wherever it moves.
    """

    async def main() -> None:
        world = _world(end_after_seconds=5)
        paths = await _all_rest(world)
        closed = _closed(world)
        for path in paths:
            if how == "removed":
                world.disk.remove(path)
            else:
                world.disk.replace(path, f"/attic/{path[-6:]}")
                world.write(lines(5, 5, prefix=path), f"/attic/{path[-6:]}")
        await world.clock.sleep(120)
        await world.settle()
        for path in paths:
            (stored,) = world.stored(path)
            size = len(lines(0, 5, prefix=path))
            if path in closed:
                assert (stored.content, stored.ended) == (
                    lines(0, 5, prefix=path),
                    (size, OUT_OF_SIGHT),
                )
            elif how == "removed":
                assert stored.ended == (size, "removed")
            else:
                assert (stored.content, stored.ended) == (lines(0, 10, prefix=path), None)
        await world.stop()

    with capture_logs() as log_lines:
        run(main())
    gone = [each for each in log_lines if each["event"] == "file gone while it was not open"]
    assert len(gone) == 1, "one warning for all of them"
    assert gone[0]["files"] >= FILES - 16
    assert gone[0]["example"].startswith("/logs/")
    assert "max_open_files" in gone[0]["remedy"]


def test_many_files_without_handle_that_rotate_at_once_cost_a_few_looks_each__G1() -> None:
    async def main() -> None:
        world = _world()
        world.settings["input"][0]["paths"] = ["/logs/*.log*"]
        await world.reader()
        paths = [f"/logs/{number:03d}.log" for number in range(300)]
        for path in paths:
            world.write(lines(0, 5, prefix=path), path)
        world.start()
        await world.settle()
        await world.clock.sleep(60)
        assert len(_closed(world)) > 200
        looked = list[str]()
        stat, is_unchanged = world.disk.stat, world.disk.is_unchanged

        def count(path: str) -> FileStat:
            looked.append(path)
            return stat(path)

        def look_quickly(path: str, key: tuple[int, int], size: int, modified_ns: int) -> bool:
            same = is_unchanged(path, key, size, modified_ns)
            looked.pop()
            return same

        world.disk.stat = count  # type: ignore[method-assign]
        world.disk.is_unchanged = look_quickly  # type: ignore[method-assign]
        for path in paths:
            world.disk.replace(path, f"{path}.1")
        await world.clock.sleep(15)
        # closed files are looked at, and not each name in the directory for each of them
        assert len(looked) < 10 * len(paths)
        for path in paths:
            world.write(lines(5, 5, prefix=path), f"{path}.1")
        await world.clock.sleep(60)
        assert [contents(world.stored(path)) for path in paths] == [
            [lines(0, 10, prefix=path)] for path in paths
        ]
        await world.stop()

    run(main())


def test_files_moved_out_of_sight_keep_their_handles_unless_none_is_left_for_others__G1() -> None:
    """Such a file can't be opened again once it is closed, but new files must be read, too."""

    async def main() -> None:
        world = _world()
        world.settings["agent"] |= {"max_open_files": 8192, "close_idle_seconds": 300}
        await world.reader()
        world.start(open_files=32)  # 16 of them for files
        moved = [f"/attic/{number:02d}" for number in range(16)]
        for number, path in enumerate(moved):
            world.write(lines(0, 5, prefix=path), f"/logs/{number:02d}.log")
        await world.clock.sleep(20)
        for number, path in enumerate(moved):
            world.disk.replace(f"/logs/{number:02d}.log", path)
        await world.clock.sleep(600)
        for path in moved:
            world.write(lines(5, 5, prefix=path), path)
        await world.settle()
        stored = world.readers["reader"].stored.values()
        assert sorted(each.content for each in stored if each.content) == sorted(
            lines(0, 10, prefix=path) for path in moved
        )
        world.write(lines(0, 5), "/logs/new.log")
        await world.clock.sleep(400)
        await world.settle()
        assert contents(world.stored("/logs/new.log")) == [lines(0, 5)]
        await world.stop()

    run(main())


def test_an_agent_that_drains_waits_for_files_that_wait_for_a_handle__P4() -> None:
    async def main() -> None:
        world = _world()
        world.settings["agent"] |= {"max_open_files": 8192, "close_idle_seconds": 300}
        await world.reader()
        paths = [f"/logs/{number:03d}.log" for number in range(100)]
        for path in paths:
            world.write(lines(0, 5, prefix=path), path)
        with capture_logs() as logs:
            world.start(open_files=32)  # 16 of them for files
            await world.clock.sleep(0.05)
            await world.stop()
        assert [contents(world.stored(path)) for path in paths] == [
            [lines(0, 5, prefix=path)] for path in paths
        ]
        assert [log["files"] for log in logs if log["event"] == "drained"] == [100]

    run(main())


def test_a_file_that_gets_a_handle_is_read_at_once__P4() -> None:
    """It pauses no longer, with a handle that others wait for."""

    async def main() -> None:
        world = World()
        world.settings["input"][0]["paths"] = ["/logs/*"]
        await world.reader()
        paths = [f"/logs/{number:03d}.log" for number in range(400)]
        for path in paths:
            world.write(lines(0, 5, prefix=path), path)
        world.start(open_files=32)  # 16 of them for files
        for _ in range(20):  # and not minutes
            await world.clock.sleep(1)
            if all(contents(world.stored(path)) == [lines(0, 5, prefix=path)] for path in paths):
                break
        else:
            raise AssertionError("files still wait")
        await world.stop()

    run(main())


def test_the_warning_of_too_few_handles_says_how_many_there_are__P4() -> None:
    async def main() -> None:
        world = _world()
        world.settings["agent"] |= {"max_open_files": 8192, "close_idle_seconds": 300}
        await world.reader()
        for number in range(FILES):
            world.write(lines(0, 5), f"/logs/{number:02d}.log")
        with capture_logs() as logs:
            world.start(open_files=32)  # 16 of them for files
            await world.settle()
            await world.clock.sleep(5)
            await world.stop()
        assert [
            log["open_files"] for log in logs if log["event"].startswith("files wait to be opened")
        ] == [16]

    run(main())


@pytest.mark.parametrize("restarts", [False, True])
def test_more_files_than_handles_that_are_copied_and_truncated_are_sent_once__G5(
    restarts: bool,
) -> None:
    """What is written after a truncation is as long as what was there before."""

    async def main() -> None:
        world = World()
        world.disk.now_ns = lambda: world.clock.now_ms() * 1_000_000
        world.settings["input"][0]["paths"] = ["/logs/*"]
        reader = await world.reader()
        paths = [f"/logs/{number:02d}.log" for number in range(3 * FILES)]
        written: list[bytes] = []

        def write(text: bytes, path: str) -> None:
            written.extend(text.splitlines())
            world.write(text, path)

        for path in paths:
            write(lines(0, 3, prefix=f"{path} 0"), path)
        world.start(open_files=32)
        await world.settle()
        for cycle in range(1, 4):
            if restarts:
                await world.kill()
            for path in paths:
                write(lines(3, 2, prefix=f"{path} {cycle - 1}"), path)
                world.write(world.disk.content(path), f"{path}.{cycle}")
                world.truncate(path)
                write(lines(0, 3, prefix=f"{path} {cycle}"), path)
            if restarts:
                world.start(open_files=32)
            await world.clock.sleep(120)
        await world.clock.sleep(300)
        await world.settle()
        stored = [line for source in reader.stored.values() for line in source.content.splitlines()]
        assert sorted(stored) == sorted(written)
        assert [gap for source in reader.stored.values() for gap in source.gaps] == []
        await world.stop()

    run(main())


def test_files_without_a_first_line_keep_no_handle_from_others__P3() -> None:
    """Nor are they lost: what is known of them is sent if they go."""

    async def main() -> None:
        world = World()
        world.settings["input"][0]["paths"] = ["/logs/*"]
        await world.reader()
        started = [f"/logs/{number:02d}.pid" for number in range(3 * FILES)]
        for path in started:
            world.write(path.encode(), path)
        world.start(open_files=32)
        await world.clock.sleep(30)
        paths = [f"/logs/{number:02d}.log" for number in range(FILES)]
        for path in paths:
            world.write(lines(0, 5, prefix=path), path)
        await world.clock.sleep(60)
        for path in paths:
            assert contents(world.stored(path)) == [lines(0, 5, prefix=path)]

        for path in started:
            world.disk.remove(path)
        await world.clock.sleep(300)
        for path in started:
            assert contents(world.stored(path)) == [path.encode()]
        await world.stop()

    run(main())
