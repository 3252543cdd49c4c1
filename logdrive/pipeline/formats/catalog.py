"""All formats by name, and which of them the lines of a source have."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.access import AccessFormat
from logdrive.pipeline.formats.application import (
    GENERAL_LAYOUTS,
    LAYOUTS,
    application_format,
    layout_lines,
)
from logdrive.pipeline.formats.containers import cri_format, docker_format
from logdrive.pipeline.formats.fingerprints import trace_like
from logdrive.pipeline.formats.format import TAKEN_NAMES, FormatOptions, LogFormat, LogLines
from logdrive.pipeline.formats.json_lines import JsonFormat
from logdrive.pipeline.formats.keyed import COLUMN_TYPES, COLUMNS
from logdrive.pipeline.formats.logfmt import LogfmtFormat
from logdrive.pipeline.formats.syslog import syslog_format
from logdrive.pipeline.formats.zones import check_zone

FormatMaker = Callable[[FormatOptions], LogFormat]

_OTHERS: Mapping[str, FormatMaker] = {
    "access": AccessFormat,
    "cri": cri_format,
    "docker": docker_format,
    "json": JsonFormat,
    "logfmt": LogfmtFormat,
}
_APPLICATIONS = {name: partial(application_format, name) for name in LAYOUTS}

FORMATS: Final[Mapping[str, FormatMaker]] = MappingProxyType(
    {**_OTHERS, **_APPLICATIONS, "syslog": syslog_format}
)
"""What makes each format, by its name."""

# what makes formats for `recognize`: those that demand more of a line before others
_SPECIAL: Mapping[str, FormatMaker] = {
    **_OTHERS,
    **{name: partial(layout_lines, name) for name in LAYOUTS if name not in GENERAL_LAYOUTS},
    "syslog": syslog_format,
}
_GENERAL: Mapping[str, FormatMaker] = {
    name: partial(layout_lines, name) for name in GENERAL_LAYOUTS
}

SAMPLE_LINES: Final = 200
_FIRST_LINES = 12  # that decide whether a format is tried on the whole sample
_SHARE = 0.9


def make_format(name: str, options: FormatOptions | None = None) -> LogFormat:
    """Return the format *name*. Raises ValueError for a name, zone or column that is none."""
    if name not in FORMATS:
        raise ValueError(f"no such format: {name!r}; there are {', '.join(FORMATS)}")
    options = options or FormatOptions()
    check_zone(options.zone)
    _check_columns(options)
    return FORMATS[name](options)


def _check_columns(options: FormatOptions) -> None:
    for key, kind in options.columns.items():
        if kind not in COLUMN_TYPES:
            raise ValueError(f"{key} has no such type: {kind!r}; use {', '.join(COLUMN_TYPES)}")
        if key in TAKEN_NAMES or key in COLUMNS:
            raise ValueError(f"there is a column {key} already; no key can have that name")


def recognize(sample: LogLines) -> str | None:
    """Return the name of the format that reads most lines of *sample*; None if none reads 90 %.

    Looks at the first `SAMPLE_LINES` lines, which are of one source. Empty ones and those that look
    like parts of stack traces say nothing. Formats for any lines with a time come last.
    """
    said = _telling(sample.slice(0, SAMPLE_LINES))
    return _best(_SPECIAL, said) or _best(_GENERAL, said)


def _best(formats: Mapping[str, FormatMaker], said: LogLines) -> str | None:
    first, options = said.slice(0, _FIRST_LINES), FormatOptions()
    best, most = None, 0
    for name, make in formats.items():
        one = make(options)
        if 2 * _count_read(one, first) < len(first):
            continue
        read = _count_read(one, said)
        if read > most:
            best, most = name, read
        if most == len(said):
            break
    return best if most >= _SHARE * len(said) else None


def _count_read(one: LogFormat, lines: LogLines) -> int:
    return int(one.parse(lines).reasons.null_count)


def _telling(lines: LogLines) -> LogLines:
    whole = pc.fill_null(lines.message, "")
    return lines.filter(pa.array(~trace_like(whole)))
