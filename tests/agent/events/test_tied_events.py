"""Events whose lines stand between each other's are in one run, whatever is added to them: an agent
that starts again between them would read bytes of others (R2).
"""

import pytest

from agent.config.events import EventsTable
from agent.events.cutting.make import make_cutter
from agent.events.encoder import EventEncoder
from agent.events.events_of_run import events_of_run
from agent.events.source_events import SourceEvents
from logdrive.records.chunk import TextChunk
from tests.agent.events.cutting.test_containers import cri
from tests.agent.events.test_encoder import OUTPUTS, READ_MS, Steps
from tests.agent.events.test_kept_runs import recast_runs

LINES_TOGETHER = [
    cri("stdout", "\x01" * 9000, partial=True),
    *(cri("stderr", "\x01" * 2000) for _ in range(20)),
    cri("stdout", "b"),
]


@pytest.mark.parametrize("field", ["", "x" * 12_000, "x" * 120_000])
@pytest.mark.parametrize("form", OUTPUTS)
def test_a_run_never_ends_between_them(form: str, field: str) -> None:
    data = b"".join(LINES_TOGETHER) * 8
    table = EventsTable(format="cri")
    steps = Steps({"field": field})
    cutter = make_cutter(table)
    chunk = TextChunk.from_whole_file(data)
    between = [
        event.end for event in cutter.cut_events(chunk, 10_000) if not event.tied and event.parts
    ]
    assert len(between) == 8

    encoding = EventEncoder(SourceEvents(table, steps, [steps]), cutter, OUTPUTS[form])
    runs = encoding.encode_chunk(chunk, 0, READ_MS)
    assert {run.position for run in runs} <= set(between)
    assert sum(run.events for run in runs) == 8 * 21


@pytest.mark.parametrize("before", OUTPUTS)
@pytest.mark.parametrize("after", OUTPUTS)
def test_they_stay_in_one_run_in_another_form(before: str, after: str) -> None:
    some = b"".join([cri("stdout", "a", partial=True), cri("stderr", "b"), cri("stdout", "c")])
    data, table = some * 700, EventsTable(format="cri")
    cutter = make_cutter(table)
    chunk = TextChunk.from_whole_file(data)
    encoding = EventEncoder(SourceEvents(table), cutter, OUTPUTS[before])
    kept = encoding.encode_chunk(chunk, 0, READ_MS)
    runs = recast_runs(kept, after)
    assert runs
    assert {run.position % len(some) for run in runs} == {0}
    # where their lines are is still known
    events = [event for run in runs for event in events_of_run(run, {})]
    assert [event.parts for event in events] == [
        event.parts for event in cutter.cut_events(chunk, 10_000)
    ]
