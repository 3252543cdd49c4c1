"""The checkpoint: a cache of what the store knows, and the few things that only the agent decided
(rules D5, G6, P2).

One JSON file, `checkpoint.json` in the state directory, replaced atomically and never changed in
place:

    {"version": 1, "agent": "…", "written": ms,
     "entries": [{"origin": "…", "number": …, "store": "…", …}, …]}

Recovery: whole or not at all. A file that can't be read is moved aside and the agent starts as
without one: it asks the receiver for every file (rule G3), so that nothing is lost or doubled. What
is written lags behind what is acknowledged by about a second; the receiver's P makes up for it.
"""

import base64
import contextlib
import os
from typing import Final
from uuid import UUID

import msgspec

from agent.sources.identity import FirstLine
from logdrive.errors import StorageError, os_error_text
from logdrive.host import faults
from logdrive.host.disk import Disk, write_atomically

FILE_NAME: Final = "checkpoint.json"
VERSION: Final = 1


class CheckpointEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One source.

    *span* and *crc* tell its first line, *number* and *store* what was acknowledged last and by
    whom.

    *ended* is the reason why nothing more can be read, *done* when (ms) its end record was
    acknowledged. *seen* is the largest size seen, *exact* whether the end is. *first* is the first
    line itself, kept while the count is not known.

    By these the next start tells whether the file is the same (rule G4), 0 where they are not
    known: *last* is the number of the last place before which the bytes are known, if it lies
    beyond *number*; *modified_ns* is when the file was changed last.

    *undecided*: the receiver has yet to say whether it begins at *start* (rule P2). *resend*: the
    receiver had another's bytes under the count before (rule A4).
    """

    origin: UUID
    stem: UUID
    count: int = 0
    counting: str = "known"
    path: str
    name: str
    mount: str
    device: int
    inode: int
    birth_ns: int = 0
    span: int
    crc: int
    first: bytes | None = None
    start: int = 0
    undecided: bool = False
    resend: bool = False
    number: int = 0
    store: UUID | None = None
    seen: int = 0
    last: int = 0
    modified_ns: int = 0
    ended: str | None = None
    exact: bool = True
    done: int | None = None
    acknowledged: int = 0

    @property
    def first_line(self) -> FirstLine:
        """Its first line, as far as it is compared; the text is in the file."""
        return FirstLine(b"", self.span, self.crc)


class Checkpoint(msgspec.Struct, kw_only=True):
    """Everything that is written."""

    version: int = VERSION
    agent: str
    written: int = 0
    entries: list[CheckpointEntry] = []

    def snapshot(self) -> bytes:
        """Return it as it is written; entries change afterwards."""
        return msgspec.json.encode(self)


class CheckpointDamagedError(Exception):
    """The checkpoint can't be used; it is moved to *aside*. Never leaves the agent."""

    def __init__(self, reason: str, aside: str, *, ours: bool) -> None:
        super().__init__(reason)
        self.aside = aside
        self.ours = ours
        """Whether this agent wrote it, as far as can be told: then it was here before."""


class CheckpointFile:
    """The checkpoint's place on disk."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = os.path.join(directory, FILE_NAME)

    def read(self, agent: str, *, touch: bool = True) -> Checkpoint | None:
        """Return it, None where there is none.

        Raises `CheckpointDamagedError`, having moved aside what can't be used, unless *touch*
        forbids.

        One of another agent id can't be, either: its names are not ours. Raises `StorageError`
        where the disk does not give it.
        """
        try:
            file = self._disk.open(self.path)
            with contextlib.closing(file):
                data = file.pread(file.stat().size, 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.path} can't be read: {os_error_text(error)}") from error
        reason, checkpoint = _judged(data, agent)
        if reason:
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

    def write(self, snapshot: bytes) -> None:
        """Replace it, durably, by a checkpoint's *snapshot*."""
        faults.reach("agent.checkpoint.before_write")
        write_atomically(
            self._disk, self.path, snapshot, before_rename="agent.checkpoint.before_rename"
        )
        faults.reach("agent.checkpoint.after_rename")


def _judged(data: bytes, agent: str) -> tuple[str, Checkpoint | None]:
    """Return the checkpoint in *data*, as far as there is one, and why it is of no use, "" where it
    is.
    """
    try:
        checkpoint = msgspec.json.decode(data, type=Checkpoint)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it can't be read: {error}", None
    if checkpoint.version != VERSION:
        return f"it has version {checkpoint.version}, this agent writes {VERSION}", checkpoint
    if checkpoint.agent != agent:
        return f"it belongs to the agent {checkpoint.agent!r}, this is {agent!r}", checkpoint
    return "", checkpoint


def text_of(path: str) -> str:
    """Return a path as JSON can carry it: names that are not UTF-8 as NUL and Base64."""
    if path.isascii():  # nearly all, and three for each entry
        return path
    data = os.fsencode(path)
    try:
        return path if data.decode() == path else data.decode()
    except UnicodeDecodeError:
        return "\0" + base64.b64encode(data).decode()


def path_of(text: str) -> str:
    """Return the path that `text_of` made *text* of."""
    return os.fsdecode(base64.b64decode(text[1:])) if text.startswith("\0") else text


def shown(path: str) -> str:
    """Return a path for people and records: bytes that are not UTF-8 as U+FFFD."""
    return os.fsencode(path).decode(errors="replace")
