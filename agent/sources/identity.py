"""Identity of a generation: what its origin id is made of, so that an agent that has lost its
checkpoint finds it again (rules G2, G3, G4).
"""

from uuid import NAMESPACE_DNS, UUID, uuid5
from zlib import crc32

import msgspec

from agent.sources.place import FileLocation
from logdrive.host.disk import Disk, FileStat
from logdrive.model.identity import origin_id
from logdrive.model.limits import FIRST_LINE_BYTES


class FirstLine(msgspec.Struct, frozen=True, gc=False):  # in no cycle
    """The first line of a file, at most `FIRST_LINE_BYTES` of it."""

    text: bytes
    """The line without its newline: a part of the origin id."""
    span: int
    """Length of the line in bytes, its newline included."""
    crc: int
    """CRC-32 of the file's first *span* bytes."""

    @classmethod
    def find_in(
        cls, head: bytes, *, ended: bool = False, line_end: bytes = b"\n"
    ) -> "FirstLine | None":
        """Return the first line in *head*, the file's first bytes; None if its end is not there.

        It ends at a newline, wherever there is one: an input that tells lines by another *line_end*
        shares most first lines with one that does not. With *ended* the generation is over: all of
        *head* is its first line, unless *head* is empty.
        """
        head = head[:FIRST_LINE_BYTES]
        at, end = head.find(b"\n"), b"\n"
        if line_end != b"\n" and (other := head.find(line_end)) >= 0 and not 0 <= at <= other:
            at, end = other, line_end
        if at >= 0:
            span = at + len(end)
            return cls(head[:at], span, crc32(head[:span]))
        # the rest of a long line does not count
        if len(head) == FIRST_LINE_BYTES or (ended and head):
            return cls(head, len(head), crc32(head))
        return None

    @classmethod
    def find_again(cls, head: bytes, span: int, line_end: bytes = b"\n") -> "FirstLine":
        """Return the first *span* bytes of *head* as the first line that they were before."""
        text = head[:span].removesuffix(b"\n").removesuffix(line_end)
        return cls(text, span, crc32(head[:span]))


class Identity(msgspec.Struct, frozen=True, gc=False):  # in no cycle
    """All parts of an origin id but the count: the same for generations that look alike."""

    agent: str
    """The agent's id."""
    host: str
    """The host's name."""
    mount: str
    """The mount point of the file system."""
    inode: int
    """The file's inode."""
    birth_ns: int
    """When the file was made, by the file system's clock; 0 where it does not know."""
    first_line: bytes
    """The first line without its newline, at most `FIRST_LINE_BYTES` of it."""

    def origin_for(self, count: int) -> UUID:
        """Return the origin id of the generation with this *count*."""
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
        """The id that generations which look alike have in common: that of count 0."""
        return self.origin_for(0)


class Fingerprinter:
    """Makes identities: it knows the agent's id, the host's name and the mount points."""

    def __init__(self, agent: str, host: str, disk: Disk) -> None:
        self.agent = agent  # the agent's id
        self.host = host  # the host's name
        self._disk = disk

    def mount_of(self, directory: str) -> str:
        """Return the mount point of *directory*."""
        return self._disk.mount_point(directory)

    def identify(self, stat: FileStat, place: FileLocation, first_line: FirstLine) -> Identity:
        """Return the identity of the file at *place*, which *stat* describes."""
        # one object for the birth time in both, unless only one of them knows it
        birth_ns = place.birth_ns if stat.birth_ns == place.birth_ns else stat.birth_ns
        return Identity(self.agent, self.host, place.mount, place.inode, birth_ns, first_line.text)


def machine_agent_id(disk: Disk, path: str = "/etc/machine-id") -> str:
    """Return an agent id derived from the machine id, which itself must not leave the machine.

    Raises OSError if there is none.
    """
    file = disk.open(path)
    try:
        machine = file.pread(64, 0).decode(errors="replace").strip()
    finally:
        file.close()
    if not machine:
        raise OSError(f"{path} is empty")
    return uuid5(uuid5(NAMESPACE_DNS, "agent.logdrive"), machine).hex
