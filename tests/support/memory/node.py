"""One file of a `MemoryDisk`: what is seen, what is durable, and the operations between the two."""

import random
from dataclasses import dataclass, field

SECTOR = 512
"""Bytes that a power cut keeps or loses together; the last sector of a write may be cut
anywhere.
"""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put down at an offset; what lies before it and was never written is zeros."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        """Do it."""
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclass(frozen=True, slots=True)
class Cut:
    """A file made shorter, or longer by zeros."""

    size: int

    def apply(self, content: bytearray) -> None:
        """Do it."""
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


@dataclass(slots=True)
class Node:
    """An inode. *links* is 0 once its last name is gone; *handles* lead to it besides."""

    inode: int
    born_ns: int
    modified_ns: int
    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Cut] = field(default_factory=list)
    links: int = 0
    handles: int = 0
    aside: int = 0
    """NULs at its end that were set aside, and are written next: see `MemoryDisk.set_aside`."""

    def change(self, operation: Write | Cut, now_ns: int) -> None:
        """Do *operation* for all to see, not yet durably."""
        operation.apply(self.seen)
        self.pending.append(operation)
        self.modified_ns = now_ns

    def sync(self) -> None:
        """Make what was done durable."""
        for operation in self.pending:
            operation.apply(self.durable)
        self.pending.clear()

    def copy(self) -> "Node":
        """Return a copy that shares nothing with this one."""
        seen, durable = bytearray(self.seen), bytearray(self.durable)
        return Node(
            self.inode,
            self.born_ns,
            self.modified_ns,
            seen,
            durable,
            list(self.pending),
            self.links,
            aside=self.aside,
        )

    def after_crash(self, random: random.Random) -> "Node":
        """Return the node with any part of its pending operations.

        Often all or none, as on a disk whose tail is quiet.
        """
        content = bytearray(self.durable)
        luck = random.choice((0.0, 0.5, 0.9, 1.0))
        for operation in self.pending:
            if random.random() < luck:
                operation.apply(content)
            elif isinstance(operation, Write):
                _tear(content, operation, random)
        return Node(
            self.inode,
            self.born_ns,
            self.modified_ns,
            content,
            bytearray(content),
            links=self.links,
            aside=min(self.aside, len(content)),
        )


def _tear(content: bytearray, write: Write, random: random.Random) -> None:
    """Write nothing, a prefix cut at any byte, or any sectors of *write*.

    Half of the sectors are written, or most.
    """
    way = random.choice((0, 1, 2, 2))
    if way == 1:
        Write(write.offset, write.data[: random.randint(0, len(write.data))]).apply(content)
    elif way == 2:
        share = random.choice((0.5, 0.9))
        for start in range(0, len(write.data), SECTOR):
            if random.random() < share:
                Write(write.offset + start, write.data[start : start + SECTOR]).apply(content)
