"""A file that rotates while it is searched is found, and not sent twice (rules G1, G2)."""

from collections.abc import Callable

import pytest

from agent.inputs.files.paths.locate import Locator
from agent.sources.identity import Fingerprinter
from agent.sources.place import FileLocation
from tests.support.memory.disk import MemoryDisk


class BusyDisk(MemoryDisk):
    """A disk that changes: after each listing it calls the next function of *meanwhile*."""

    meanwhile: list[Callable[[], None]]

    def names(self, directory: str) -> list[str]:
        """Return the names, then make the next change."""
        names = super().names(directory)
        self._change()
        return names

    def inodes(self, directory: str) -> dict[str, int]:
        """Return names and inodes, then make the next change."""
        inodes = super().inodes(directory)
        self._change()
        return inodes

    def _change(self) -> None:
        if self.meanwhile:
            self.meanwhile.pop(0)()


def rotated(disk: MemoryDisk, most: int) -> None:
    """Rotate a.log as logrotate does, by rename and create, the oldest going first."""
    there = [
        number for number in range(most) if f"a.log.{number}" in MemoryDisk.names(disk, "/logs")
    ]
    for number in reversed(there):
        disk.replace(f"/logs/a.log.{number}", f"/logs/a.log.{number + 1}")
    disk.replace("/logs/a.log", "/logs/a.log.1")
    disk.write("/logs/a.log", b"new\n")


@pytest.mark.parametrize("rotations", [0, 1, 3])
@pytest.mark.parametrize("under_way", [1, 2, 3])
def test_a_file_is_found_under_the_name_that_a_rotation_gives_it_meanwhile__G1(
    rotations: int, under_way: int
) -> None:
    disk = BusyDisk(["/logs"])
    disk.meanwhile = []
    disk.write("/logs/a.log", b"old\n")
    disk.write("/logs/other.log", b"x\n")
    stat = disk.stat("/logs/a.log")
    place = FileLocation("/logs/a.log", "/logs/a.log", "/", stat.device, stat.inode, stat.birth_ns)
    for _ in range(rotations):
        rotated(disk, 9)
    disk.meanwhile = [lambda: rotated(disk, 9)] * under_way
    found = Locator(disk, Fingerprinter("agent", "host", disk)).find_file(place)
    if rotations == 0:  # where it was at the first look
        assert found == ("/logs/a.log", stat)
    else:
        assert found is not None
        assert (found[0], found[1].inode) == (f"/logs/a.log.{rotations + under_way}", stat.inode)


def test_a_file_that_is_gone_is_not_found_and_no_other_is_taken_for_it__G2() -> None:
    disk = BusyDisk(["/logs"])
    disk.meanwhile = []
    disk.write("/logs/a.log", b"old\n")
    stat = disk.stat("/logs/a.log")
    place = FileLocation("/logs/a.log", "/logs/a.log", "/", stat.device, stat.inode, stat.birth_ns)
    rotated(disk, 9)
    disk.remove("/logs/a.log.1")
    disk.next_inode = stat.inode
    disk.write("/logs/a.log.2", b"another with its inode\n")
    assert Locator(disk, Fingerprinter("agent", "host", disk)).find_file(place) is None


class LayeredDisk(MemoryDisk):
    """A disk whose directories tell other inodes than its files have."""

    def inodes(self, directory: str) -> dict[str, int]:
        """Return names, with inodes of another layer."""
        return {name: inode and inode + 1000 for name, inode in super().inodes(directory).items()}


@pytest.mark.parametrize("kind", [MemoryDisk, LayeredDisk])
def test_a_file_is_found_under_any_name_in_its_directory__G1(kind: type[MemoryDisk]) -> None:
    disk = kind(["/logs"])
    disk.write("/logs/a.log", b"old\n")
    stat = disk.stat("/logs/a.log")
    place = FileLocation("/logs/a.log", "/logs/a.log", "/", stat.device, stat.inode, stat.birth_ns)
    disk.replace("/logs/a.log", "/logs/elsewhere")
    found = Locator(disk, Fingerprinter("agent", "host", disk)).find_file(place)
    assert found == ("/logs/elsewhere", stat)
