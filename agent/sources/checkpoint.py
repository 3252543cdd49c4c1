"""Checkpoint: a cache of the positions that the store knows, and the few decisions that only the
agent has made (rules D5, G6, P2).

One JSON file, `checkpoint.json` in the state directory, replaced atomically and never changed in
place:

    {"version": 1, "agent": "…", "written": ms,
     "entries": [{"origin": "…", "number": …, "store": "…", …}, …]}

Recovery: all of it or nothing. A file that can't be used is moved aside, and the agent starts as
without one: it asks the receiver for the position of every file (rule G3), so nothing is lost or
doubled. The file lags about a second behind the acknowledgements; the receiver's P frames make up
for that.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

import msgspec

from agent.sources.identity import FirstLine
from logdrive.errors import StorageError, os_error_text
from logdrive.host import faults
from logdrive.host.disk import Disk, write_atomically

FILE_NAME: Final = "checkpoint.json"
VERSION: Final = 1


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


class Checkpoint(msgspec.Struct, kw_only=True):
    """The content of the file."""

    # Version of the format.
    version: int = VERSION
    # Id of the agent that wrote it.
    agent: str
    # When it was written (ms since the epoch).
    written: int = 0
    # When the last scan for files began after which none waited to be surveyed (ms since the
    # epoch); 0 where that is not known.
    scanned: int = 0
    # Files that were recognized as copies and have nothing left to read (rule G5).
    copies: list[CopyStamp] = []
    # Whether files that a start without a checkpoint found had no source yet: only the store knows
    # which counts of them exist (rule G3).
    uncounted: bool = False
    # All sources that the agent knew then.
    entries: list[CheckpointEntry] = []


def encode_checkpoint(
    agent: str,
    written: int,
    entries: Iterable[CheckpointEntry],
    copies: Iterable[CopyStamp] = (),
    *,
    scanned: int = 0,
    uncounted: bool = False,
) -> bytes:
    """Return the content of the file, with *entries* and *copies* as they are now.

    They are taken one by one, and may be made on the way: ten thousand at a time take 4 MiB, which
    the interpreter would not give back.
    """
    encoder = msgspec.json.Encoder()
    head = Checkpoint(
        agent=agent, written=written, scanned=scanned, copies=list(copies), uncounted=uncounted
    )
    content = bytearray(encoder.encode(head)[:-2])
    before = len(content)
    for entry in entries:
        encoder.encode_into(entry, content, -1)
        content += b","
    if len(content) > before:
        content.pop()  # the last comma
    content += b"]}"
    return bytes(content)


class CheckpointDamagedError(Exception):
    """The checkpoint can't be used, and is moved to the path *aside*. Never leaves the agent.

    *ours* says whether this agent wrote it, as far as can be told: then this is no first run.
    """

    def __init__(self, reason: str, aside: str, *, ours: bool) -> None:
        super().__init__(reason)
        self.aside = aside
        self.ours = ours


class CheckpointFile:
    """The checkpoint on disk."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = os.path.join(directory, FILE_NAME)

    def load_checkpoint(self, agent: str, *, touch: bool = True) -> Checkpoint | None:
        """Return the checkpoint of the agent with the id *agent*; None if there is no file.

        Raises `StorageError` if the disk does not return it. Raises `CheckpointDamagedError` if it
        can't be used: also where it belongs to another agent id, whose origin ids are not ours.
        With *touch* the file is moved aside before.
        """
        try:
            file = self._disk.open(self.path)
            with contextlib.closing(file):
                data = file.pread(file.stat().size, 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.path} can't be read: {os_error_text(error)}") from error

        reason, checkpoint = _decode_checkpoint(data, agent)
        if reason:
            # `agent check` changes no file
            if touch:
                self._move_aside(reason)
            raise CheckpointDamagedError(
                reason, f"{self.path}.damaged", ours=checkpoint is None or checkpoint.agent == agent
            )
        return checkpoint

    def _move_aside(self, reason: str) -> None:
        try:
            self._disk.replace(self.path, f"{self.path}.damaged")
        except OSError as error:
            raise StorageError(
                f"{self.path}: {reason}; nor can it be moved aside: {os_error_text(error)}"
            ) from error

    def write_snapshot(self, snapshot: bytes) -> None:
        """Replace the file, durably, by what `encode_checkpoint` returned. Raises OSError."""
        faults.reach("agent.checkpoint.before_write")
        write_atomically(
            self._disk, self.path, snapshot, before_rename="agent.checkpoint.before_rename"
        )
        faults.reach("agent.checkpoint.after_rename")


def _decode_checkpoint(data: bytes, agent: str) -> tuple[str, Checkpoint | None]:
    """Return why *data* is no checkpoint of *agent*, or "", and the checkpoint if it is one."""
    try:
        checkpoint = msgspec.json.decode(data, type=Checkpoint)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it can't be read: {error}", None
    if checkpoint.version != VERSION:
        return f"it has version {checkpoint.version}, this agent writes {VERSION}", checkpoint
    # its origin ids are another agent's
    if checkpoint.agent != agent:
        return f"it belongs to the agent {checkpoint.agent!r}, this is {agent!r}", checkpoint
    _share_equal_values(checkpoint.entries)
    return "", checkpoint


def _share_equal_values(entries: Iterable[CheckpointEntry]) -> None:
    """Make one object of values that are equal in many entries: they are kept for each file."""
    known: dict[Any, Any] = {}
    for entry in entries:
        if entry.name == entry.path:
            entry.name = entry.path
        for name in ("mount", "device", "store", "acknowledged"):
            value = getattr(entry, name)
            setattr(entry, name, known.setdefault(value, value))
