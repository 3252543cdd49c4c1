"""Makes events of the records of a run, for another form. Parses each record: needed seldom."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from agent.events.cutter import event_of_line
from agent.events.event import Event
from agent.events.formats.json_lines import with_exact_numbers
from agent.events.record_parts import OWN_LOG_KEYS, TIMESTAMP, time_text
from logdrive.model.numbers import position_of
from logdrive.model.records import file_bytes
from logdrive.packs.cuts import split_cuts
from logdrive.packs.pack import PackForm
from logdrive.records.flatten import (
    ENCODING,
    END,
    EOL,
    FILE,
    FLAGS,
    HOST,
    LINE,
    OFFSET,
    ORIGIN,
    ORIGINAL,
    PARTS,
    RAW,
    TAGS,
)
from logdrive.records.pairs import PairList, PairRecords, decode_pairs
from logdrive.records.run_pack import RunPack
from logdrive.records.runs import Run


def events_of_run(run: Run, labels: Mapping[str, Any]) -> list[Event]:
    """Return the events of *run*, whose records were made of events.

    *labels* are the fields that the operator gives each event: they are no event's own.
    """
    records = run.records
    if isinstance(records, RunPack):
        if records.form is PackForm.CUT_TEXT:
            return list(_cut_events(records.content, position_of(run.previous)))
        records = records.records
    if isinstance(records, PairList | PairRecords):
        return _tied([_event_of_pairs(decode_pairs(payload), labels) for payload in records])
    read = time_text(run.read_ms)
    values = [(orjson.loads(payload), payload) for payload in records]
    events = [
        _event_of_record(with_exact_numbers(value, payload.decode()), labels, read)
        for value, payload in values
        if "lengths" not in value  # what was left out
    ]
    return _tied(events)


def _tied(events: list[Event]) -> list[Event]:
    """Return *events*; those whose lines lie between each other's are tied again."""
    reach = 0
    for event in events:
        reach = max([reach, *(end for _, end in event.parts)])
        event.tied = event.end < reach
    return events


def _cut_events(content: bytes, at: int) -> Iterator[Event]:
    """Yield the events of a pack of text with lengths, which begins *at* a position."""
    lengths, text = split_cuts(content)
    used = 0
    for length in lengths:
        if length > 0:
            data = text[used : used + length]
            used += length
            eol = "\n" if data.endswith(b"\n") else ""
            yield event_of_line(at, data[: len(data) - len(eol)], eol)
        at += abs(length)


def _event_of_record(value: dict[str, Any], labels: Mapping[str, Any], read: str | None) -> Event:
    """Return the event of a lean or full record; *read* is when it was read, as text."""
    log: dict[str, Any] = value.pop("log")
    event: dict[str, Any] = value.pop("event", {})
    for key in ("host", "agent", "@metadata", "tags"):
        value.pop(key, None)
    below = {key: one for key, one in value.pop("fields", {}).items() if key not in labels}

    made = Event(log["offset"], 0, value.pop("message"), log.get("eol", "\n"))
    if "original_base64" in event:
        made.original = base64.b64decode(event.pop("original_base64"))
    elif "original" in event:
        made.original = event.pop("original").encode()
    made.encoding = log.get("encoding", "")
    made.flags = tuple(log.get("flags", ()))
    made.parts = tuple((start, end) for start, end in log.get("parts", ()))
    made.end = log["end"]

    if value.get(TIMESTAMP) == read:
        value.pop(TIMESTAMP, None)
    made.fields = value
    own = {key: one for key, one in log.items() if key not in OWN_LOG_KEYS}
    for key, one in (("log", own), ("event", event), ("fields", below)):
        if one:
            made.fields[key] = one
    return made


def _event_of_pairs(pairs: dict[str, str], labels: Mapping[str, Any]) -> Event:
    """Return the event of a record of pairs; its fields keep their names with dots."""
    original = pairs.pop(RAW, None)
    exact = pairs.pop(ORIGINAL, None)
    event = Event(int(pairs.pop(OFFSET)), 0, pairs.pop(LINE), pairs.pop(EOL, "\n"))
    if exact is not None:
        event.original = base64.b64decode(exact)
    elif original is not None:
        event.original = original.encode()
    event.encoding = pairs.pop(ENCODING, "")
    event.flags = tuple(filter(None, pairs.pop(FLAGS, "").split(",")))
    parts = filter(None, pairs.pop(PARTS, "").split(","))
    event.parts = tuple(
        (int(start), int(end)) for start, _, end in (p.partition("-") for p in parts)
    )
    end = pairs.pop(END, None)
    event.end = int(end) if end is not None else event.start + _size(event)
    for key in (HOST, FILE, ORIGIN, TAGS):
        pairs.pop(key, None)
    event.fields = {key: value for key, value in pairs.items() if key not in labels}
    return event


def _size(event: Event) -> int:
    """Return the bytes of an event that has all of them."""
    log = {"end": 0, "eol": event.eol, "encoding": event.encoding or "utf-8"}
    if event.original is not None:
        return len(event.original) + len(event.eol.encode())
    return len(file_bytes({"log": log, "message": event.message}))
