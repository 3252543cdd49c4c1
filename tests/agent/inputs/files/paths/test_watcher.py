"""Directories are watched through the kernel (real directories, and watchdog's thread)."""

import asyncio
import time
from pathlib import Path

from agent.config.files import InputTable
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.globs import DirectoryKey, DirectoryListing, FileInputs
from agent.inputs.files.paths.watcher import DirectoryWatcher
from agent.inputs.files.scanner import Scanner
from agent.inputs.files.tail import Tailer
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.records.blocks import BlockEncoder


def test_the_kernel_wakes_the_scanner_within_a_blink(tmp_path: Path) -> None:
    async def main() -> None:
        woken = asyncio.Event()
        watcher = DirectoryWatcher(woken.set)
        try:
            watcher.watch_directories(keys_of(tmp_path) | {str(tmp_path / "none"): (0, 0, 0)})
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
            watcher.watch_directories({})
            (tmp_path / "d").write_text("x")
            await asyncio.sleep(0.2)
            assert not woken.is_set()
        finally:
            watcher.stop_watching()

    asyncio.run(main())


def test_a_directory_that_comes_back_or_a_link_that_leads_elsewhere_is_watched_anew(
    tmp_path: Path,
) -> None:
    """The kernel watches a directory, and not its name."""

    async def main() -> None:
        woken = asyncio.Event()
        watcher = DirectoryWatcher(woken.set)
        removed, linked = tmp_path / "removed", tmp_path / "linked"
        removed.mkdir()
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        linked.symlink_to("one")

        async def expect_wake(path: Path) -> None:
            await asyncio.sleep(0.1)
            woken.clear()
            path.write_text("x")
            async with asyncio.timeout(5):
                await woken.wait()

        try:
            watcher.watch_directories(keys_of(removed, linked))
            await expect_wake(removed / "a")
            await expect_wake(linked / "a")

            (removed / "a").unlink()
            removed.rmdir()
            removed.mkdir()  # has the same inode on many file systems
            linked.unlink()
            linked.symlink_to("two")
            watcher.watch_directories(keys_of(removed, linked))
            await expect_wake(removed / "b")
            await expect_wake(linked / "b")
        finally:
            watcher.stop_watching()

    asyncio.run(main())


def keys_of(*directories: Path) -> dict[str, DirectoryKey]:
    """Return what a scan tells of directories."""
    listing = DirectoryListing(SystemDisk())
    for path in directories:
        listing.list_names(str(path))
    return listing.listed_directories


def test_a_new_file_is_followed_long_before_the_next_scan(tmp_path: Path) -> None:
    async def main() -> None:
        disk, clock = SystemDisk(), SystemClock()
        inputs = FileInputs([InputTable(paths=[f"{tmp_path}/*.log"])])
        registry = SourceRegistry("h", "a", inputs)
        tailer = Tailer(
            registry,
            SendQueue(),
            fingerprinter=Fingerprinter("a", "h", disk),
            disk=disk,
            clock=clock,
            encoder_of=lambda source: BlockEncoder(),
            open_files=OpenFiles(disk, clock, _Quiet(), max_open_files=100, close_idle_seconds=1.0),
            deleted_files=DeletedFiles(1.0, 0),
            inputs=inputs,
            log=_Quiet(),
            file_log=FileLog(_Quiet(), clock),
        )
        scanner = Scanner(
            inputs,
            registry,
            tailer,
            disk=disk,
            clock=clock,
            rescan_seconds=60.0,
            file_log=FileLog(_Quiet(), clock),
        )
        watcher = DirectoryWatcher(scanner.wake_event.set)
        task = asyncio.create_task(scanner.scan_repeatedly(watcher, lambda: None))
        try:
            await asyncio.sleep(0.5)
            began = time.monotonic()
            (tmp_path / "x.log").write_text("line\n")
            while not tailer.followed:
                assert time.monotonic() - began < 5
                await asyncio.sleep(0.01)
            (followed,) = tailer.followed.values()
            assert followed.generation.place.path == f"{tmp_path}/x.log"
            assert followed.generation.place.birth_ns > 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            watcher.stop_watching()

    asyncio.run(main())


class _Quiet:
    def info(self, event: str, **_: object) -> None: ...

    def warning(self, event: str, **_: object) -> None: ...
