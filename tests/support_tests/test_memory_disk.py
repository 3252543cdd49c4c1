"""The disk that tests stand on must itself forget, tear and fail as it says."""

import errno
import random

import pytest

from logdrive.host.disk import Disk, write_atomically
from tests.support.memory.disk import MemoryDisk

PATH = "/d/f"


def _disk() -> MemoryDisk:
    return MemoryDisk(["/d"])


def test_it_is_a_disk() -> None:
    disk: Disk = _disk()
    write_atomically(disk, PATH, b"one")
    write_atomically(disk, PATH, b"two")
    assert disk.open(PATH).pread(10, 1) == b"wo"
    assert disk.names("/d") == ["f"]
    assert disk.stat(PATH).size == 3


def test_what_was_synced_outlives_every_crash() -> None:
    disk = _disk()
    disk.write(PATH, b"kept", durable=True)
    disk.write(PATH, b"lost")
    found = {disk.crash(random.Random(seed)).content(PATH) for seed in range(200)}
    assert all(content.startswith(b"kept") for content in found)
    assert {b"kept", b"keptlost", b"keptlo"} <= found


def test_data_synced_under_a_name_that_was_not_can_be_lost_and_kept() -> None:
    disk = _disk()
    file = disk.open(PATH, write=True, create=True)
    file.append([b"data"])
    file.datasync()
    found = [disk.crash(random.Random(seed)) for seed in range(50)]
    assert {tuple(after.names("/d")) for after in found} == {(), ("f",)}
    assert {after.content(PATH) for after in found if after.names("/d")} == {b"data"}


def test_a_name_synced_before_its_data_can_stand_for_nothing() -> None:
    disk = _disk()
    disk.write(PATH, b"data")
    disk.sync_directory("/d")
    found = {disk.crash(random.Random(seed)).content(PATH) for seed in range(100)}
    assert {b"", b"data", b"d"} <= found


def test_a_later_write_can_be_kept_without_an_earlier_one_and_leaves_zeros() -> None:
    disk = _disk()
    disk.write(PATH, b"", durable=True)
    disk.write(PATH, b"aaa")
    disk.write(PATH, b"bbb")
    assert b"\0\0\0bbb" in {disk.crash(random.Random(seed)).content(PATH) for seed in range(300)}


def test_a_rename_that_was_not_synced_leaves_the_old_or_the_new_content() -> None:
    disk = _disk()
    disk.write(PATH, b"old", durable=True)
    disk.write("/d/new", b"new", durable=True)
    disk.replace("/d/new", PATH)
    assert disk.content(PATH) == b"new"
    assert {disk.crash(random.Random(seed)).content(PATH) for seed in range(50)} == {b"old", b"new"}


def test_a_directory_that_was_not_synced_can_be_lost_with_all_in_it() -> None:
    disk = MemoryDisk()
    disk.make_directory("/a/b")
    disk.write("/a/b/f", b"x", durable=True)
    found = {tuple(disk.crash(random.Random(seed)).names("/")) for seed in range(50)}
    assert found == {(), ("a",)}
    disk.sync_directory("/a")
    disk.sync_directory("/")
    assert {disk.crash(random.Random(seed)).content("/a/b/f") for seed in range(20)} == {b"x"}


def test_a_killed_process_leaves_what_it_wrote_but_not_what_it_locked() -> None:
    disk = _disk()
    disk.write(PATH, b"written")
    with disk.lock("/d/lock"):
        with pytest.raises(BlockingIOError), disk.lock("/d/lock"):
            pass
        after = disk.killed()
    with after.lock("/d/lock"):
        assert after.content(PATH) == b"written"
    assert after.unsynced() > 0
    disk.write(PATH, b" by a ghost")
    assert after.content(PATH) == b"written"


def test_a_full_disk_takes_what_fits_and_then_says_so() -> None:
    disk = MemoryDisk(["/d"], capacity=10)
    disk.write(PATH, b"12345678")
    file = disk.open(PATH, write=True)
    with pytest.raises(OSError, match="No space left") as failure:
        file.append([b"abcd"])
    assert failure.value.errno == errno.ENOSPC
    assert disk.content(PATH) == b"12345678ab"
    file.truncate(2)
    file.append([b"abcd"])
    assert disk.content(PATH) == b"12abcd"


def test_what_a_failed_sync_lost_is_still_seen_and_no_later_sync_saves_it() -> None:
    disk = _disk()
    disk.write(PATH, b"kept", durable=True)
    disk.write(PATH, b"lost")
    file = disk.open(PATH, write=True)
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.datasync()
    file.datasync()
    assert disk.content(PATH) == b"keptlost"
    assert {disk.crash(random.Random(seed)).content(PATH) for seed in range(20)} == {b"kept"}


def test_an_unlinked_file_lives_on_in_its_handle() -> None:
    disk = _disk()
    disk.write(PATH, b"x")
    file = disk.open(PATH, write=True)
    disk.remove(PATH)
    file.append([b"y"])
    assert (file.stat().links, file.pread(9, 0), disk.names("/d")) == (0, b"xy", [])
    with pytest.raises(FileNotFoundError):
        disk.stat(PATH)


def test_renaming_keeps_the_inode_and_replaces_what_was_there() -> None:
    disk = _disk()
    disk.write(PATH, b"1")
    disk.write("/d/g", b"2")
    one, two = disk.open(PATH), disk.open("/d/g")
    disk.replace(PATH, "/d/g")
    assert disk.stat("/d/g").inode == one.stat().inode
    assert (one.stat().links, two.stat().links) == (1, 0)


def test_a_flipped_bit_stays_flipped() -> None:
    disk = _disk()
    disk.write(PATH, b"\x00\x00", durable=True)
    disk.flip_bit(PATH, 1, 3)
    assert disk.content(PATH) == disk.crash(random.Random(0)).content(PATH) == b"\x00\x08"


def test_an_inode_is_given_away_again_once_no_name_and_no_handle_leads_to_it() -> None:
    disk = _disk()
    disk.reuses_inodes, disk.journalled = True, ["/d"]
    disk.write(PATH, b"1")
    first, file = disk.stat(PATH).inode, disk.open(PATH)
    disk.remove(PATH)
    disk.write(PATH, b"2")
    assert disk.stat(PATH).inode != first
    file.close()
    disk.write("/d/g", b"3")
    assert disk.stat("/d/g").inode == first


def test_an_inode_is_given_to_no_other_while_a_crash_may_bring_its_file_back() -> None:
    disk = MemoryDisk(["/d"])
    disk.reuses_inodes = True
    disk.write(PATH, b"x", durable=True)
    first = disk.stat(PATH).inode
    disk.remove(PATH)
    disk.write("/d/g", b"y")
    assert disk.stat("/d/g").inode != first
    disk.sync_directory("/d")
    disk.write("/d/h", b"z")
    assert disk.stat("/d/h").inode == first


def test_a_file_system_may_tell_no_birth_times() -> None:
    disk = _disk()
    disk.write(PATH, b"1")
    assert disk.stat(PATH).birth_ns
    disk.tells_births = False
    assert disk.killed().stat(PATH).birth_ns == 0


def test_what_is_synced_below_a_directory_came_there_by_any_way() -> None:
    disk = MemoryDisk(["/d", "/e"])
    disk.write(PATH, b"old")
    disk.replace(PATH, "/e/old")
    disk.write(PATH, b"new")
    for directory in ("/d", "/e"):
        disk.sync_below(directory)
    after = disk.crash(random.Random(0))
    assert {path: after.content(path) for path in after.paths()} == {PATH: b"new", "/e/old": b"old"}
