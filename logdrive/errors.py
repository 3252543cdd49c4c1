"""Failures raised on purpose. Callers choose by class, never by message text."""

from dataclasses import dataclass


class LogdriveError(Exception):
    """Root of the tree: catching it never hides a programming bug."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong in a configuration: which key, what stands there, and what to write
    instead.
    """

    key: str
    value: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.key} = {self.value}: {self.remedy}"
            if self.value
            else f"{self.key}: {self.remedy}"
        )


class ConfigError(LogdriveError):
    """What the operator wrote can't be used; names the file and every mistake in it at once."""

    def __init__(self, file: str, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(f"{file}: {mistake}" for mistake in mistakes))
        self.file = file
        self.mistakes = mistakes


class UnavailableError(ConfigError):
    """What the configuration names can't be had now, as with a port that another process has; later
    it may be, unchanged.
    """


class TransientError(LogdriveError):
    """The far side may recover: retry with backoff."""


class RejectedError(TransientError):
    """One side refuses the other, and will until somebody changes a setting: who has one thing to
    do gives up.

    Not *sure*: it ended the connection before it said a word, as one does that is being restarted,
    too.
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
    """A disk did not keep what was given to it. Final: the process stops acknowledging and ends."""
