"""`auto` makes the same of a line whenever it is read, and by whichever agent."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.formats import FormatTable
from agent.delivery.source_steps import read_first_events
from agent.events.cutter import LINES
from agent.events.event import Event
from agent.events.formats.auto import FIRST_BYTES, AutoFormat
from agent.events.formats.make import make_format
from agent.sources.readable import Readable
from logdrive.records.chunk import TextChunk

FILL = "x" * 700
JSON = f'{{"a":1,"fill":"{FILL}"}}'
PAIRS = f"a=1 b={FILL}"
TEXT = f"just words and {FILL}"
ACCESS = f'::1 - - [17/May/2015:10:05:03 +0000] "GET /{FILL} HTTP/1.1" 200 5'


def readable(data: bytes) -> Readable:
    """Return a source whose bytes are *data* so far."""

    def read_head(size: int) -> bytes:
        return data[:size]

    return cast(Readable, SimpleNamespace(cutter=LINES, read_head=read_head))


def auto(data: Callable[[], bytes], found: list[str] | None = None) -> AutoFormat:
    def first_events() -> Sequence[Event] | None:
        return read_first_events(readable(data()), FIRST_BYTES)

    notes = [] if found is None else found
    made = make_format(FormatTable(type="auto"), first_events, notes.append)
    assert isinstance(made, AutoFormat)
    return made


def events_from(data: bytes, start: int, end: int) -> list[Event]:
    return LINES.cut_events(TextChunk(start, data, start, end), len(data) + 1)


def fields_of(events: list[Event]) -> list[tuple[int, dict[str, Any]]]:
    return [(event.start, event.fields) for event in events]


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([JSON, PAIRS, TEXT, ACCESS, "", "{}", "a=1"]), max_size=40),
    st.lists(st.tuples(st.integers(0, 41), st.booleans()), max_size=8),
)
def test_a_line_is_read_alike_however_its_file_grew_and_the_agent_restarted(
    lines: list[str], pauses: list[tuple[int, bool]]
) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    whole = events_from(data, 0, len(data))
    auto(lambda: data).parse_events(whole)

    ends = [0, *(event.end for event in whole)]
    seen, at, pieces = b"", 0, list[Event]()

    def grown() -> bytes:
        return seen

    format_now = auto(grown)
    for number, restarts in [*sorted(pauses), (len(whole), False)]:
        seen = data[: ends[min(number, len(whole))]]
        if restarts:
            format_now = auto(grown)
        some = events_from(data, at, len(seen))
        if some:
            format_now.parse_events(some)
        pieces += some
        at = len(seen)
    assert fields_of(pieces) == fields_of(whole)


def test_what_two_thirds_of_the_first_lines_are_all_later_ones_are() -> None:
    found = list[str]()
    data = "".join(f"{line}\n" for line in [*[JSON, PAIRS, JSON] * 8, PAIRS, JSON]).encode()
    events = events_from(data, 0, len(data))
    form = auto(lambda: data, found)
    form.parse_events(events)
    assert (form.name, found) == ("json", ["json"])
    assert events[1].fields == {"a": "1", "b": FILL}
    assert events[-2].fields == {"error": {"message": "not json", "type": "json"}}
    assert events[-1].fields["a"] == 1
    assert (form.counts.parsed, form.counts.failed) == (16 + 1 + 4, len(events) - 16 - 1 - 4)


@pytest.mark.parametrize("lines", [[TEXT] * 30, [JSON, PAIRS, ACCESS] * 10, ["word=1"] * 2000])
def test_without_a_form_of_most_first_lines_later_ones_stay_text(lines: list[str]) -> None:
    found = list[str]()
    data = "".join(f"{line}\n" for line in [*lines, JSON]).encode()
    events = events_from(data, 0, len(data))
    form = auto(lambda: data, found)
    form.parse_events(events)
    assert (form.name, found, events[-1].fields) == ("auto", [], {})


def test_where_the_first_bytes_are_gone_each_line_is_what_it_looks_like() -> None:
    data = "".join(f"{line}\n" for line in [TEXT] * 20 + [JSON, PAIRS]).encode()
    events = events_from(data, 0, len(data))
    auto(lambda: b"").parse_events(events[-2:])
    assert [set(event.fields) for event in events[-2:]] == [{"a", "fill"}, {"a", "b"}]


def test_lines_longer_than_the_first_bytes_are_recognised() -> None:
    line = JSON.replace("xxx", "y" * 50)
    assert len(line) > FIRST_BYTES
    data = f"{line}\n{line}\n".encode()
    events = events_from(data, 0, len(data))
    auto(lambda: data).parse_events(events)
    assert [event.fields["a"] for event in events] == [1, 1]
