"""Location of a source's bytes, as the checkpoint keeps it.

An input other than files has a path and nothing else.
"""

import msgspec

from logdrive.host.disk import FileStat

FileKey = tuple[int, int]
"""Device and inode: what tells a file from all others on this host, as long as it exists."""


def same_birth(one_ns: int, other_ns: int) -> bool:
    """Return whether two birth times may be one file's: 0 is that of an unknown one."""
    return one_ns == other_ns or 0 in (one_ns, other_ns)


class FileLocation(msgspec.Struct, gc=False):  # in no cycle
    """Where a file is."""

    path: str
    """The path that its lines are known by: the one it was found under first."""
    name: str
    """The path at which it was seen last; "" once it has none."""
    mount: str
    """The mount point of its file system."""
    device: int
    """Number of the device; another one after a restart of the host, perhaps."""
    inode: int
    """The file's inode."""
    birth_ns: int
    """When it was made, by the file system's clock; 0 where that is not known."""

    @property
    def key(self) -> FileKey:
        """Device and inode: no two files of this host have both in common at one time."""
        return self.device, self.inode

    def is_at(self, stat: FileStat) -> bool:
        """Return whether *stat* describes this file, not a later one that was given its inode."""
        return (
            stat.is_file
            and (stat.device, stat.inode) == self.key
            and same_birth(stat.birth_ns, self.birth_ns)
        )
