"""Packed runs as runs of records in the open, for other readers of the stream (`[sink] unpack`).

A pack is opened whole, and found to be what its run says, before the first of its runs is made.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import msgspec

from logdrive.kernel.loops import count_lines
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.numbers import position_of
from logdrive.model.units import KIB
from logdrive.packs.contents import TextContent, open_run
from logdrive.packs.pack import PackError
from logdrive.records.blocks import BlockEncoder
from logdrive.records.chunk import TextChunk
from logdrive.records.full_records import FullEncoder
from logdrive.wire.lumberjack.run_reader import RunReceived
from receiver.config import Unpack
from receiver.dialects.attributes import parse_attributes
from receiver.dialects.unpacking.cut_text import CutRecord, cut_into_records
from receiver.dialects.unpacking.runs import (
    RunCutter,
    group_into_batches,
    group_units,
)

_SLICE_BYTES: Final = 768 * KIB
"""Text encoded at a time, three blocks: JSON may be six times as long."""
_SLICE_LINES: Final = 8192
"""Lines encoded at a time: one that is not UTF-8 takes up to 4 µs, and no other connection has a
turn meanwhile.
"""

_NEWLINE: Final = 0x0A


_PARTS: Final = b'"parts":['
"""In each record that says where the lines of its event are."""


class _Place(msgspec.Struct):
    offset: int
    end: int | None = None
    parts: list[tuple[int, int]] = []


class _PlacedRecord(msgspec.Struct):
    log: _Place


_place_in = msgspec.json.Decoder(_PlacedRecord).decode


def unpack_run(
    received: RunReceived, form: Unpack, attributes: bytes, origin: UUID
) -> Iterator[RunReceived]:
    """Return what takes the place of *received*, a packed run: at least one run, in the form
    "blocks" or "full".

    *attributes* are those of its source, *origin* is its origin id. Raises `PackError`, before the
    first run, if the pack can't be opened, if its inside is not what its run says, or if it can't
    be cut where a batch must end.

    Takes memory for the content now, and then for the records of up to 768 KiB of it. Costs no
    Python for a single line of plain text.
    """
    run = received.run
    previous, position = position_of(run.previous), position_of(run.number)
    content = open_run(
        # the last part has all of the pack, perhaps behind the event's head
        memoryview(received.parts[-1])[EVENT_HEAD - received.size :],
        previous=previous,
        position=position,
        events=run.events,
        skipped=run.skipped,
    )
    if not isinstance(content, TextContent):
        return _record_runs(content.records, received)
    encoder = _full_encoder(attributes, origin, run.read) if form == "full" else None
    # what was left out may be among the bytes before a position
    cutter = RunCutter(received, b"" if run.skipped else content.text)
    if content.lengths is not None:
        encode = None if encoder is None else encoder.encode_part
        return _cut_runs(cut_into_records(content, previous, encode), cutter)
    return _text_runs(content.text, previous, encoder or BlockEncoder(), cutter)


def _full_encoder(attributes: bytes, origin: UUID, read_ms: int) -> FullEncoder:
    """Return the encoder of what was read at *read_ms*; its records say what an agent's do."""
    about = parse_attributes(attributes)
    host: str | dict[str, Any] = about.host
    agent: str | dict[str, Any] = about.agent
    common: dict[str, Any] = {
        "host": {"name": host} if host and isinstance(host, str) else host,
        "agent": {"id": agent, "type": "logdrive"} if agent and isinstance(agent, str) else agent,
        "fields": about.fields,
        "tags": about.tags,
    }
    common = {name: value for name, value in common.items() if value}
    return FullEncoder(common, about.path, origin.hex, lambda: read_ms)


def _text_runs(
    text: bytes, start: int, encoder: BlockEncoder | FullEncoder, cutter: RunCutter
) -> Iterator[RunReceived]:
    """Yield *text*, lines that begin at *start* in their file."""
    at = 0
    while at < len(text):
        end = _slice_end(text, at)
        open_end = end < len(text) and text[end - 1] != _NEWLINE
        chunk = TextChunk(start + at, text, at, end, open_end)
        # an encoder may stop early: the rest is another slice
        for run in encoder.encode_chunk(chunk, 0, 0):
            at = run.position - start
            yield cutter.make_run(run.records, run.position, run.events)


def _cut_runs(records: Iterator[CutRecord], cutter: RunCutter) -> Iterator[RunReceived]:
    """Yield *records* as runs."""
    for group in group_into_batches(records, lambda record: record.payload):
        payloads = [record.payload for record in group]
        events = sum(record.events for record in group)
        skipped = sum(record.skipped for record in group)
        yield cutter.make_run(payloads, group[-1].end, events, skipped)


def _slice_end(text: bytes, at: int) -> int:
    """Return where the whole lines end that are encoded next, up to `_SLICE_BYTES` and about
    `_SLICE_LINES`; a longer line is cut where a character begins.
    """
    end = min(at + _SLICE_BYTES, len(text))
    while (lines := count_lines(text, at, end)) > _SLICE_LINES:
        end = at + (end - at) * _SLICE_LINES // lines
    if end == len(text):
        return end
    if lines_end := text.rfind(b"\n", at, end) + 1:
        return lines_end
    for back in range(4):
        if text[end - back] & 0xC0 != 0x80:
            return end - back
    return end  # not UTF-8: cut anywhere


def _record_runs(records: list[bytes], received: RunReceived) -> Iterator[RunReceived]:
    """Return the runs of *records*. Raises `PackError` if their places don't say where to cut."""
    run = received.run
    groups = list(group_units(_tied_records(records)))
    # a batch ends where the first record of the next one begins
    begins = [position_of(run.previous), *(_place_of(group[0]).offset for group in groups[1:])]
    ends = [*begins[1:], position_of(run.number)]
    if any(before >= after for before, after in pairwise([begins[0], *ends])):
        raise PackError("a pack of records that don't follow one another")
    skipped = [0] * len(groups)
    if run.skipped:
        skipped = [
            end - begin - sum(map(_size_of, group))
            for group, begin, end in zip(groups, begins, ends, strict=True)
        ]
    if sum(skipped) != run.skipped or min(skipped) < 0:
        raise PackError(f"a pack of records that leave out {sum(skipped)} bytes")
    cutter = RunCutter(received, b"")
    return (
        cutter.make_run(group, end, len(group), left_out)
        for group, end, left_out in zip(groups, ends, skipped, strict=True)
    )


def _tied_records(records: list[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield *records*, those together whose lines take turns in their file (rule R2).

    A writer that went on between them would read lines of others. Raises `PackError`.
    """
    unit, reach = list[bytes](), 0
    for record in records:
        if _PARTS not in record and not unit:
            yield (record,)
            continue
        unit.append(record)
        place = _place_of(record)
        # where its lines end in the file, and where it ends as if they stood together
        end = place.end or place.offset
        reach = max(reach, end, *(part[1] for part in place.parts))
        if end == reach:
            yield unit
            unit = []
    # the rest of them was dropped: the run ends behind it
    if unit:
        yield unit


def _place_of(record: bytes) -> _Place:
    """Return where the event of *record* is in its file. Raises `PackError`."""
    try:
        return _place_in(record).log
    except (msgspec.DecodeError, RecursionError) as error:
        raise PackError(f"a pack of records with one that does not say where: {error}") from error


def _size_of(record: bytes) -> int:
    """Return how many bytes of its file the event of *record* has. Raises `PackError`."""
    place = _place_of(record)
    if place.end is None or place.end <= place.offset:
        raise PackError("a pack of records that leaves out bytes, with one that does not say which")
    return place.end - place.offset
