"""Makes the cutter of a source, as its input's table asks for it."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from agent.config.encodings import UNIT_BYTES
from agent.config.lines import LinesTable, MultilineTable
from agent.events.cutter import LINES, EventCutter

if TYPE_CHECKING:
    from agent.events.cutting.container_lines import ContainerFormat

HEAD_BYTES: Final = 64
"""Bytes of a file that may say what its encoding is, and whether a container runtime wrote it."""


def needs_head(table: LinesTable) -> bool:
    """Return whether the cutter of a file depends on its first bytes."""
    return table.canonical_encoding in ("utf-16", "utf-32") or table.container == "auto"


def make_cutter(table: LinesTable, head: bytes = b"") -> EventCutter:
    """Return the cutter of a source that begins with *head*, `HEAD_BYTES` if it has them.

    Sources of one table share it.
    """
    if table.has_plain_lines:
        return LINES
    # not sooner: plain inputs, most of all, do without these and their memory
    from agent.events.cutting.container_lines import recognize_container
    from agent.events.cutting.text_form import encoding_of_file

    encoding, container = table.canonical_encoding, table.container
    if container == "auto":
        container = recognize_container(head)
        if container is None and table.has_plain_text:
            return LINES
    return _cutter(
        encoding_of_file(encoding, head),
        encoding in UNIT_BYTES or encoding == "utf-8-sig",
        table.line_end,
        table.longest_event_bytes,
        table.multiline,
        container,
    )


@lru_cache(maxsize=256)
def _cutter(
    encoding: str,
    drops_mark: bool,
    line_end: str,
    longest: int | None,
    multiline: MultilineTable | None,
    container: "ContainerFormat | None",
) -> EventCutter:
    from agent.events.cutting.container_cutter import ContainerCutter
    from agent.events.cutting.multiline import make_rules
    from agent.events.cutting.text_cutter import EventLimits, TextCutter
    from agent.events.cutting.text_form import TextForm

    form = TextForm(encoding, line_end, drops_mark=drops_mark)
    rules, limits, seconds = None, EventLimits(longest), math.inf
    if multiline is not None:
        limits = EventLimits(longest, multiline.max_lines, multiline.max_bytes)
        rules, seconds = make_rules(multiline), multiline.max_seconds
    if container is not None:
        return ContainerCutter(form, container, rules, limits, seconds)
    return TextCutter(form, rules, limits)
