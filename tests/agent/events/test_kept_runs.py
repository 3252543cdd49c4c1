"""Runs of events that wait, of files that are gone: as other forms, and from another number on
(D3, R1, R2).
"""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.events import EventsTable
from agent.delivery.recast import recast
from agent.events.event import Event
from agent.events.events_of_run import events_of_run
from logdrive.model.numbers import number_of, position_of
from logdrive.model.records import REDACTED
from logdrive.records.pairs import PairList, decode_pairs
from logdrive.records.run_pack import RunPack
from logdrive.records.runs import Run
from logdrive.records.trim import trim_run
from tests.agent.delivery.test_recast import gone
from tests.agent.events.test_encoder import (
    OUTPUTS,
    READ_MS,
    Steps,
    encoder,
    pieces,
    records_of,
    runs_of,
)

LINES = [b"keep\n", b"drop this\n", b"\xff\r\n", "ä\n".encode(), b"drop that\n"]
FIELDS = {"a": {"b": [1, {"c": None}]}, "log": {"level": "info"}, "message": "other"}
NATIVE = [name for name, output in OUTPUTS.items() if output.dropped != "nothing"]
JSON_FORMS = [name for name in OUTPUTS if name != "pairs"]


def recast_runs(kept: list[Run], after: str) -> list[Run]:
    source = gone(kept)
    settings = EventsTable(fields={"service": "web"})
    source.generation = cast(Any, SimpleNamespace(retired=True, settings=settings))
    recast(source, encoder(after))
    return [run for run in source.unacknowledged.runs if run.mark is None]


def places(runs: list[Run]) -> list[tuple[int, bytes]]:
    return [piece for run in runs for piece in pieces(run)]


@pytest.mark.parametrize("before", OUTPUTS)
@pytest.mark.parametrize("after", OUTPUTS)
@settings(max_examples=15)
@given(st.lists(st.sampled_from(LINES), min_size=1), st.booleans())
def test_events_are_the_same_in_another_form(
    before: str, after: str, lines: list[bytes], fields: bool
) -> None:
    data = b"".join(lines)
    kept = runs_of(encoder(before, FIELDS if fields else {}, b"drop"), data, 300)
    runs = recast_runs(kept, after)
    assert places(runs) == places(kept)
    assert (runs[0].previous, runs[-1].number) == (kept[0].previous, kept[-1].number)
    assert all(one.number == other.previous for one, other in pairwise(runs))
    assert sum(run.skipped for run in runs) == sum(run.skipped for run in kept)
    assert {run.read_ms for run in runs} == {READ_MS}
    # not a second time dropped, parsed or processed
    steps = runs_of(encoder(after, FIELDS if fields else {}, b"drop"), data, 300)
    if before in JSON_FORMS and after in JSON_FORMS and fields and places(kept):
        assert [record for run in runs for record in records_of(run)] == [
            record for run in steps for record in records_of(run)
        ]


def test_pairs_of_a_recast_run_have_the_fields_with_dots() -> None:
    kept = runs_of(encoder("packed", FIELDS | {"a.b": 1}), b"one\n")
    (run,) = recast_runs(kept, "pairs")
    direct = runs_of(encoder("pairs", FIELDS | {"a.b": 1}), b"one\n")
    assert isinstance(run.records, PairList)
    assert decode_pairs(run.records[0]) == decode_pairs(direct[0].records[0])


def test_numbers_stay_as_they_were_written() -> None:
    digits = "123456789012345678901234567890"
    kept = runs_of(encoder("packed", {"n": orjson.Fragment(digits.encode())}), b"one\n")
    for form in ("beats", "block"):
        (run,) = recast_runs(kept, form)
        assert f'"n":{digits}'.encode() in run.records[0]


def test_a_redacted_event_stays_redacted_in_another_form() -> None:
    class Redact(Steps):
        def process_events(self, events: list[Event]) -> list[Event]:
            for event in events:
                event.message, event.flags = "***", (REDACTED,)
            return events

    for before in OUTPUTS:
        encoding = encoder(before)
        steps = Redact({})
        encoding._source_events.processors = (steps,)
        (kept,) = runs_of(encoding, b"one\nsecret\n")
        (run,) = recast_runs([kept], "full")
        for record, place in zip(records_of(run), [(0, 4), (4, 11)], strict=True):
            log = record["log"]
            assert (log["offset"], log["end"], log["flags"]) == (*place, [REDACTED])
            assert record["message"] == "***"


@pytest.mark.parametrize("form", NATIVE)
@settings(max_examples=60)
@given(st.lists(st.sampled_from(LINES), min_size=1), st.data(), st.booleans())
def test_a_run_from_another_number_on_has_what_is_kept_after_it__D3(
    form: str, lines: list[bytes], data: st.DataObject, fields: bool
) -> None:
    text = b"".join(lines)
    (run,) = runs_of(encoder(form, FIELDS if fields else {}, b"drop"), text)
    start = data.draw(st.integers(0, len(text) - 1))
    number = number_of(start, text[:start])
    (later,) = trim_run(run, number)
    expected = [
        (max(at, start), line[max(0, start - at) :])
        for at, line in pieces(run)
        if at + len(line) > start
    ]
    assert pieces(later) == expected
    assert (later.previous, later.number) == (number, run.number)
    assert later.events == len(expected)
    kept = sum(len(piece) for _, piece in expected)
    assert later.skipped == len(text) - start - kept
    size = sum(8 + len(payload) for payload in later.records)
    assert size <= later.size if isinstance(later.records, RunPack) else size == later.size


def test_events_of_a_run_are_in_their_places() -> None:
    (run,) = runs_of(encoder("packed", {}, b"drop"), b"drop\none\r\ntwo\xff", 7)
    events = events_of_run(run, {})
    assert [(event.start, event.end, event.eol) for event in events] == [
        (12, 17, "\r\n"),
        (17, 21, ""),
    ]
    assert position_of(run.previous) == 7
