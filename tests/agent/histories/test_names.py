"""Histories about names: files that are renamed, unlinked, gone, without a first line, or on
another device.
"""

import errno
import os
from collections.abc import Sequence

import orjson
from msgspec.structs import replace

from logdrive.host.disk import FileStat
from tests.agent.world import LOG, World, contents, lines
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.memory.node import Node
from tests.support.virtual_time import run


def test_h09_rename_and_create_while_the_old_name_is_written_to__G1() -> None:
    async def main() -> None:
        world = World(paths=["/logs/app.log"])  # the rotated name is outside of the pattern
        await world.ships(lines(0, 10, prefix="old"))
        world.disk.replace(LOG, "/logs/app.log.1")
        for second in range(60):
            world.write(lines(second, 1), LOG)
            world.write(lines(10 + second, 1, prefix="old"), "/logs/app.log.1")
            await world.clock.sleep(1)
            if second == 30:
                await world.kill()
                world.write(lines(10 + second, 1, prefix="old"), "/logs/app.log.1")
                await world.clock.sleep(1)
                world.start()
        await world.settle()
        assert contents(world.stored()) == [
            world.disk.content("/logs/app.log.1"),
            world.disk.content(LOG),
        ]
        assert all(stored.ended is None for stored in world.stored())
        await world.stop()

    run(main())


def test_lines_of_a_renamed_file_keep_the_path_under_which_it_was_found__G1_R4() -> None:
    """An agent that has lost its checkpoint finds the file under its new name, and it is the same
    source.
    """

    async def main() -> None:
        world = World(paths=["/logs/app.log*"])
        await world.ships(lines(0, 10))
        world.disk.replace(LOG, "/logs/app.log.1")
        await world.clock.sleep(60)
        world.write(lines(10, 10), "/logs/app.log.1")
        await world.settle()
        await world.stop()
        world.write(lines(20, 10), "/logs/app.log.1")
        world.start()
        await world.settle()
        assert told_paths(world) == [LOG]
        await world.stop()
        world.forget()
        world.write(lines(30, 10), "/logs/app.log.1")
        world.start()
        await world.settle()
        assert told_paths(world) == ["/logs/app.log.1"]
        assert contents(world.stored()) == [lines(0, 40)]
        await world.stop()

    run(main())


def told_paths(world: World) -> list[str]:
    """Return the paths in the headers of what is sent from now on."""
    assert world.agent is not None
    return [
        orjson.loads(world.agent.registry.attributes_of(source))["path"]
        for source in world.agent.registry.sources
    ]


def test_h09_an_unlinked_log_is_read_as_long_as_it_is_written__G1() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        ghost = world.disk.open(LOG, write=True)
        world.disk.remove(LOG)
        for second in range(10, 30):
            await world.clock.sleep(10)
            ghost.append([lines(second, 1)])
        await world.clock.sleep(5)
        ghost.append([b"no newline"])
        await world.settle()
        assert world.stored()[0].ended is None
        await world.clock.sleep(120)
        (stored,) = world.stored()
        assert stored.content == lines(0, 30) + b"no newline"
        assert stored.ended == (370, "removed")
        await world.stop()

    run(main())


def test_h09_a_file_that_is_gone_after_a_restart_is_a_gap__G1_P4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(5)
        await world.kill()
        world.disk.remove(LOG)
        await world.reader()
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert stored.gaps == [(120, 240, "removed", False)]
        assert stored.ended == (240, "removed")
        await world.stop()

    run(main())


def test_h16_a_first_line_without_newline_that_grows_later__G2_P3() -> None:
    async def main() -> None:
        world = World(quiet_seconds=5)
        reader = await world.reader()
        world.write(b"the beginning")
        world.start()
        await world.clock.sleep(60)
        assert not reader.registered, "it has no name yet"
        world.write(b" and the end\nmore")
        await world.clock.sleep(1)
        assert contents(world.stored()) == [b"the beginning and the end\n"]
        await world.clock.sleep(10)
        assert contents(world.stored()) == [world.disk.content(LOG)]
        world.write(b" of it\n")
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        assert world.stored()[0].events == 3
        await world.stop()

    run(main())


def test_h16_a_generation_that_ends_without_a_first_line_is_shipped_then__P3() -> None:
    async def main() -> None:
        world = World(end_after_seconds=5)
        await world.reader()
        world.write(b"one", "/logs/cut.log")
        world.write(b"two", "/logs/gone.log")
        world.start()
        await world.clock.sleep(2)
        world.truncate("/logs/cut.log")
        world.disk.remove("/logs/gone.log")
        await world.clock.sleep(20)
        await world.settle()
        (cut,), (gone,) = world.stored("/logs/cut.log"), world.stored("/logs/gone.log")
        assert (cut.content, cut.ended) == (b"one", (3, "truncated"))
        assert (gone.content, gone.ended) == (b"two", (3, "removed"))
        await world.stop()

    run(main())


def test_h17_a_reboot_that_changes_device_numbers__G2() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.stop()
        world.disk = _OtherDevice.of(world.disk)
        world.settings["agent"]["host"] = "renamed"
        world.write(lines(10, 10))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_a_new_file_with_the_inode_of_an_absent_entry_is_followed__G1() -> None:
    """The absent entry's file is gone, or on another file system: its entry must not hide the new
    file.
    """

    async def main() -> None:
        world = World()
        world.disk.make_directory("/old")
        world.settings["input"][0]["paths"] = ["/logs/*.log", "/old/*.log"]
        await world.ships(lines(0, 10), "/old/app.log")
        inode = world.disk.stat("/old/app.log").inode
        await world.stop()
        world.settings["input"][0]["paths"] = ["/logs/*.log"]
        world.disk.remove("/old/app.log")
        world.disk.next_inode = inode
        world.write(lines(0, 5))
        world.start()
        await world.clock.sleep(20)
        await world.settle()
        assert contents(world.stored(LOG)) == [lines(0, 5)]
        await world.stop()

    run(main())


def test_h09_a_file_rotated_into_another_directory_while_the_agent_is_away_goes_on__G1() -> None:
    """Logrotate's `olddir` does this; the patterns name both directories."""

    async def main() -> None:
        world = World()
        world.disk.make_directory("/logs/old")
        world.settings["input"][0]["paths"] = ["/logs/*.log", "/logs/old/*"]
        await world.ships(lines(0, 10))
        await world.stop()
        world.write(lines(10, 10))
        world.disk.replace(LOG, "/logs/old/app.log.1")
        world.write(lines(20, 5))
        world.start()
        await world.settle()
        assert sorted(contents(world.stored())) == [lines(0, 20), lines(20, 5)]
        assert not any(stored.gaps for stored in world.stored())
        assert world.stored("/logs/old/app.log.1") == []
        await world.stop()

    run(main())


def test_h09_the_rotated_target_of_a_link_is_found_in_its_directory_after_a_restart__G1() -> None:
    """Kubernetes does this: the pattern matches links to files, which are rotated elsewhere."""

    async def main() -> None:
        world = World()
        world.disk = disk = _Linked(["/logs", "/state", "/pods"])
        disk.links[LOG] = "/pods/0.log"
        await world.ships(lines(0, 10))
        await world.stop()
        world.write(lines(10, 10))
        disk.replace("/pods/0.log", "/pods/0.log.1")
        world.write(lines(20, 5))
        world.start()
        await world.settle()
        assert sorted(contents(world.stored())) == [lines(0, 20), lines(20, 5)]
        assert not any(stored.gaps for stored in world.stored())
        await world.stop()

    run(main())


def test_files_on_a_network_file_system_whose_handles_went_stale_are_opened_anew__G1() -> None:
    """After a failover of an NFS server old handles never work again, but the files can be opened
    again.
    """

    async def main() -> None:
        world = World()
        world.disk = disk = _Network(["/logs", "/state"])
        await world.ships(lines(0, 10))
        disk.fail_over()
        world.write(lines(10, 10))
        await world.clock.sleep(30)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


class _Network(MemoryDisk):
    """A disk on a server: a failover makes all of its open handles stale."""

    epoch = 0

    def fail_over(self) -> None:
        """Let all handles that are open become stale."""
        self.epoch += 1

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
        epoch, whole, stat = self.epoch, file.pread, file.stat

        def check() -> None:
            if self.epoch != epoch:
                raise OSError(errno.ESTALE, "Stale file handle")

        def pread(size: int, offset: int) -> bytes:
            check()
            return whole(size, offset)

        def fresh() -> FileStat:
            check()
            return stat()

        file.pread, file.stat = pread, fresh  # type: ignore[method-assign]
        return file


class _Linked(MemoryDisk):
    """A disk with symbolic *links* to files."""

    def __init__(self, directories: Sequence[str]) -> None:
        super().__init__(directories)
        self.links: dict[str, str] = {}

    def real_path(self, path: str) -> str:
        return self.links.get(path, path)

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        return super().open(
            self.real_path(path), write=write, create=create, private=private, direct=direct
        )

    def stat(self, path: str) -> FileStat:
        return super().stat(self.real_path(path))

    def write(self, path: str, data: bytes, *, durable: bool = False) -> None:
        super().write(self.real_path(path), data, durable=durable)

    def names(self, directory: str) -> list[str]:
        return super().names(directory) + [
            os.path.basename(link) for link in self.links if os.path.dirname(link) == directory
        ]


class _OtherDevice(MemoryDisk):
    """The same disk after a reboot that changed device numbers and birth times."""

    @classmethod
    def of(cls, disk: MemoryDisk) -> "_OtherDevice":
        other = disk.killed()
        other.__class__ = cls
        assert isinstance(other, cls)
        return other

    def _stat(self, node: Node) -> FileStat:
        return replace(super()._stat(node), device=77, birth_ns=0)
