"""What the checkpoint says of one source, and of a file that is a copy."""

from uuid import UUID

import msgspec

from agent.sources.identity import FirstLine


class CheckpointEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One source."""

    # The origin id.
    origin: UUID
    # The id that all generations which look alike have in common (rule G3).
    stem: UUID
    # Which of them it is.
    count: int = 0
    # How sure the count is: a value of `Counting`.
    counting: str = "known"
    # The input that it belongs to: a value of `InputKind`.
    input: str = "files"
    # Paths as `path_to_text` makes them. The one that its lines are known by.
    path: str
    # The one at which the file was seen last.
    name: str
    # The mount point of its file system.
    mount: str
    # Number of the file's device, as of the last look.
    device: int
    # The file's inode.
    inode: int
    # When the file was made (ns); 0 where that is not known.
    birth_ns: int = 0
    # Length of its first line in bytes, newline included.
    span: int
    # CRC-32 of the first line.
    crc: int
    # The first line itself, only while the count is not known.
    first: bytes | None = None
    # The position from which bytes are wanted (rule P2).
    start: int = 0
    # The receiver has yet to say whether it begins at *start* or at 0 (rule P2).
    undecided: bool = False
    # The store had another's bytes under the count before (rule A4).
    resend: bool = False
    # The position up to which an operator has what was not sent left out (rule A4); 0 for none.
    skip: int = 0
    # The number acknowledged last.
    number: int = 0
    # The store that has it; None before the first answer.
    store: UUID | None = None
    # The largest size seen, in bytes.
    seen: int = 0
    # By the next two, a start tells whether the file is the same (rule G4); 0 where they are not
    # known. The number of the last position before which the bytes are known, if it is greater
    # than *number*.
    last: int = 0
    # When the file was changed last (ns).
    modified_ns: int = 0
    # CRCs of its first bytes, by which copies of it are known (rule G5).
    prefix: bytes = b""
    # Why its file is gone, while the rest is looked for in a copy, or read from one (rule G5).
    ending: str | None = None
    # Why nothing more can be read of it, once that is so.
    ended: str | None = None
    # Whether its end is known exactly.
    exact: bool = True
    # When its end record was acknowledged (ms since the epoch); None before.
    done: int | None = None
    # When anything of it was acknowledged last (ms since the epoch).
    acknowledged: int = 0

    @property
    def first_line(self) -> FirstLine:
        """Its first line, as far as it is compared: without the text, which is in the file."""
        return FirstLine(b"", self.span, self.crc)


class CopyStamp(msgspec.Struct, frozen=True, array_like=True, gc=False):  # in no cycle
    """What a file looked like when it was recognized as a copy: a change makes it another."""

    inode: int
    # When the file was made (ns); 0 where that is not known.
    birth_ns: int
    # Its size in bytes, as it is on the disk.
    size: int
    # When it was changed last (ns).
    modified_ns: int
