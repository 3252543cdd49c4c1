"""Scans find files, with and without events of the kernel."""

import errno
from collections.abc import Callable

from agent.inputs.files.paths.watcher import NoWatcher
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


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
