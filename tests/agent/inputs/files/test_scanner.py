"""Scans find files, with and without events of the kernel."""

import asyncio
import errno
from collections.abc import Callable

from agent.inputs.files.paths.watcher import NoWatcher
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import VirtualTimeLoop, run


def test_scans_find_new_files_where_the_kernel_watches_no_directory() -> None:
    """Other programs may have taken all of a user's inotify instances."""

    def nothing_left(wake: Callable[[], None]) -> NoWatcher:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    async def main() -> None:
        world = World()
        await world.reader()
        world.start(make_watcher=nothing_left)
        await world.clock.sleep(1)
        world.write(lines(0, 2))
        await world.clock.sleep(10)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 2)]
        await world.stop()

    run(main())


def test_a_directory_that_comes_later_and_one_that_cannot_be_listed() -> None:
    async def main() -> None:
        world = World(paths=["/later/*/x.log", "/logs/app.log"])
        await world.ships(lines(0, 2))
        world.disk.make_directory("/later/one")
        world.write(lines(0, 3), "/later/one/x.log")
        await world.clock.sleep(10)
        await world.settle()
        assert contents(world.stored("/later/one/x.log")) == [lines(0, 3)]
        assert contents(world.stored(LOG)) == [lines(0, 2)]
        await world.stop()

    run(main())


def test_files_are_found_soon_after_a_scan_during_which_the_process_was_stopped() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 2))
        list_inodes = world.disk.inodes

        def stopped(directory: str) -> dict[str, int]:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualTimeLoop)
            loop.stall(120)
            world.disk.inodes = list_inodes  # type: ignore[method-assign]
            return list_inodes(directory)

        world.disk.inodes = stopped  # type: ignore[method-assign]
        await world.clock.sleep(130)
        world.write(lines(0, 3), "/logs/new.log")
        # a pause as long as the scan is the longest: half of the time is left for others
        await world.clock.sleep(150)
        await world.settle()
        assert contents(world.stored("/logs/new.log")) == [lines(0, 3)]
        await world.stop()

    run(main())
