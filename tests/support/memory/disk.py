"""A disk in memory that forgets what was not synced.

`MemoryDisk` keeps two states: what a running process sees, and what is durable. Data becomes
durable by `datasync` on the file, names by `sync_directory` on their directory, each without the
other. Between them lie the operations not yet synced; `crash` keeps any part of these, as a power
cut may: each operation on its own is kept, lost, or (a write) torn, whatever came before or after
it, with zeros where a later write left a hole.

Faults are asked for by attributes and methods: `capacity` (a full disk, with the short write that
goes before ENOSPC), `fail_write`, `fail_sync` (after which, as on Linux, the data lost is still
seen and the next sync succeeds), `flip_bit`.
"""

import contextlib
import errno
import os
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from msgspec.structs import replace

from logdrive.host.disk import FileStat
from logdrive.host.file import PartsStage
from logdrive.model.framing import Part
from tests.support.memory.names import Directory, Name, rename
from tests.support.memory.node import Cut, Node, Write

DIRECT_BLOCK = 64
"""Bytes of a block; smaller than a real one, as the files are, so that most end with zeros."""


class MemoryFile:
    """An open file of a `MemoryDisk`.

    With *direct* zeros fill it up to a whole block until it is closed.
    """

    def __init__(
        self, disk: "MemoryDisk", path: str, node: Node, *, writable: bool, direct: bool = False
    ) -> None:
        # its name when it was opened
        self.path = path
        self._disk, self._node, self._writable, self._open = disk, node, writable, True
        self._block = DIRECT_BLOCK if direct else 1
        self._end = len(node.seen)
        node.handles += 1

    def _node_if_open(self) -> Node:
        if not self._open:
            raise OSError(errno.EBADF, "the file is closed")
        return self._node

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*."""
        return bytes(self._node_if_open().seen[offset : offset + size])

    def find_data(self, offset: int) -> int:
        """Return *offset*: there are no holes."""
        self._node_if_open()
        return offset

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end, or as much as the faults in force let through."""
        node = self._node_if_open()
        if not self._writable:
            raise OSError(errno.EBADF, "the file is open for reading only")
        if self._block == 1:
            self._end = len(node.seen) - node.aside
        data = b"".join(parts)
        room, failure = self._disk._room_for(len(data))
        if room:
            padding = b"" if failure else bytes(-(self._end + room) % self._block)
            node.change(Write(self._end, data[:room] + padding), self._disk.now_ns())
            node.aside = max(0, node.aside - room)
        if failure:
            raise OSError(failure, os.strerror(failure))
        self._end += room

    def stage(self, room: int) -> PartsStage:
        """Return a stage for what comes at the end."""
        return PartsStage(self)

    def datasync(self) -> None:
        """Make the data durable; after a failure what was pending never will be, though it is still
        seen.
        """
        node = self._node_if_open()
        failure = self._disk._sync_failure()
        if failure:
            node.pending.clear()
            raise OSError(failure, os.strerror(failure))
        node.sync()

    def truncate(self, size: int) -> None:
        """Cut the file, or fill it up with zeros."""
        self._node_if_open().change(Cut(size), self._disk.now_ns())
        self._node_if_open().aside = 0
        self._end = size

    def stat(self) -> FileStat:
        """Return what the file is now."""
        stat = self._disk._stat(self._node_if_open())
        return (
            stat
            if self._block == 1 or stat.size > self._end + self._block
            else replace(stat, size=self._end)
        )

    def is_unchanged(self, size: int, modified_ns: int) -> bool:
        """Return whether `stat` tells of the same size and time, and of a name."""
        stat = self.stat()
        return stat.links > 0 and (stat.size, stat.modified_ns) == (size, modified_ns)

    def close(self) -> None:
        """Give the handle back."""
        if self._open and self._block > 1 and len(self._node.seen) > self._end:
            self._node.change(Cut(self._end), self._disk.now_ns())
        if self._open:
            self._node.handles -= 1
            self._disk._free(self._node)
        self._open = False
        self._disk._handles.pop(self, None)


class MemoryDisk:
    """A `Disk` in memory with absolute paths; *directories* are there and durable.

    There are no other directories than those made. *capacity* limits the bytes of all files
    together; None for no limit.
    """

    def __init__(
        self,
        directories: Sequence[str] = (),
        *,
        now_ns: Callable[[], int] | None = None,
        capacity: int | None = None,
    ) -> None:
        ticks = count(1_700_000_000_000_000_000, 1_000_000)
        self.now_ns: Callable[[], int] = now_ns or (lambda: next(ticks))
        self.capacity = capacity
        self.device = 1
        """What `stat` says of where files are; a reboot may number devices otherwise."""
        self._files: dict[str, Node] = {}
        self._durable: dict[str, Node] = {}
        self._directories: dict[str, Directory] = {"/": Directory(durable=True)}
        self._locked: set[str] = set()
        self._handles: dict[MemoryFile, None] = {}
        self.next_inode = 1
        """What the next file gets; file systems give away what a removed file had."""
        self.reuses_inodes = False
        """True: the next file gets the lowest inode that is free, as on ext4."""
        self.journalled: Sequence[str] = ()
        """Directories that are synced before any crash: what a file had that was removed there is
        free at once.
        """
        self.tells_births = True
        """Whether `stat` says when a file was born; without, it says 0."""
        self._free_inodes: list[int] = []
        self._write_failures: list[tuple[int, int]] = []
        self._sync_failures: list[int] = []
        for directory in directories:
            self.make_directory(directory)
        self.sync()

    # Disk ----------------------------------------------------------------------------------------

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        """Open *path*; with *create* it must not exist yet."""
        node = self._files.get(path)
        if create:
            if node is not None or path in self._directories:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            now = self.now_ns()
            node = Node(self._new_inode(), now, now)
            self._name(path, node)
        elif node is None:
            raise self._missing(path)
        file = MemoryFile(self, path, node, writable=write, direct=direct)
        self._handles[file] = None
        return file

    def stat(self, path: str) -> FileStat:
        """Return the stat of *path*."""
        if path in self._directories:
            return FileStat(self.device, 0, 0, 2, 0, 0, is_file=False, is_directory=True)
        if path not in self._files:
            raise self._missing(path)
        return self._stat(self._files[path])

    def is_unchanged(self, path: str, key: tuple[int, int], size: int, modified_ns: int) -> bool:
        """Return whether `stat` tells of the same file, size and time."""
        stat = self.stat(path)
        was = (*key, size, modified_ns)
        return (stat.device, stat.inode, stat.size, stat.modified_ns) == was

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*, sorted."""
        if directory not in self._directories:
            raise self._missing(directory)
        above = directory.rstrip("/") + "/"
        size = len(above)
        below = [
            path[size:] for path in (*self._files, *self._directories) if path.startswith(above)
        ]
        return sorted(name for name in below if name and "/" not in name)

    def inodes(self, directory: str) -> dict[str, int]:
        """Return the entries of *directory* with the inodes of files, 0 for directories."""
        paths = {name: os.path.join(directory, name) for name in self.names(directory)}
        return {
            name: self._files[path].inode if path in self._files else 0
            for name, path in paths.items()
        }

    def replace(self, source: str, target: str) -> None:
        """Rename, atomically, over what may be there."""
        if source not in self._files:
            raise self._missing(source)
        if source != target:
            self._name(target, self._files[source], source)

    def remove(self, path: str) -> None:
        """Unlink a file."""
        if path not in self._files:
            raise self._missing(path)
        self._name(path, None)

    def make_directory(self, path: str) -> None:
        """Create *path* and its parents if missing.

        Their names are durable once their parents are synced.
        """
        if path in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if path not in self._directories:
            self.make_directory(os.path.dirname(path))
            self._directories[path] = Directory()

    def try_directory(self, path: str) -> None:
        """Raise OSError where *path*, or a parent that would have to be one, is no directory."""
        while path not in self._directories:
            if path in self._files:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            path = os.path.dirname(path)

    def sync_directory(self, path: str) -> None:
        """Make the names in *path* durable."""
        if path not in self._directories:
            raise self._missing(path)
        if failure := self._sync_failure():
            raise OSError(failure, os.strerror(failure), path)
        for change in self._directories[path].pending:
            rename(self._durable, change)
        self._directories[path].pending.clear()
        for child, directory in self._directories.items():
            if child != "/" and os.path.dirname(child) == path:
                directory.durable = True

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold *path*, created where missing; raises BlockingIOError where it is held."""
        if path in self._locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        if path not in self._files:
            self.open(path, write=True, create=True).close()
        self._locked.add(path)
        try:
            yield
        finally:
            self._locked.discard(path)

    def real_path(self, path: str) -> str:
        """Return *path*: there are no symbolic links."""
        return path

    def mount_point(self, path: str) -> str:
        """Return "/": there is one file system."""
        return "/"

    # What tests do to it -------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything durable, as sync(1) does."""
        for node in (*self._files.values(), *self._durable.values()):
            node.sync()
        for directory in self._directories.values():
            directory.durable = True
            directory.pending.clear()
        self._durable = dict(self._files)

    def sync_below(self, directory: str) -> None:
        """Make the files and names in *directory* durable, and nothing else."""
        self._directories[directory].pending.clear()
        for path in [
            path
            for path in self._durable
            if path not in self._files and os.path.dirname(path) == directory
        ]:
            del self._durable[path]
        for path, node in self._files.items():
            if os.path.dirname(path) == directory:
                self._durable[path] = node
                node.sync()

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        return sorted(self._files)

    def write(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Append *data* to *path*, created where missing."""
        file = self.open(path, write=True, create=path not in self._files)
        file.append([data])
        if durable:
            file.datasync()
            self.sync_directory(os.path.dirname(path))
        file.close()

    def set_aside(self, path: str, size: int) -> None:
        """Let *path* have *size* NULs more, which its writers write in place of from now on."""
        node = self._files[path]
        node.change(Write(len(node.seen), bytes(size)), self.now_ns())
        node.aside += size

    def trim(self, path: str) -> None:
        """Cut off what was set aside and not written."""
        node = self._files[path]
        node.change(Cut(len(node.seen) - node.aside), self.now_ns())
        node.aside = 0

    def keep_nuls(self, path: str) -> int:
        """Let what was set aside and not written be bytes like any others; return how many."""
        node = self._files[path]
        kept, node.aside = node.aside, 0
        return kept

    def content(self, path: str) -> bytes:
        """Return what a reader of *path* sees."""
        if path not in self._files:
            raise self._missing(path)
        return bytes(self._files[path].seen)

    def is_durable(self, path: str) -> bool:
        """Return whether *path* and all of its bytes survive every power cut."""
        node = self._files.get(path)
        return node is not None and self._durable.get(path) is node and not node.pending

    def unsynced(self) -> int:
        """Return how many operations on data and names a crash could still lose."""
        nodes = {id(node): node for node in self._files.values()}
        return sum(len(n.pending) for n in nodes.values()) + sum(
            len(d.pending) for d in self._directories.values()
        )

    def fail_write(self, number: int = errno.EIO, *, after: int = 0) -> None:
        """Let the next write put down *after* bytes and then fail; calls queue up, one a write."""
        self._write_failures.append((after, number))

    def fail_sync(self, number: int = errno.EIO) -> None:
        """Let the next `datasync` or `sync_directory` fail; calls queue up, one a sync."""
        self._sync_failures.append(number)

    def used(self) -> int:
        """Return how many bytes all files have together."""
        return sum(len(node.seen) for node in self._files.values())

    def open_files(self, directory: str) -> list[MemoryFile]:
        """Return the open files of *directory*, in the order in which they were opened."""
        return [file for file in self._handles if os.path.dirname(file.path) == directory]

    def forget_handles(self, but: Sequence[MemoryFile] = ()) -> None:
        """Count no file as open *but* these: the program that had the others has ended."""
        self._handles = {file: None for file in self._handles if file in but}

    def mend(self) -> None:
        """Take back every fault asked for that has not happened yet, and give it room."""
        self._write_failures.clear()
        self._sync_failures.clear()
        self.capacity = None

    def flip_bit(self, path: str, offset: int, bit: int = 0) -> None:
        """Damage *path*, now and after every crash."""
        node = self._files[path]
        for content in (node.seen, node.durable):
            if offset < len(content):
                content[offset] ^= 1 << bit

    def cut(self, path: str, size: int) -> None:
        """Cut *path* durably, as a bad copy would."""
        node = self._files[path]
        del node.seen[size:]
        node.durable = bytearray(node.seen)
        node.pending.clear()

    def killed(self) -> "MemoryDisk":
        """Return the disk as the next process finds it after a SIGKILL.

        It has all that was written, and no locks. This one stays to the tasks of the killed
        process.
        """
        return self._copied(lambda node: node.copy(), dict(self._files), durable=False)

    def crash(self, random: random.Random) -> "MemoryDisk":
        """Return the disk as it may be found after a power cut. This one stays to its ghosts."""
        names = dict(self._durable)
        for directory in self._directories.values():
            for change in directory.pending:
                if random.random() < 0.5:
                    rename(names, change)
        return self._copied(
            lambda node: node.after_crash(random), names, durable=True, random=random
        )

    # ---------------------------------------------------------------------------------------------

    def _copied(
        self,
        copy: Callable[[Node], Node],
        names: dict[str, Node],
        *,
        durable: bool,
        random: "random.Random | None" = None,
    ) -> "MemoryDisk":
        """Return a new disk with *names*; all of it durable, or as durable as this one."""
        disk = MemoryDisk(now_ns=self.now_ns, capacity=self.capacity)
        disk.next_inode, disk.device = self.next_inode, self.device
        disk.reuses_inodes, disk.tells_births, disk.journalled = (
            self.reuses_inodes,
            self.tells_births,
            self.journalled,
        )
        lost: set[str] = set()
        for path in sorted(self._directories):
            old = self._directories[path]
            kept = old.durable or random is None or random.random() < 0.5
            if os.path.dirname(path) in lost or not kept:
                lost.add(path)
            else:
                disk._directories[path] = Directory(durable or old.durable)
        copies: dict[int, Node] = {}

        def copied(node: Node) -> Node:
            if id(node) not in copies:
                copies[id(node)] = copy(node)
            return copies[id(node)]

        disk._files = {
            path: copied(node)
            for path, node in sorted(names.items())
            if os.path.dirname(path) in disk._directories
        }
        if durable:
            disk._durable = dict(disk._files)
        else:
            disk._durable = {path: copied(node) for path, node in self._durable.items()}
            for path, directory in disk._directories.items():
                changes = self._directories[path].pending
                directory.pending = [
                    Name(c.path, c.node and copied(c.node), c.source) for c in changes
                ]
        for node in copies.values():
            node.links = sum(1 for other in disk._files.values() if other is node)
        taken = {node.inode for node in copies.values()}
        disk._free_inodes = [inode for inode in range(1, disk.next_inode) if inode not in taken]
        return disk

    def _new_inode(self) -> int:
        if self.reuses_inodes and self._free_inodes:
            coming_back = self._coming_back()
            for inode in sorted(self._free_inodes):
                if inode not in coming_back:
                    self._free_inodes.remove(inode)
                    return inode
        self.next_inode += 1
        return self.next_inode - 1

    def _coming_back(self) -> set[int]:
        """Return the inodes of removed files that a crash may bring back: no file gets these.

        Their removal is not durable.
        """
        names = list(self._durable.items())
        names += [
            (change.path, change.node)
            for each in self._directories.values()
            for change in each.pending
            if change.node
        ]
        return {node.inode for path, node in names if os.path.dirname(path) not in self.journalled}

    def _free(self, node: Node) -> None:
        """Let the inode of *node* be given away, if no name and no handle leads to it."""
        if not node.links and not node.handles:
            self._free_inodes.append(node.inode)

    def _name(self, path: str, node: Node | None, source: str | None = None) -> None:
        """Change what *path* stands for, not yet durably.

        A rename across directories is durable once the target's is synced.
        """
        parent = os.path.dirname(path)
        if parent not in self._directories or path in self._directories:
            raise self._missing(path)
        change = Name(path, node, source)
        replaced = self._files.get(path)
        rename(self._files, change)
        self._directories[parent].pending.append(change)
        if replaced is not None:
            replaced.links -= 1
            self._free(replaced)
        if node is not None and source is None:
            node.links += 1

    def _room_for(self, size: int) -> tuple[int, int]:
        """Return how many of *size* bytes can be written, and the errno behind them, 0 for none."""
        if self._write_failures:
            after, number = self._write_failures.pop(0)
            return min(size, after), number
        if self.capacity is None:
            return size, 0
        room = max(0, self.capacity - self.used())
        return (size, 0) if size <= room else (room, errno.ENOSPC)

    def _sync_failure(self) -> int:
        return self._sync_failures.pop(0) if self._sync_failures else 0

    def _stat(self, node: Node) -> FileStat:
        born_ns = node.born_ns if self.tells_births else 0
        return FileStat(
            self.device,
            node.inode,
            len(node.seen),
            node.links,
            node.modified_ns,
            born_ns,
            is_file=True,
            is_directory=False,
        )

    def _missing(self, path: str) -> OSError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
