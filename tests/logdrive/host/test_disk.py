"""The real disk keeps the promises of the protocol, on the file system that the tests run on."""

import contextlib
import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logdrive.host.disk import Disk, SystemDisk, write_atomically
from tests.support.memory.disk import MemoryDisk

disk = SystemDisk()


def test_birth_time_is_the_file_systems_own_or_zero__G2(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    printed = subprocess.run(
        ["stat", "--format=%W", str(path)], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert disk.stat(str(path)).birth_ns // 1_000_000_000 == (0 if printed == "-" else int(printed))


def test_birth_time_survives_growth_renaming_and_touching__G2(tmp_path: Path) -> None:
    path, renamed = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"x")
    before = disk.stat(str(path))
    time.sleep(0.02)
    with path.open("ab") as file:
        file.write(b"y")
    os.utime(path, (1, 1))
    path.rename(renamed)
    after = disk.stat(str(renamed))
    assert (after.birth_ns, after.inode) == (before.birth_ns, before.inode)
    with contextlib.closing(disk.open(str(renamed))) as opened:
        assert opened.stat() == after


def test_all_metadata_of_a_path_is_of_one_file__G2(tmp_path: Path) -> None:
    """Otherwise, in a rotation, the inode of one file could come with the birth time of another,
    and its lines would be sent a second time.
    """
    names, path = [str(tmp_path / name) for name in ("a", "b")], str(tmp_path / "c")
    for name in names:
        Path(name).write_bytes(b"x")
        time.sleep(0.02)
    files = {(found.inode, found.birth_ns) for found in map(disk.stat, names)}
    ended = threading.Event()

    def rotate() -> None:
        while not ended.is_set():
            for name in names:
                os.rename(name, path)
                os.rename(path, name)

    with ThreadPoolExecutor(1) as pool:
        rotating = pool.submit(rotate)
        seen = set()
        for _ in range(20_000):
            with contextlib.suppress(FileNotFoundError):
                found = disk.stat(path)
                seen.add((found.inode, found.birth_ns))
        ended.set()
        rotating.result()
    assert seen <= files


def test_a_missing_path_raises_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        disk.stat(str(tmp_path / "none"))
    assert raised.value.filename == str(tmp_path / "none")


def test_appends_of_many_parts_arrive_whole_and_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    parts = [b"%d," % number for number in range(5000)]  # more than one system call takes
    with contextlib.closing(disk.open(path, write=True, create=True)) as file:
        file.append(parts)
        file.append([b"end"])
        file.datasync()
    assert Path(path).read_bytes() == b"".join(parts) + b"end"


def test_appends_larger_than_one_write_arrive_whole_and_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    parts = [
        bytes([number]) * size
        for number, size in enumerate((10, 3 << 20, 1, 700_000, 700_000, 0, 5))
    ]
    with contextlib.closing(disk.open(path, write=True, create=True)) as file:
        file.append(parts)
        file.append([])
        file.datasync()
    assert Path(path).read_bytes() == b"".join(parts)


def test_create_refuses_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        disk.open(str(path), write=True, create=True)
    assert path.read_bytes() == b"precious"


def test_write_atomically_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "state"
    (tmp_path / "state.new").write_bytes(b"left by a crash")
    for content in (b"one", b"two"):
        write_atomically(disk, str(path), content)
        assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_a_private_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for private, mode in ((False, 0o640), (True, 0o600), (False, 0o640)):
        write_atomically(disk, str(path), b"x", private=private)
        assert path.stat().st_mode & 0o777 == mode & ~_umask()


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def test_a_lock_belongs_to_one_process_and_ends_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with disk.lock(path), pytest.raises(BlockingIOError), disk.lock(path):
        pass
    with disk.lock(path):
        pass


def test_mount_point_holds_the_path(tmp_path: Path) -> None:
    mount = disk.mount_point(str(tmp_path / "not there" / "yet"))
    assert os.path.ismount(mount)
    assert str(tmp_path).startswith(mount)
    assert disk.mount_point("/proc/self") == "/proc"


def test_trying_a_directory_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    disk.try_directory(str(tmp_path))
    disk.try_directory(str(tmp_path / "one" / "two"))
    with pytest.raises(NotADirectoryError) as refused:
        disk.try_directory(str(tmp_path / "file" / "two"))
    assert refused.value.filename == str(tmp_path / "file")
    with pytest.raises(OSError, match="/proc/none"):
        disk.try_directory("/proc/none/of/it")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_inodes_are_those_of_regular_files_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "way").symlink_to("directory")
    assert disk.inodes(str(tmp_path)) == {
        "file": (tmp_path / "file").stat().st_ino,
        "directory": 0,
        "link": 0,
        "way": 0,
    }
    with pytest.raises(FileNotFoundError):
        disk.inodes(str(tmp_path / "none"))


@pytest.mark.parametrize("memory", [False, True])
def test_a_file_is_unchanged_until_it_grows_shrinks_or_is_rewritten(
    tmp_path: Path, memory: bool
) -> None:
    some: Disk = MemoryDisk([str(tmp_path)]) if memory else disk
    path = str(tmp_path / "a")
    with contextlib.closing(some.open(path, write=True, create=True)) as file:
        file.append([b"abc"])
        was = some.stat(path)
        key, age = (was.device, was.inode), was.modified_ns
        assert file.is_unchanged(3, age)
        assert some.is_unchanged(path, key, 3, age)
        for size, modified_ns in ((2, age), (4, age), (3, age - 1)):
            assert not file.is_unchanged(size, modified_ns)
            assert not some.is_unchanged(path, key, size, modified_ns)
        assert not some.is_unchanged(path, (was.device, was.inode + 1), 3, age)
        assert not some.is_unchanged(path, (was.device + 1, was.inode), 3, age)


@pytest.mark.parametrize("memory", [False, True])
def test_a_file_without_a_name_is_not_unchanged(tmp_path: Path, memory: bool) -> None:
    some: Disk = MemoryDisk([str(tmp_path)]) if memory else disk
    path = str(tmp_path / "a")
    with contextlib.closing(some.open(path, write=True, create=True)) as file:
        file.append([b"abc"])
        was = some.stat(path)
        some.remove(path)
        assert not file.is_unchanged(3, was.modified_ns)
        with pytest.raises(FileNotFoundError):
            some.is_unchanged(path, (was.device, was.inode), 3, was.modified_ns)


def test_zeros_that_fill_the_last_block_of_a_direct_file_change_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    with contextlib.closing(disk.open(path, write=True, create=True, direct=True)) as file:
        file.append([b"abc"])
        was = file.stat()
        assert was.size == 3
        assert file.is_unchanged(3, was.modified_ns)
