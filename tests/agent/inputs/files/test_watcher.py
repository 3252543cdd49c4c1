"""Files are found: by scans, and at once where the kernel tells (real directories and watchdog's
thread).
"""

import asyncio
import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from agent.config import InputTable
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.globs import FileInputs
from agent.inputs.files.tail import Tailer
from agent.inputs.files.watcher import DirectoryWatcher, NoWatcher, Scanner
from agent.records.blocks import BlockEncoder
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


def test_the_kernel_wakes_the_scanner_within_a_blink(tmp_path: Path) -> None:
    async def main() -> None:
        woken = asyncio.Event()
        watcher = DirectoryWatcher(woken.set)
        try:
            watcher.watch([str(tmp_path), str(tmp_path / "none")])
            for change in (
                lambda: (tmp_path / "a").write_text("x"),
                lambda: (tmp_path / "a").rename(tmp_path / "b"),
                lambda: (tmp_path / "b").unlink(),
            ):
                await asyncio.sleep(0.1)
                woken.clear()
                change()
                async with asyncio.timeout(5):
                    await woken.wait()
            await asyncio.sleep(0.1)
            (tmp_path / "c").write_text("x")
            await asyncio.sleep(0.2)
            woken.clear()
            with (tmp_path / "c").open("a") as file:
                file.write("growth tells nobody")
            await asyncio.sleep(0.2)
            assert not woken.is_set()
            watcher.watch([])
            (tmp_path / "d").write_text("x")
            await asyncio.sleep(0.2)
            assert not woken.is_set()
        finally:
            watcher.close()

    asyncio.run(main())


def test_a_new_file_is_followed_long_before_the_next_scan(tmp_path: Path) -> None:
    async def main() -> None:
        disk, clock = SystemDisk(), SystemClock()
        inputs = FileInputs([InputTable(paths=[f"{tmp_path}/*.log"])])
        book = SourceRegistry("h", "a", inputs)
        tailer = Tailer(
            book,
            SendQueue(),
            namer=Fingerprinter("a", "h", disk),
            disk=disk,
            clock=clock,
            encoder_of=lambda source: BlockEncoder(),
            max_open_files=100,
            close_idle_seconds=1.0,
            held=DeletedFiles(1.0, 0),
            log=_Quiet(),
            file_log=FileLog(_Quiet(), clock),
        )
        scanner = Scanner(
            inputs,
            book,
            tailer,
            disk=disk,
            clock=clock,
            rescan_seconds=60.0,
            file_log=FileLog(_Quiet(), clock),
        )
        watcher = DirectoryWatcher(scanner.woken.set)
        task = asyncio.create_task(scanner.run(watcher, lambda: None))
        try:
            await asyncio.sleep(0.5)
            began = time.monotonic()
            (tmp_path / "x.log").write_text("line\n")
            while not tailer.living:
                assert time.monotonic() - began < 5
                await asyncio.sleep(0.01)
            (followed,) = tailer.living.values()
            assert followed.generation.place.path == f"{tmp_path}/x.log"
            assert followed.generation.place.birth_ns > 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            watcher.close()

    asyncio.run(main())


class _Quiet:
    def info(self, event: str, **_: object) -> None: ...

    def warning(self, event: str, **_: object) -> None: ...


def test_thousands_of_resting_files_cost_little() -> None:
    world = World()
    for number in range(3000):
        world.write(b"line\n", f"/logs/{number}.log")

    async def main() -> None:
        world.start()
        await world.clock.sleep(10)
        agent = world.agent
        assert agent is not None
        assert len(agent.tailer.living) == 3000
        polls = 0
        look = agent.tailer._look

        def counted(followed: object) -> None:
            nonlocal polls
            polls += 1
            look(followed)  # type: ignore[arg-type]

        agent.tailer._look = counted  # type: ignore[method-assign]
        await world.clock.sleep(4)
        assert polls <= 22_000, "at most five thousand looks a second"
        await world.kill()

    run(main())


@pytest.mark.parametrize("most", [16, 20])
def test_files_beyond_the_limit_are_closed_while_they_rest_and_still_followed__G1(
    most: int,
) -> None:
    async def main() -> None:
        world = World(end_after_seconds=5)
        world.settings["agent"] |= {"max_open_files": most, "close_idle_seconds": 3}
        await world.reader()
        paths = [f"/logs/{number:02d}.log" for number in range(40)]
        for path in paths:
            world.write(lines(0, 2), path)
        agent = world.start()
        await world.settle()
        await world.clock.sleep(20)
        assert (
            sum(followed.generation.file is not None for followed in agent.tailer.living.values())
            <= most
        )
        for path in paths:
            world.write(lines(2, 2), path)
        world.disk.replace(paths[0], "/logs/renamed.log")
        world.disk.remove(paths[1])
        await world.clock.sleep(20)
        await world.settle()
        for path in paths[2:]:
            assert contents(world.stored(path)) == [lines(0, 4)]
        assert contents(world.stored(paths[0])) == [lines(0, 4)]
        (removed,) = world.stored(paths[1])
        assert removed.ended is not None
        await world.stop()

    run(main())


def test_more_files_than_the_process_may_have_open_are_all_delivered() -> None:
    """However many they are, handles are left for the connection and the checkpoint."""

    async def main() -> None:
        world = World()
        await world.reader()
        paths = [f"/logs/{number:02d}.log" for number in range(40)]
        for path in paths:
            world.write(lines(0, 2), path)
        agent = world.start(open_files=24)
        most = 0
        for start in (2, 4):
            for _ in range(600):
                await world.clock.sleep(0.1)
                most = max(
                    most,
                    sum(
                        followed.generation.file is not None
                        for followed in agent.tailer.living.values()
                    ),
                )
            for path in paths:
                world.write(lines(start, 2), path)
        await world.clock.sleep(60)
        assert most == 12
        for path in paths:
            assert contents(world.stored(path)) == [lines(0, 6)]
        await world.stop()

    run(main())


class _Told:
    """A log that keeps its warnings."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **_: object) -> None: ...

    def warning(self, event: str, **words: object) -> None:
        self.warnings.append((event, words))


def test_files_without_a_handle_are_told_in_one_warning_with_their_number_and_remedy() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        for number in range(40):
            world.write(lines(0, 2), f"/logs/{number:02d}.log")
        for start in range(2):
            log = _Told()
            world.start(open_files=24, log=log)
            await world.clock.sleep(90)
            await world.settle()
            assert all("can't be" not in event for event, _ in log.warnings), (
                "no warning for each file"
            )
            told = [
                words
                for event, words in log.warnings
                if event == "files wait to be opened: no handle is left"
            ]
            if start == 0:
                ((words),) = told
                assert words["files"] == 28
                assert words["open_files"] == 12
                assert "LimitNOFILE" in str(words["remedy"])
            else:
                assert sum(cast("int", words["files"]) for words in told) <= 4, (
                    "files known before are looked at, and closed again"
                )
            await world.stop()

    run(main())


def test_where_the_kernel_watches_nothing_for_us_scans_find_what_is_new() -> None:
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
