"""What comes between two disk calls of a program: that it comes just there."""

import asyncio
from random import Random

import pytest

from tests.simulation.hosts.meddler import Countdown, Meddler
from tests.support.disks.watched import WatchedDisk
from tests.support.memory.disk import MemoryDisk


class _Host:
    """Remembers how it died."""

    def __init__(self) -> None:
        self.deaths: list[str] = []

    def die(self, why: str, *, power: bool, down: float, then_off: float) -> None:
        self.deaths.append(why)
        raise asyncio.CancelledError


def _watched(
    counts: list[int], *, reads: bool, begin: str = ""
) -> tuple[MemoryDisk, WatchedDisk, _Host]:
    host = _Host()
    meddler = Meddler(host)
    meddler.count_down(Countdown(counts, begin, reads, True, 0.0, 0.0))
    disk = MemoryDisk(["/a"])
    return disk, WatchedDisk(disk, meddler), host


def test_a_program_dies_right_after_nth_change_of_its_disk_and_again_in_its_next_life() -> None:
    disk, watched, host = _watched([2, 1], reads=False)
    file = watched.open("/a/one", write=True, create=True)
    assert file.pread(1, 0) == b""
    with pytest.raises(asyncio.CancelledError):
        file.append([b"some"])
    assert disk.content("/a/one") == b"some"
    assert watched.stat("/a/one").size == 4
    with pytest.raises(asyncio.CancelledError):
        watched.remove("/a/one")
    watched.sync_directory("/a")
    assert host.deaths == ["has done append /a/one", "has done remove /a/one"]


def test_calls_count_from_the_first_of_a_kind_on() -> None:
    _, watched, host = _watched([2], reads=False, begin="append on")
    file = watched.open("/a/one", write=True, create=True)
    watched.sync_directory("/a")
    file.append([b"some"])
    with pytest.raises(asyncio.CancelledError):
        file.datasync()
    assert host.deaths == ["has done datasync /a/one"]


def test_reads_count_where_they_shall() -> None:
    disk, watched, host = _watched([2], reads=True)
    disk.write("/a/one", b"some")
    file = watched.open("/a/one")
    with pytest.raises(asyncio.CancelledError):
        file.pread(1, 0)
    assert host.deaths == ["has done pread /a/one"]


def test_what_a_dead_program_still_does_is_told_to_nobody() -> None:
    disk, watched, host = _watched([1], reads=False)
    watched.watcher = None
    watched.open("/a/one", write=True, create=True).append([b"some"])
    assert not host.deaths
    assert disk.crash(Random(1)) is not disk
