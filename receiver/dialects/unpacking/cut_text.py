"""Text whose events are not single lines, or that lacks bytes of its file, as records in the open
(rules R1, R2).

Blocks with `lengths` where the text is UTF-8, else a record for each event. What was left out is
always in the `lengths` of a block, of a block without text if need be. Costs some Python for each
event.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from logdrive.model.limits import BLOCK_TEXT_BYTES, RECORD_BYTES
from logdrive.model.records import block_record
from logdrive.packs.contents import TextContent
from logdrive.records.blocks import LinePart, split_line

_Span = tuple[int, int]  # where something begins in the file, and in the text


@dataclass(frozen=True, slots=True)
class CutRecord:
    """One record in the open."""

    payload: bytes
    end: int  # position after it
    events: int  # in it
    skipped: int = 0  # bytes of the file that it leaves out


def cut_into_records(
    content: TextContent, start: int, encode: Callable[[LinePart], bytes] | None
) -> Iterator[CutRecord]:
    """Yield the events of *content*, which begins at *start* in its file.

    With *encode* each event becomes a record, or several if it is long; without, a part of a block
    where possible.
    """
    text, lengths = content.text, content.lengths or ()
    group: list[int] = []  # lengths
    size = 0  # bytes of text of the group
    at = (start, 0)
    for length in lengths:
        # a record takes events alone, or what was left out alone
        full = size + max(length, 0) > BLOCK_TEXT_BYTES if encode is None else True
        if group and full:
            yield from _encode_group(text, at, group, encode)
            at, group, size = _after(at, group), [], 0
        group.append(length)
        size += max(length, 0)
    if group:
        yield from _encode_group(text, at, group, encode)


def _encode_group(
    text: bytes, at: _Span, lengths: Sequence[int], encode: Callable[[LinePart], bytes] | None
) -> Iterator[CutRecord]:
    """Yield the events of *lengths*, which begin *at*."""
    if encode is None or max(lengths) < 0:
        block = _block(text, at, lengths)
        if block is not None:
            yield block
            return
    if len(lengths) > 1:
        # not UTF-8, or too long once escaped: the halves may do
        middle = len(lengths) // 2
        yield from _encode_group(text, at, lengths[:middle], encode)
        yield from _encode_group(text, _after(at, lengths[:middle]), lengths[middle:], encode)
        return

    position, begin = at
    end = begin + lengths[0]
    for part in split_line(text, begin, end, position - begin, open_end=False):
        yield CutRecord(part.encode_lean() if encode is None else encode(part), part.end, 1)


def _block(text: bytes, at: _Span, lengths: Sequence[int]) -> CutRecord | None:
    """Return the events of *lengths* as a block, None if they can't be one."""
    start, begin = at
    end, stop = _after(at, lengths)
    cut = begin
    for length in lengths:
        # no character may lie in two events
        if cut < stop and text[cut] & 0xC0 == 0x80:
            return None
        cut += max(length, 0)
    try:
        message = text[begin:stop].decode()
    except UnicodeDecodeError:
        return None

    events = sum(length > 0 for length in lengths)
    payload = block_record(start, end, events, message, lengths)
    if len(payload) > RECORD_BYTES:
        return None
    return CutRecord(payload, end, events, -sum(min(length, 0) for length in lengths))


def _after(at: _Span, lengths: Sequence[int]) -> _Span:
    position, begin = at
    return (
        position + sum(map(abs, lengths)),
        begin + sum(length for length in lengths if length > 0),
    )
