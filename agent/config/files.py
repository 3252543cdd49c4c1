"""The [[input]] tables: files, by patterns of their paths."""

import math
import re
from typing import Annotated, Final, Literal

import msgspec

from agent.config.events import EventsTable
from logdrive.config.bounds import Positive, checked

_AGE: Final = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNIT_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def _check_start(start: str) -> None:
    if start not in ("beginning", "end") and not _AGE.fullmatch(start):
        raise ValueError(
            f'{start!r} must be "beginning", "end", or an age in seconds, minutes, hours or days, '
            'as in "24h"'
        )


def _check_patterns(patterns: list[str]) -> None:
    for pattern in patterns:
        if not pattern.startswith("/"):
            raise ValueError(
                f"{pattern!r} must be an absolute path or pattern, as in /var/log/*.log"
            )


class InputTable(EventsTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[input]] table: a set of files, and the labels of their lines."""

    paths: Annotated[list[str], msgspec.Meta(min_length=1), checked(_check_patterns)]
    """Absolute paths and patterns: `*`, `?`, `[…]` in a name, `**` for up to eight directories."""

    exclude: Annotated[list[str], checked(_check_patterns)] = msgspec.field(default_factory=list)
    """Absolute paths and patterns of files to leave out."""

    start: Annotated[str, checked(_check_start)] = "beginning"
    """Where to start in files that exist at the agent's first start (rule P2): "beginning", "end",
    or an age, from which on they start at their end.
    """

    unknown_compressed: Literal["skip", "ship"] = "skip"
    """What to do with compressed files of which neither agent nor receiver knows (rule G5)."""

    quiet_seconds: Positive = 30.0
    """Seconds without growth after which a last line without newline is shipped (rule P3)."""

    end_after_seconds: Positive = 60.0
    """Seconds without growth after which a deleted file has ended (rule G1)."""

    def __post_init__(self) -> None:
        """Refuse relative patterns, and a start that is none."""
        super().__post_init__()
        _check_start(self.start)
        _check_patterns(self.paths)
        _check_patterns(self.exclude)

    @property
    def skipped_from_age(self) -> float:
        """Seconds without change from which on an existing file starts at its end (rule P2)."""
        if match := _AGE.fullmatch(self.start):
            return int(match[1]) * _UNIT_SECONDS[match[2]]
        return math.inf if self.start == "beginning" else -math.inf
