"""All formats by name, and which of them the lines of a source have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Final

import numpy as np
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
from logdrive.pipeline.formats.format import (
    TAKEN_NAMES,
    FormatOptions,
    LogFormat,
    LogLines,
    join_lines,
)
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

KEYED_FORMATS: Final = ("json", "logfmt")
"""Formats of lines with keys: only they make columns of `FormatOptions.columns`."""

SAMPLE_LINES: Final = 200
_FIRST_LINES = 12  # that decide whether a format is tried on the whole sample
_SHARE = 0.9
_TOGETHER_LINES = 8192  # lines of several samples that are parsed at once


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


@cache
def built_in_table(name: str) -> str:
    """Return the table of the format *name* where no other is named; kin of one table share it."""
    return make_format(name).table


def recognize(sample: LogLines) -> str | None:
    """Return the name of the format that reads most lines of *sample*; None if none reads 90 %.

    Looks at the first `SAMPLE_LINES` lines, which are of one source. Empty ones and those that look
    like parts of stack traces say nothing. Formats for any lines with a time come last.
    """
    return recognize_all([sample])[0]


def recognize_all(samples: Sequence[LogLines]) -> list[str | None]:
    """Return what `recognize` returns for each of *samples*.

    A format parses the lines of many samples at once: a call of it costs about as much as a
    thousand lines.
    """
    said = [_telling(sample.slice(0, SAMPLE_LINES)) for sample in samples]
    names: list[str | None] = []
    for some in _parts(said):
        special = _best(_SPECIAL, some)
        rest = [number for number, name in enumerate(special) if name is None]
        general = _best(_GENERAL, [some[number] for number in rest])
        by_number = dict(zip(rest, general, strict=True))
        names += [name or by_number.get(number) for number, name in enumerate(special)]
    return names


def _parts(samples: Sequence[LogLines]) -> Iterator[list[LogLines]]:
    """Yield *samples* in parts of some thousand lines, and at least one sample each."""
    part: list[LogLines] = []
    lines = 0
    for sample in samples:
        if part and lines + len(sample) > _TOGETHER_LINES:
            yield part
            part, lines = [], 0
        part.append(sample)
        lines += len(sample)
    if part:
        yield part


def _best(formats: Mapping[str, FormatMaker], said: Sequence[LogLines]) -> list[str | None]:
    """Return which of *formats* reads most of each of *said*; None where none reads 90 %."""
    options = FormatOptions()
    best: list[str | None] = [None] * len(said)
    most = [0] * len(said)
    for name, make in formats.items():
        one = make(options)
        left = [number for number, lines in enumerate(said) if most[number] < len(lines)]
        firsts = [said[number].slice(0, _FIRST_LINES) for number in left]
        likely = [
            number
            for number, first, read in zip(left, firsts, _count_read(one, firsts), strict=True)
            if 2 * read >= len(first)
        ]
        counts = _count_read(one, [said[number] for number in likely])
        for number, read in zip(likely, counts, strict=True):
            if read > most[number]:
                best[number], most[number] = name, read
    return [
        name if read >= _SHARE * len(lines) else None
        for name, read, lines in zip(best, most, said, strict=True)
    ]


def _count_read(one: LogFormat, samples: Sequence[LogLines]) -> list[int]:
    """Return how many lines of each of *samples* the format *one* reads."""
    if not samples:
        return []
    parsed = one.parse(join_lines(samples)).reasons.is_null().to_numpy(zero_copy_only=False)
    ends = np.cumsum([len(sample) for sample in samples])
    read = np.concatenate([[0], np.cumsum(parsed)])[ends]
    return [int(count) for count in np.diff(read, prepend=0)]


def _telling(lines: LogLines) -> LogLines:
    whole = pc.fill_null(lines.message, "")
    return lines.filter(pa.array(~trace_like(whole)))
