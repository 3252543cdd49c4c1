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

import msgspec

from agent.sources.checkpoint.entry import CheckpointEntry, CopyStamp
from logdrive.errors import StorageError, os_error_text
from logdrive.host import faults
from logdrive.host.disk import Disk, write_atomically

FILE_NAME: Final = "checkpoint.json"
VERSION: Final = 1


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
