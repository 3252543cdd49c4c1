"""What the audit says of one source, and of bytes that are not in its rows."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from logdrive.pipeline.decode.coverage import Interval

NOT_WANTED = "not_wanted"


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of a source that no row came for; *lost_bytes* of them are lost, the others were not
    wanted or came otherwise.
    """

    source: str
    path: str | None
    start: int
    end: int
    reason: str
    end_exact: bool
    lost_bytes: int

    @property
    def end_unseen(self) -> bool:
        """Whether more than [start, end) may be lost."""
        return not self.end_exact and self.reason != NOT_WANTED


@dataclass(slots=True)
class AuditedSource:
    """One life of one file, or a foreign client; *last* is the greatest position heard of, *heard*
    when, in ms since 1970.

    Sources of one *origin* are one file as several clients told it; *first_heard* is when this one
    began to. *events* are rows; a line that is too long for one is in several. *dead_letters* are
    events that are in no row (rule R7).
    """

    source: str
    host: str | None = None
    path: str | None = None
    origin: str | None = None
    first_heard: int = 0
    foreign: bool = False
    state: str = "open"
    ended: str | None = None
    last: int = 0
    heard: int = 0
    events: int = 0
    bytes: int = 0
    skipped_bytes: int = 0
    lost_bytes: int = 0
    lost_at_least: bool = False
    doubled_bytes: int = 0
    resend: bool = False
    kept: list[Interval] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    lines: int = 0
    dead_letters: int = 0
    dead_letter_bytes: int = 0

    @property
    def is_open(self) -> bool:
        """Whether more of this file may come; a foreign client has no end to wait for."""
        return self.state == "open" and not self.foreign

    @property
    def heard_at(self) -> str:
        """When it was heard of, as text; empty where that is not known."""
        return (
            datetime.fromtimestamp(self.heard / 1000, UTC).isoformat(sep=" ", timespec="seconds")
            if self.heard
            else ""
        )
