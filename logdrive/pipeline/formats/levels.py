"""Levels of log lines by one name each, whatever a logging library calls them."""

from typing import Final

import pyarrow as pa

_SAME = {
    "trace": ("t", "v", "verbose", "finer", "finest", "all"),
    "debug": ("d", "dbug", "dbg", "debug1", "debug2", "debug3", "debug4", "debug5", "fine"),
    "info": ("i", "information", "informational", "inf", "config", "log"),
    "notice": ("n",),
    "warn": ("w", "warning", "wrn"),
    "error": ("e", "err", "severe", "failure"),
    "fatal": ("f", "a", "c", "assert", "critical", "crit", "alert", "emerg", "emergency", "panic"),
}
LEVELS: Final = tuple(_SAME)
"""From the least to the most serious."""
ERROR_LEVELS: Final = LEVELS[LEVELS.index("error") :]

_LEVEL_OF = {other: level for level, others in _SAME.items() for other in others}
LEVEL_WORDS: Final = (
    "(?i:trace|verbose|finest|finer|fine|debug|config|info|information|notice|warn|warning|err|"
    "error|severe|failure|crit|critical|alert|emerg|emergency|panic|fatal)"
)
"""Names of levels, as an expression."""

_SEVERITIES = pa.array("fatal fatal fatal error warn notice info debug".split())  # noqa: SIM905 - RFC 5424, 6.2.1


def normal_levels(levels: pa.StringArray) -> pa.StringArray:
    """Return *levels* by the names of `LEVELS`; others in lower case."""
    said = levels.dictionary_encode()
    lowered = [one.lower() for one in said.dictionary.to_pylist()]
    named = pa.array([_LEVEL_OF.get(one, one) for one in lowered], pa.string())
    return named.take(said.indices)


def severity_levels(severities: pa.Int64Array) -> pa.StringArray:
    """Return the levels of syslog's severities, 0 to 7; null stays null."""
    return _SEVERITIES.take(severities)
