"""The [[input]] tables: files, by patterns of their paths."""

from typing import Annotated, Literal

import msgspec

from agent.config.events import EventsTable
from logdrive.config.bounds import Positive


class InputTable(EventsTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[input]] table: a set of files, and the labels of their lines."""

    paths: Annotated[list[str], msgspec.Meta(min_length=1)]
    """Absolute paths and patterns (`agent.inputs.files.globs`)."""

    exclude: list[str] = msgspec.field(default_factory=list)
    """Absolute paths and patterns of files to leave out."""

    start: Literal["beginning", "end"] = "beginning"
    """Where to start in files that exist at the agent's first start (rule P2)."""

    quiet_seconds: Positive = 30.0
    """Seconds without growth after which a last line without newline is shipped (rule P3)."""

    end_after_seconds: Positive = 60.0
    """Seconds without growth after which a deleted file has ended (rule G1)."""

    def __post_init__(self) -> None:
        """Refuse relative patterns."""
        super().__post_init__()
        for pattern in (*self.paths, *self.exclude):
            if not pattern.startswith("/"):
                raise ValueError(
                    f"{pattern!r} must be an absolute path or pattern, as in /var/log/*.log"
                )
