"""The [journald] table: the journal of systemd."""

from typing import Annotated, Literal

from agent.config.events import EventsTable
from logdrive.config.bounds import checked


def _check_directory(path: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} must be an absolute path, as in /var/log/journal")


class JournaldTable(EventsTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [journald] table: which journal is read."""

    directory: Annotated[str, checked(_check_directory)] | None = None
    """Directory of the journal's files; by default the journal of this host."""

    start: Literal["beginning", "boot"] = "beginning"
    """Where to start without a checkpoint: at the first entry of all, or of this boot."""

    journalctl: str = "journalctl"
    """The program that reads the journal: a path, or a name to look for."""

    def __post_init__(self) -> None:
        """Refuse a relative directory, and keys that say what lines are."""
        super().__post_init__()
        if self.directory is not None:
            _check_directory(self.directory)
        if not self.has_plain_lines:
            raise ValueError(
                "encoding, line_end, longest_event_bytes and multiline are of lines: here each "
                "entry is an event"
            )

    @property
    def needs_events(self) -> bool:
        """True: entries have fields."""
        return True
