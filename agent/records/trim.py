"""Runs that can't be read again, told from another number on (rules D3, D5, P4): what the store has
already is cut off, to the byte.
"""

import base64
from dataclasses import replace
from typing import Any

import orjson

from agent.records.batch import Run, end_run, gap_run
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.numbers import is_closed, position_of
from logdrive.model.records import END, GAP, file_bytes


def rebased(run: Run, previous: int) -> Run:
    """Return *run* from another *previous* number on, which must lie before its end.

    Costs a parse a record, and is seldom needed.
    """
    if run.previous == previous:
        return run
    if run.kind == GAP and run.mark is not None:
        return gap_run(previous, run.number, run.mark, run.read_ms)
    if run.kind == END and run.mark is not None:
        return end_run(previous, run.mark, run.read_ms)
    records, events = list[bytes](), 0
    for payload in run.records:
        later = _from(payload, position_of(previous))
        if later is not None:
            records.append(later[0])
            events += later[1]
    return replace(
        run,
        previous=previous,
        records=records,
        events=events,
        size=sum(map(len, records)) + EVENT_HEAD * len(records),
    )


def rebased_all(runs: list[Run], previous: int) -> list[Run]:
    """Return what is left of *runs*, which follow one another, where the store has reached
    *previous*.
    """
    left: list[Run] = []
    for run in runs:
        if is_closed(run.number) or run.position > position_of(previous):
            left.append(rebased(run, previous))
            previous = run.number if run.kind != END else previous
    return left


def _from(payload: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the part of a data record from position *at* on and its events; None where nothing is
    left of it.
    """
    value: dict[str, Any] = orjson.loads(payload)
    log = value["log"]
    start, data = log["offset"], file_bytes(value)
    if start + len(data) <= at:
        return None
    if start >= at:
        return payload, log.get("lines", 1)
    log["offset"], rest = at, data[at - start :]
    if "lines" not in log:
        eol: str = log.get("eol", "\n")
        if len(rest) < len(eol):  # it begins within CR LF
            log["eol"] = eol = rest.decode()
        rest = rest.removesuffix(eol.encode())
    value.pop("event", None)
    try:
        value["message"] = rest.decode()
    except UnicodeDecodeError:
        value["message"] = rest.decode(errors="replace")
        value["event"] = {"original_base64": base64.b64encode(rest).decode()}
        if log.pop("lines", None) is not None:
            log["eol"] = ""  # one event of its own kind: a block can't carry such bytes (rule R2)
    if "lines" in log:
        log["lines"] = rest.count(b"\n")
    return orjson.dumps(value), log.get("lines", 1)
