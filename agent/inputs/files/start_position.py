"""Chooses where to start in files that exist at the agent's first start (rule P2)."""

from collections.abc import Callable
from typing import Final

from agent.config.encodings import UNIT_BYTES
from agent.config.lines import LINE_END_BYTES
from agent.events.cutting.make import HEAD_BYTES
from agent.inputs.files.file import Generation
from logdrive.model.units import KIB

_STEP: Final = 64 * KIB
"""Bytes per read while the last line end is searched from the end."""


def decide_start(generation: Generation, now_ms: int) -> bool:
    """Set where to start in an open file whose input starts at the end, if it is old enough.

    That is the end of its last whole line. A file without a first line yet starts at 0. Returns
    whether bytes are skipped.
    """
    age_seconds = (now_ms - generation.modified_ns // 1_000_000) / 1000
    if (
        age_seconds < generation.settings.skipped_from_age
        or generation.first_line is None
        or generation.file is None
    ):
        return False

    if (end := find_last_line_end(generation)) == 0:
        return False
    generation.set_start(end)
    return True


def find_last_line_end(generation: Generation, before: int | None = None) -> int:
    """Return where the last whole line of an open file ends, at *before* at the latest.

    0 without one. Raises OSError.
    """
    assert generation.file is not None
    last_end = _line_end_finder(generation)
    end = generation.seen if before is None else before
    while end > 0:
        begin = max(0, end - _STEP)
        if found := last_end(generation.file.pread(end - begin, begin), begin):
            return begin + found
        # a line end may lie on both sides
        end = begin + LINE_END_BYTES - 1 if begin else 0
    return 0


def _line_end_finder(generation: Generation) -> Callable[[bytes, int], int]:
    """Return what returns where the last line ends in bytes at a position; 0 for none."""
    settings = generation.settings
    # a byte LF is one in all encodings but those of units
    if settings.line_end == "\n" and settings.canonical_encoding not in UNIT_BYTES:
        return lambda data, position: data.rfind(b"\n") + 1

    # not sooner: plain inputs do without it and its memory
    from agent.events.cutting.text_form import TextForm, encoding_of_file

    encoding = encoding_of_file(settings.canonical_encoding, generation.read_head(HEAD_BYTES))
    form = TextForm(encoding, settings.line_end)
    return lambda data, position: form.last_end(data, 0, position)
