"""All formats by name, and which of them the lines of a source have."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow.compute as pc

from logdrive.pipeline.formats.access import AccessFormat
from logdrive.pipeline.formats.format import FormatOptions, LogFormat, LogLines
from logdrive.pipeline.formats.zones import check_zone

FORMATS: Final[Mapping[str, Callable[[FormatOptions], LogFormat]]] = MappingProxyType(
    {"access": AccessFormat}
)
"""What makes each format, by its name, those that demand more of a line before others."""

SAMPLE_LINES: Final = 200
_SHARE = 0.9


def make_format(name: str, options: FormatOptions | None = None) -> LogFormat:
    """Return the format *name*. Raises ValueError for a name, zone or column that is none."""
    if name not in FORMATS:
        raise ValueError(f"no such format: {name!r}; there are {', '.join(FORMATS)}")
    options = options or FormatOptions()
    check_zone(options.zone)
    return FORMATS[name](options)


def recognize(sample: LogLines) -> str | None:
    """Return the name of the format that reads most lines of *sample*; None if none reads 90 %.

    Looks at the first `SAMPLE_LINES` lines, which are of one source; empty ones say nothing.
    """
    said = _with_text(sample.slice(0, SAMPLE_LINES))
    best, most = None, 0
    for name in FORMATS:
        read = make_format(name).parse(said).reasons.null_count
        if read > most:
            best, most = name, read
    return best if most >= _SHARE * len(said) else None


def _with_text(lines: LogLines) -> LogLines:
    said = pc.fill_null(pc.match_substring_regex(lines.message, r"\S"), False)
    return LogLines(
        lines.message.filter(said),
        lines.received.filter(said),
        lines.fields.filter(said),
        lines.source.filter(said),
        lines.start.filter(said),
        lines.end.filter(said),
    )
