"""Files that come late, go away and return: directories, mounts, and those that may not be read.

Nothing of them is left out silently, and nothing is sent twice.
"""

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from logdrive.host.disk import FileStat
from tests.agent.kernel.real_world import RealWorld
from tests.agent.world import World, contents, lines
from tests.conftest import unavailable
from tests.support.disks.tmpfs import tmpfs
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.virtual_time import run


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that all users get to; pytest closes its own to others at each start."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextmanager
def ordinary_user(root: Path) -> Iterator[None]:
    """Run as a user whom permissions bind, if the tests run as root; *root* becomes that user's."""
    if os.geteuid() != 0:
        yield
        return
    nobody = 65534
    for path in (root, *root.rglob("*")):
        os.chown(path, nobody, nobody)
    try:
        os.seteuid(nobody)
        if not os.access(root, os.R_OK | os.X_OK, effective_ids=True):
            unavailable(f"an ordinary user can't get to {root}")
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_warned_of_and_read_once_it_may__P4(open_path: Path) -> None:
    async def main() -> None:
        world = RealWorld(open_path)
        world.put(lines(0, 10))
        world.put(lines(0, 5, prefix="free"), world.logs / "free.log")
        with ordinary_user(world.root):
            world.log.chmod(0)
            with capture_logs() as logs:
                await world.begin()
                await world.pass_time(60)
            warned = [line for line in logs if line["event"] == "file can't be read"]
            assert [line["path"] for line in warned] == [str(world.log)], "one warning"
            assert world.all_content() == [lines(0, 5, prefix="free")]
            world.log.chmod(0o600)
            world.put(lines(10, 10))
            await world.pass_time()
            assert world.all_content() == [lines(0, 5, prefix="free"), lines(0, 20)]
            await world.stop()

    run(main())


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100], ids=["none", "no search", "no list"])
def test_a_directory_that_may_not_be_used_is_warned_of_and_its_files_are_read_once_it_may__P4(
    open_path: Path, mode: int
) -> None:
    async def main() -> None:
        world = RealWorld(open_path)
        world.put(lines(0, 10))
        with ordinary_user(world.root):
            await world.begin()
            await world.stop()
            world.put(lines(10, 10))
            world.put(lines(0, 5, prefix="new"), world.logs / "new.log")
            world.logs.chmod(mode)
            with capture_logs() as logs:
                world.start()
                await world.pass_time(60)
            assert any(str(world.logs) in line.get("path", "") for line in logs), logs
            assert [stored.gaps for stored in world.all_stored()] == [[]], "nothing is given up"
            world.logs.chmod(0o700)
            await world.pass_time(60)
            assert world.all_content() == [lines(0, 20), lines(0, 5, prefix="new")]
            await world.stop()

    run(main())


def test_a_mount_that_comes_late_goes_and_returns_is_read_on_where_it_was__G1_G2(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path)
        world.settings["input"][0]["paths"] = [f"{world.logs}/**/*.log"]
        mount = world.logs / "volume"
        below = mount / "below.log"
        mount.mkdir()
        world.put(lines(0, 10, prefix="below"), below)  # a mount hides it
        await world.begin()
        aside = world.root / "aside"
        with tmpfs(aside, 4) as volume:
            await world.pass_time()
            with bound(volume.path, mount):
                world.put(lines(0, 10), mount / "app.log")
                await world.pass_time()
                hidden = os.stat(mount / "app.log")
            world.put(lines(10, 10), aside / "app.log")  # as another host would
            await world.pass_time(100)
            with bound(volume.path, mount):
                await world.pass_time()
                assert os.stat(mount / "app.log").st_ino == hidden.st_ino
                world.put(lines(20, 10), mount / "app.log")
                await world.pass_time()
            await world.stop()
        assert world.all_content() == [lines(0, 10, prefix="below"), lines(0, 30)]
        assert not any(stored.gaps for stored in world.all_stored())

    run(main())


@pytest.mark.parametrize("name", ["app.log", "app.log.1"])
def test_a_file_moved_to_another_mount_is_read_on_there__G5(tmp_path: Path, name: str) -> None:
    """`mv` copies it there, and removes it here."""

    async def main() -> None:
        world, old = RealWorld(tmp_path), tmp_path / "old"
        with tmpfs(old, 4) as volume:
            world.settings["input"][0]["paths"] = [f"{world.logs}/*.log*", f"{volume.path}/*"]
            world.put(lines(0, 100))
            await world.begin()
            await world.pass_time()
            world.put(lines(100, 100))
            move(world.log, volume.path / name)
            world.put(lines(0, 5, prefix="new"))
            await world.pass_time(60)
            assert sorted(world.all_content()) == [lines(0, 200), lines(0, 5, prefix="new")]
            assert not any(stored.gaps for stored in world.all_stored())
            await world.stop()

    run(main())


def move(source: Path, target: Path) -> None:
    subprocess.run(["mv", source, target], check=True)


@contextmanager
def bound(source: Path, target: Path) -> Iterator[None]:
    """Mount *source* at *target*, too."""
    subprocess.run(["mount", "--bind", source, target], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", target], check=True, capture_output=True)


@pytest.mark.parametrize("births", [True, False], ids=["births", "no births"])
def test_a_mount_that_returns_under_another_device_number_has_the_same_files__G1_G2(
    births: bool,
) -> None:
    """As NFS and loop devices do. Handles are stale, and names are gone meanwhile."""

    async def main() -> None:
        world = World()
        world.disk = disk = _Volume(["/logs", "/state"])
        disk.tells_births = births
        world.write(lines(0, 5, prefix="other"), "/logs/other.log")
        await world.ships(lines(0, 10))
        disk.go_away()
        await world.clock.sleep(100)
        disk.come_back(device=7)
        world.write(lines(10, 10))
        await world.clock.sleep(60)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        assert world.stored()[0].ended is None
        assert contents(world.stored("/logs/other.log")) == [lines(0, 5, prefix="other")]
        await world.stop()

    run(main())


class _Volume(MemoryDisk):
    """A disk whose /logs is on a volume that may go away, with all handles, and come back."""

    volume: int | None = 2  # the volume's device; None while it is away
    epoch = 0

    def go_away(self) -> None:
        """Unmount it by force."""
        self.volume, self.epoch = None, self.epoch + 1

    def come_back(self, device: int) -> None:
        """Mount it again."""
        self.volume = device

    def mount_point(self, path: str) -> str:
        return "/logs" if path.startswith("/logs") and self.volume is not None else "/"

    def names(self, directory: str) -> list[str]:
        return [] if directory == "/logs" and self.volume is None else super().names(directory)

    def stat(self, path: str) -> FileStat:
        if path.startswith("/logs/") and self.volume is None:
            raise self._missing(path)
        stat = super().stat(path)
        return replace(stat, device=self.volume or 1) if path.startswith("/logs") else stat

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        file = super().open(path, write=write, create=create, private=private, direct=direct)
        if path.startswith("/logs/") and not write:
            epoch, stat, pread = self.epoch, file.stat, file.pread

            def check() -> None:
                if self.epoch != epoch:
                    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

            def stat_now() -> FileStat:
                check()
                return replace(stat(), device=self.volume or 1)

            def pread_now(size: int, offset: int) -> bytes:
                check()
                return pread(size, offset)

            file.stat, file.pread = stat_now, pread_now  # type: ignore[method-assign]
        return file
