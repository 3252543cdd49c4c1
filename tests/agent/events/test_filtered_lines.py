"""Lines that are only dropped by patterns travel as the events that they are, at less cost."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.events.cutter import LINES
from agent.events.encoder import MOST_EVENTS, EventEncoder
from agent.events.filtered_lines import FilteredLinesEncoder
from logdrive.model.numbers import position_of
from logdrive.packs.contents import TextContent, open_run
from logdrive.packs.pack import PackForm
from logdrive.records.chunk import TextChunk
from logdrive.records.run_pack import RunPack
from logdrive.records.runs import Run
from tests.agent.events.processors.steps import Steps
from tests.agent.events.test_encoder import OUTPUTS, PACKING, READ_MS

CHAINS = [
    "{ exclude = { pattern = 'a' } }",
    "{ include = { pattern = 'a|é' } }",
    "{ exclude = { pattern = '^$' } }, { include = { pattern = '[^b]$' } }",
    "{ include = { pattern = 'a' } }, { exclude = { pattern = '^b' } }, "
    "{ include = { pattern = 'c' } }",
]


def _encode(processors: str, chunk: TextChunk, *, fast: bool) -> tuple[list[Run], Steps]:
    steps = Steps(f"processor = [{processors}]")
    events = EventEncoder(steps.source_events, LINES, OUTPUTS["packed"])
    filters = steps.source_events.line_filters
    assert filters is not None
    encoder = FilteredLinesEncoder(filters, PACKING, events) if fast else events
    return encoder.encode_chunk(chunk, chunk.number_at(chunk.start), READ_MS), steps


def _texts(run: Run) -> list[bytes]:
    """Return the events of *run*, with their line ends."""
    assert isinstance(run.records, RunPack)
    content = open_run(
        run.records.pack,
        previous=position_of(run.previous),
        position=run.position,
        events=run.events,
        skipped=run.skipped,
    )
    assert isinstance(content, TextContent)
    if content.lengths is None:
        return content.text.splitlines(keepends=True)
    texts, at = list[bytes](), 0
    for length in content.lengths:
        if length > 0:
            texts.append(content.text[at : at + length])
            at += length
    return texts


@settings(max_examples=100)
@given(
    st.sampled_from(CHAINS),
    st.lists(st.sampled_from([b"", b"a", b"b", b"ab", b"bac", b"c\r", b"\xff", "é".encode()])),
    st.booleans(),
)
@example(CHAINS[0], [b"a", b"b", b"a"], True)
@example(CHAINS[1], [b"b"], True)
def test_the_runs_are_those_of_events(processors: str, lines: list[bytes], ends: bool) -> None:
    data = b"\n".join([*lines, b"b"]) + (b"\n" if ends else b"")
    chunk = TextChunk(7, b"before\n" + data, 7, 7 + len(data))

    fast, counted_fast = _encode(processors, chunk, fast=True)
    slow, counted_slow = _encode(processors, chunk, fast=False)

    assert [(run.position, run.events, run.skipped) for run in fast] == [
        (run.position, run.events, run.skipped) for run in slow
    ]
    assert [_texts(run) for run in fast] == [_texts(run) for run in slow]
    assert counted_fast.counts() == counted_slow.counts()


def test_many_lines_are_encoded_a_part_at_a_time() -> None:
    data = b"a\nb\n" * MOST_EVENTS
    (run,), _ = _encode(CHAINS[0], TextChunk(0, data, 0, len(data)), fast=True)

    assert run.position == 2 * MOST_EVENTS
    assert run.events == MOST_EVENTS // 2
    assert run.skipped == MOST_EVENTS


def test_lines_of_which_none_is_dropped_travel_as_the_text_itself() -> None:
    data = b"b\nc\n"
    (run,), _ = _encode(CHAINS[0], TextChunk(0, data, 0, len(data)), fast=True)

    assert isinstance(run.records, RunPack)
    assert run.records.form is PackForm.TEXT
    assert _texts(run) == [b"b\n", b"c\n"]


@pytest.mark.parametrize(
    "processors",
    [
        "{ exclude = { pattern = 'a', field = 'level' } }",
        "{ exclude = { pattern = 'a' } }, { add = { x = 1 } }",
        "{ exclude = { pattern = '\\Aa' } }",
    ],
)
def test_other_steps_need_events(processors: str) -> None:
    assert not Steps(f"processor = [{processors}]").source_events.line_filters
