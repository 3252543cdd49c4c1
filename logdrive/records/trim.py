"""Trims runs whose bytes can't be read again to what the store lacks (rules D3, D5, P4).

A store may have part of a run already, so the run is made to start at another number: the bytes
before it are cut off, to the byte.
"""

import base64
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.numbers import is_closed, position_of
from logdrive.model.records import END, GAP, file_bytes
from logdrive.packs.cuts import join_cuts, split_cuts
from logdrive.packs.pack import PackForm
from logdrive.records.chunk import TextChunk
from logdrive.records.dropped import DroppedForm, make_dropped_run
from logdrive.records.full_packs import pack_records
from logdrive.records.packed import PackEncoder
from logdrive.records.run_pack import RunPack, packed_size
from logdrive.records.runs import Run, make_end_run, make_gap_run


def trim_run(run: Run, previous: int) -> list[Run]:
    """Return the part of *run* that follows the number *previous*, which must be before its end.

    It is one run, unless it is a part of a line that is too long for one. Opens a pack, and parses
    each record of a data run, but is needed seldom.
    """
    if run.previous == previous:
        return [run]

    # a gap or an end is made again from its mark
    if run.kind == GAP and run.mark is not None:
        return [make_gap_run(previous, run.number, run.mark, run.read_ms)]
    if run.kind == END and run.mark is not None:
        return [make_end_run(previous, run.mark, run.read_ms)]

    pack = run.records if isinstance(run.records, RunPack) else None
    if run.events == 0:
        form: DroppedForm = "pack" if pack is not None else "block"
        return [make_dropped_run(previous, run.number, run.read_ms, form)]
    if pack is not None and pack.form is PackForm.CUT_TEXT:
        return [_trim_cut_text(run, pack, previous)]
    if pack is not None and pack.form is PackForm.TEXT:
        return _trim_text(run, pack, previous)
    return [_trim_records(run, pack, previous)]


def trim_runs(runs: list[Run], previous: int) -> list[Run]:
    """Return what remains of consecutive *runs* after the number *previous*, the store's."""
    left: list[Run] = []
    for run in runs:
        if is_closed(run.number) or run.position > position_of(previous):
            left += trim_run(run, previous)
            # an end closes the number: nothing follows it
            previous = run.number if run.kind != END else previous
    return left


def _trim_records(run: Run, pack: RunPack | None, previous: int) -> Run:
    at, records, events, kept = position_of(previous), list[bytes](), 0, 0
    for payload in run.records if pack is None else pack.records:
        later = _trim_record(payload, at)
        if later is not None:
            records.append(later.payload)
            events += later.events
            kept += later.size
    if not records:
        # the rest was left out
        form: DroppedForm = "pack" if pack is not None else "block"
        return make_dropped_run(previous, run.number, run.read_ms, form)

    rest = replace(
        run,
        previous=previous,
        records=records,
        events=events,
        size=sum(map(len, records)) + EVENT_HEAD * len(records),
        skipped=run.position - at - kept if run.skipped else 0,
    )
    return rest if pack is None else pack_records(rest, pack.packing)


def _trim_cut_text(run: Run, pack: RunPack, previous: int) -> Run:
    """Return the rest of a pack of text with lengths; an event may be cut anywhere."""
    lengths, text = split_cuts(pack.content)
    before, used, rest = position_of(previous) - position_of(run.previous), 0, list[int]()
    for length in lengths:
        cut = min(before, abs(length))
        before -= cut
        if length > 0:
            used += cut
        if cut < abs(length):
            rest.append(length - cut if length > 0 else length + cut)
    events = sum(length > 0 for length in rest)
    if not events:
        return make_dropped_run(previous, run.number, run.read_ms, "pack")
    content = join_cuts(rest, text[used:])
    return replace(
        run,
        previous=previous,
        records=RunPack(PackForm.CUT_TEXT, content, pack.packing),
        events=events,
        size=packed_size(len(content)),
        skipped=-sum(length for length in rest if length < 0),
    )


def _trim_text(run: Run, pack: RunPack, previous: int) -> list[Run]:
    text = pack.content[position_of(previous) - position_of(run.previous) :]
    chunk = TextChunk(position_of(previous), text, 0, len(text))
    *runs, last = PackEncoder(pack.packing).encode_chunk(chunk, previous, run.read_ms)
    # the bytes before *previous* are not in the chunk, and the check may need them
    return [*runs, replace(last, number=run.number)]


class _Rest(NamedTuple):
    """What is left of a record."""

    payload: bytes
    events: int
    size: int  # bytes of the file


def _trim_record(payload: bytes, at: int) -> _Rest | None:
    """Return the part of a data record from position *at* on, None if it ends before."""
    value: dict[str, Any] = orjson.loads(payload)
    log = value["log"]
    start, data = log["offset"], file_bytes(value)
    end: int = log.get("end", start + len(data))
    # the store has all of it
    if end <= at:
        return None
    # the store has nothing of it
    if start >= at:
        return _Rest(payload, log.get("lines", 1), end - start)

    log["offset"] = at
    if end - start != len(data):
        # its text is not the file's: nobody can say which part of it is new
        value.pop("event", None)
        return _Rest(orjson.dumps(value), 1, end - at)
    rest = data[at - start :]
    if "lines" not in log:
        # a lean or full record: its message lacks the line end
        eol: str = log.get("eol", "\n")
        if len(rest) < len(eol):  # *at* lies between CR and LF
            log["eol"] = eol = rest.decode()
        rest = rest.removesuffix(eol.encode())

    # its exact bytes are those of the whole record, and so is its encoding
    value.pop("event", None)
    log.pop("encoding", None)
    log.pop("parts", None)
    try:
        value["message"] = rest.decode()
    except UnicodeDecodeError:
        value["message"] = rest.decode(errors="replace")
        value["event"] = {"original_base64": base64.b64encode(rest).decode()}
        if log.pop("lines", None) is not None:
            # *at* cuts a character of a block, and blocks hold only UTF-8 (rule R2): the rest
            # becomes one lean record, with its newlines in the message
            log["eol"] = ""

    if "lines" in log:
        log["lines"] = rest.count(b"\n")
    return _Rest(orjson.dumps(value), log.get("lines", 1), end - at)
