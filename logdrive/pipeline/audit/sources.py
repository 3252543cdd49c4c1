"""The audit's findings on one source, and on bytes that are not in its rows."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from logdrive.pipeline.decode.coverage import Interval

NOT_WANTED = "not_wanted"
SKIPPED = "skipped"
"""Why bytes are in a gap: an operator had them left out (rule A4)."""
RESENT = "resent"
"""Why a source ended: an operator had its file sent again, as another source (rule A4). A gap
before that end has this reason, too: its bytes come with the other source.
"""
ON_PURPOSE = (NOT_WANTED, SKIPPED, RESENT)
"""Reasons of gaps whose bytes nobody misses."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [*start*, *end*) of a source for which the agent sent no rows."""

    source: str
    path: str | None
    start: int
    end: int
    reason: str
    end_exact: bool  # False: more may be missing behind the end, which the agent did not see
    lost_bytes: int  # of the gap; the others were not wanted, or are in rows after all

    @property
    def end_unseen(self) -> bool:
        """True if more than [start, end) may be lost."""
        return not self.end_exact and self.reason not in ON_PURPOSE


@dataclass(slots=True)
class AuditedSource:
    """A source: one generation of a file as sent by one client, or a foreign peer."""

    source: str
    host: str | None = None
    path: str | None = None  # the latest
    # sources with the same origin are one file, sent by several clients
    origin: str | None = None
    # when its first batch was received, ms since 1970
    first_heard: int = 0
    foreign: bool = False
    state: str = "open"
    # why its generation ended; None while it is open
    ended: str | None = None
    # the greatest position received
    last: int = 0
    # when its last batch was received, ms since 1970
    heard: int = 0
    # bytes between these positions are all in rows, once, or were not wanted. The first is 0, but
    # for tables that begin at a time and lack what lies before
    complete_from: int = 0
    complete_to: int = 0
    # when the last batch before that was received, ms since 1970
    complete_since: int = 0
    # rows: a line that is too long for one row is in several
    events: int = 0
    # bytes in rows, each counted once
    bytes: int = 0
    # of batches whose rows lack bytes, as of a pack that can't be opened
    damaged: list[Interval] = field(default_factory=list)
    # before the beginning of the tables, and not filled yet: nobody asked for them
    not_asked_bytes: int = 0
    # left out by the agent's rules, each counted once
    skipped_bytes: int = 0
    lost_bytes: int = 0
    # True: more than *lost_bytes* may be lost, since an end was not seen
    lost_at_least: bool = False
    # bytes that are in rows more than once
    doubled_bytes: int = 0
    # True: its agent said that it may send lines again
    resend: bool = False
    # intervals of its batches, in order of arrival; they may overlap
    kept: list[Interval] = field(default_factory=list)
    # of these, what its agent left out
    dropped: list[Interval] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    # lines in rows: a quarantined row is none
    lines: int = 0
    # events of a foreign peer that wait as dead letters
    dead_letters: int = 0
    dead_letter_bytes: int = 0

    @property
    def is_open(self) -> bool:
        """True if more of this file may come; a foreign peer is never open."""
        return self.state == "open" and not self.foreign

    @property
    def heard_at(self) -> str:
        """When its last batch was received, as text; empty if not known."""
        return _as_text(self.heard)

    @property
    def complete_at(self) -> str:
        """When the last batch before *complete_to* was received, as text; empty if not known."""
        return _as_text(self.complete_since)


def _as_text(when: int) -> str:
    """Return a time in ms since 1970 as text; "" for 0, and for one that no calendar has."""
    try:
        time = datetime.fromtimestamp(when / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # of a damaged header
        return ""
    return time.isoformat(sep=" ", timespec="seconds") if when else ""
