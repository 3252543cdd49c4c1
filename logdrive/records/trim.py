"""Trims runs whose bytes can't be read again to what the store lacks (rules D3, D5, P4).

A store may have part of a run already, so the run is made to start at another number: the bytes
before it are cut off, to the byte.
"""

import base64
from dataclasses import replace
from typing import Any

import orjson

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.numbers import is_closed, position_of
from logdrive.model.records import END, GAP, file_bytes
from logdrive.packs.pack import PackForm
from logdrive.records.chunk import TextChunk
from logdrive.records.full_packs import pack_records
from logdrive.records.packed import PackEncoder
from logdrive.records.run_pack import RunPack
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
    if pack is not None and pack.form is not PackForm.RECORDS:
        return _trim_text(run, pack, previous)

    records, events = list[bytes](), 0
    for payload in run.records if pack is None else pack.records:
        later = _trim_record(payload, position_of(previous))
        if later is not None:
            records.append(later[0])
            events += later[1]

    size = sum(map(len, records)) + EVENT_HEAD * len(records)
    rest = replace(run, previous=previous, records=records, events=events, size=size)
    return [rest if pack is None else pack_records(rest, pack.packing)]


def trim_runs(runs: list[Run], previous: int) -> list[Run]:
    """Return what remains of consecutive *runs* after the number *previous*, the store's."""
    left: list[Run] = []
    for run in runs:
        if is_closed(run.number) or run.position > position_of(previous):
            left += trim_run(run, previous)
            # an end closes the number: nothing follows it
            previous = run.number if run.kind != END else previous
    return left


def _trim_text(run: Run, pack: RunPack, previous: int) -> list[Run]:
    text = pack.content[position_of(previous) - position_of(run.previous) :]
    chunk = TextChunk(position_of(previous), text, 0, len(text))
    *runs, last = PackEncoder(pack.packing).encode_chunk(chunk, previous, run.read_ms)
    # the bytes before *previous* are not in the chunk, and the check may need them
    return [*runs, replace(last, number=run.number)]


def _trim_record(payload: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the part of a data record from position *at* on, and its number of events.

    Returns None if the record ends before.
    """
    value: dict[str, Any] = orjson.loads(payload)
    log = value["log"]
    start, data = log["offset"], file_bytes(value)
    # the store has all of it
    if start + len(data) <= at:
        return None
    # the store has nothing of it
    if start >= at:
        return payload, log.get("lines", 1)

    log["offset"], rest = at, data[at - start :]
    if "lines" not in log:
        # a lean or full record: its message lacks the line end
        eol: str = log.get("eol", "\n")
        if len(rest) < len(eol):  # *at* lies between CR and LF
            log["eol"] = eol = rest.decode()
        rest = rest.removesuffix(eol.encode())

    # its Base64 copy is of the whole record
    value.pop("event", None)
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
    return orjson.dumps(value), log.get("lines", 1)
