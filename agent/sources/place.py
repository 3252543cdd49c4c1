"""Where the bytes of a source are, as the checkpoint keeps it: for what is no file, a path and
nothing else.
"""

from dataclasses import dataclass

from logdrive.host.disk import FileStat

FileKey = tuple[int, int]
"""Device and inode: what tells a file from all others on this host, as long as it exists."""


def same_birth(one_ns: int, other_ns: int) -> bool:
    """Tell whether files born then may be one: 0 is said where a file system does not know."""
    return one_ns == other_ns or 0 in (one_ns, other_ns)


@dataclass(slots=True)
class FileLocation:
    """Where a file is: *path* is the name that its lines are known by, *name* the one seen last, ""
    once it has none.
    """

    path: str
    name: str
    mount: str
    device: int
    inode: int
    birth_ns: int

    @property
    def key(self) -> FileKey:
        """What tells it from other files on this host, now."""
        return self.device, self.inode

    def is_at(self, stat: FileStat) -> bool:
        """Tell whether *stat* describes this very file, and not a later one that got its inode."""
        return (
            stat.is_file
            and (stat.device, stat.inode) == self.key
            and same_birth(stat.birth_ns, self.birth_ns)
        )
