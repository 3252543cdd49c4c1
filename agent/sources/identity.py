"""How a life of a file is named, so that a lost checkpoint finds it again (rules G2, G3, G4)."""

from dataclasses import dataclass
from uuid import NAMESPACE_DNS, UUID, uuid5
from zlib import crc32

from logdrive.host.disk import Disk, FileStat
from logdrive.model.identity import origin_id
from logdrive.model.limits import FIRST_LINE_BYTES


@dataclass(frozen=True, slots=True)
class FirstLine:
    """*text* is what the name is made of; *crc* covers the file's first *span* bytes, the newline
    among them.
    """

    text: bytes
    span: int
    crc: int

    @classmethod
    def find_in(cls, head: bytes, *, ended: bool = False) -> "FirstLine | None":
        """Return the first line in *head*, the file's first bytes; None where it has no end yet.

        With *ended* the life is over and whatever there is counts, unless there is nothing.
        """
        head = head[:FIRST_LINE_BYTES]
        newline = head.find(b"\n")
        if newline >= 0:
            return cls(head[:newline], newline + 1, crc32(head[: newline + 1]))
        if len(head) == FIRST_LINE_BYTES or (ended and head):
            return cls(head, len(head), crc32(head))
        return None


@dataclass(frozen=True, slots=True)
class Identity:
    """All that a name is made of but the count: what lives that look alike have in common."""

    agent: str
    host: str
    mount: str
    inode: int
    birth_ns: int
    first_line: bytes

    def origin_for(self, count: int) -> UUID:
        """Return the origin id of the life numbered *count*."""
        return origin_id(
            agent=self.agent,
            host=self.host,
            mount=self.mount,
            inode=self.inode,
            birth_ns=self.birth_ns,
            first_line=self.first_line,
            count=count,
        )

    @property
    def stem(self) -> UUID:
        """One name for all counts: that of count 0."""
        return self.origin_for(0)


class Fingerprinter:
    """Knows who this agent is, and where file systems are mounted."""

    def __init__(self, agent: str, host: str, disk: Disk) -> None:
        self.agent, self.host = agent, host
        self._disk = disk

    def mount_of(self, directory: str) -> str:
        """Return the mount point of *directory*."""
        return self._disk.mount_point(directory)

    def identify(self, stat: FileStat, mount: str, first_line: FirstLine) -> Identity:
        """Return what names the file that *stat* describes."""
        return Identity(self.agent, self.host, mount, stat.inode, stat.birth_ns, first_line.text)


def machine_agent_id(disk: Disk, path: str = "/etc/machine-id") -> str:
    """Return an agent id made from the machine's own, which must not leave the machine as it is.

    Raises OSError without one.
    """
    file = disk.open(path)
    try:
        machine = file.pread(64, 0).decode(errors="replace").strip()
    finally:
        file.close()
    if not machine:
        raise OSError(f"{path} is empty")
    return uuid5(uuid5(NAMESPACE_DNS, "agent.logdrive"), machine).hex
