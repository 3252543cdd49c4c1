"""Failures raised on purpose. Callers choose by class, never by message text."""

import errno
import os
from dataclasses import dataclass
from typing import Final

MAKE_ROOM: Final = "make room on its disk"
"""The remedy where a disk is full."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class LogdriveError(Exception):
    """Root of the tree: catching it never hides a programming bug."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One error in a configuration: the key, its value, and what to write instead."""

    key: str
    value: str
    remedy: str

    def __str__(self) -> str:
        if not self.key:
            return self.remedy  # of the whole file
        return (
            f"{self.key} = {self.value}: {self.remedy}"
            if self.value
            else f"{self.key}: {self.remedy}"
        )


class ConfigError(LogdriveError):
    """The configuration can't be used; the message names the file and every mistake in it."""

    def __init__(self, file: str, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(f"{file}: {mistake}" for mistake in mistakes))
        self.file = file
        self.mistakes = mistakes


class UnavailableError(ConfigError):
    """Something the configuration names is not available now, such as a port already in use.

    The same configuration may work later.
    """


class TransientError(LogdriveError):
    """The far side may recover: retry with backoff."""


class RejectedError(TransientError):
    """One side refuses the other until a setting is changed.

    A command that does one thing gives up. *sure* is False if the peer closed the connection before
    it sent anything, which it also does while it is being restarted.
    """

    def __init__(self, reason: str, *, sure: bool = True) -> None:
        super().__init__(reason)
        self.sure = sure


class ProtocolError(LogdriveError):
    """The peer broke its protocol: drop the connection, never retry these bytes.

    *offset* counts the bytes of the peer's stream before the offending frame; *code* is the wire's
    own number for the reason, where the protocol has one (`logdrive/1`: the codes of the E frame).
    """

    def __init__(self, reason: str, *, offset: int, code: int = 1) -> None:
        super().__init__(f"{reason} at stream offset {offset}")
        self.offset = offset
        self.code = code


class StorageError(LogdriveError):
    """A disk did not keep what was written. Final: the process stops acknowledging and exits."""


def os_error_text(error: OSError) -> str:
    """Return the operating system's message for *error*, such as "Permission denied".

    It has neither the error's number nor a file name: for messages that name the file themselves.
    """
    return error.strerror or str(error)


def file_error_text(error: OSError) -> str:
    """Return the operating system's message for *error* and the file it concerns, where known.

    For example "Permission denied: /var/log/app.log". Where a disk is full, it says what to do.
    """
    text = os_error_text(error)
    if error.filename is None:
        return text
    remedy = f"; {MAKE_ROOM}" if error.errno in _FULL else ""
    return f"{text}: {os.fsdecode(error.filename)}{remedy}"
