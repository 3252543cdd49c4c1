"""Encodes events as records: what an input becomes that does more than ship lines as they are.

A chunk is cut into events, these get fields, some are changed or dropped (`SourceEvents`), and the
rest becomes records of the connection's form. Where events turn out to be nothing but the file's
own bytes, as multiline ones, a receiver that takes packs gets these, and the lengths (rule R8).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agent.events.cutter import EventCutter
from agent.events.event import Event
from agent.events.event_runs import EventRuns
from agent.events.forms import EventForm
from agent.events.large_events import LEFT_OUT, divide_event
from agent.events.source_events import SourceEvents
from logdrive.model.limits import RECORD_BYTES
from logdrive.model.numbers import position_of
from logdrive.model.records import DATA
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PackForm
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.dropped import DroppedForm
from logdrive.records.run_pack import Packing, RunPack, packed_size
from logdrive.records.runs import Run, number_without_check

MOST_EVENTS: Final = 16_384
"""Events that are made at once: more would block the event loop for long."""


@dataclass(frozen=True, slots=True)
class EventOutput:
    """How events travel on a connection."""

    form: EventForm
    """What one event becomes."""

    packing: Packing | None
    """How runs are packed; None if they are not."""

    dropped: DroppedForm
    """What says that bytes were left out."""

    text: bool = False
    """Whether events that are the file's own bytes may travel as a pack of these."""


class EventEncoder:
    """Encodes the events of one source for one connection."""

    chunk_bytes = longest_line = CHUNK_BYTES

    def __init__(
        self, source_events: SourceEvents, cutter: EventCutter, output: EventOutput
    ) -> None:
        self._source_events = source_events
        self._cutter = cutter
        self._output = output

    def encode_chunk(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or for its beginning if it has many events."""
        events, reached = self._source_events.read_events(self._cutter, chunk, MOST_EVENTS)
        output = self._output
        if output.text and output.packing is not None and all(map(_is_text, events)):
            return [_text_run(chunk, events, previous, reached, read_ms, output.packing)]
        return self._encode_events(events, reached, previous, chunk.number_at, read_ms)

    def encode_run(self, run: Run, events: Sequence[Event]) -> list[Run]:
        """Return *events*, which are those of *run* in another form, as runs of this form.

        They end at the same number, and leave out the same bytes.
        """

        def number_at(position: int) -> int:
            # the bytes before it may be gone
            return run.number if position == run.position else number_without_check(position)

        return self._encode_events(events, run.position, run.previous, number_at, run.read_ms)

    def _encode_events(
        self,
        events: Sequence[Event],
        reached: int,
        previous: int,
        number_at: Callable[[int], int],
        read_ms: int,
    ) -> list[Run]:
        """Return *events*, in the order of their file, as runs; none is lost, however long."""
        output, form = self._output, self._output.form
        runs = EventRuns(
            previous,
            number_at,
            read_ms,
            packing=output.packing,
            dropped=output.dropped,
            new_list=form.new_list,
        )
        tied: list[Event] = []
        for event in events:
            if event.tied or tied:
                tied.append(event)
                if not event.tied:
                    self._add_tied(runs, tied, read_ms)
                    tied = []
            else:
                self._add_event(runs, event, read_ms)
        # the last one was dropped
        self._add_tied(runs, tied, read_ms)
        return runs.finish_runs(reached)

    def _add_event(self, runs: EventRuns, event: Event, read_ms: int) -> None:
        form = self._output.form
        record = _encode(form, event, read_ms)
        if record is not None:
            runs.add_event(record, event)
            return
        for part in divide_event(event):
            runs.add_event(form.encode_event(part, read_ms), part)

    def _add_tied(self, runs: EventRuns, events: Sequence[Event], read_ms: int) -> None:
        """Add *events*, which must be in one run: without their fields if it has no room for them.

        The cutter limits the bytes of such events, not what formats and processors add to them.
        """
        form = self._output.form
        records = [_encode(form, event, read_ms) for event in events]
        if not runs.fit_in_one(records):
            for event in events:
                event.fields = dict(LEFT_OUT)
            records = [_encode(form, event, read_ms) for event in events]
        for event, record in zip(events, records, strict=True):
            if record is not None:
                runs.add_event(record, event)
            else:
                self._add_event(runs, event, read_ms)


def _encode(form: EventForm, event: Event, read_ms: int) -> bytes | None:
    """Return the record of *event*; None if it would be none (rule R3)."""
    try:
        record = form.encode_event(event, read_ms)
    except (TypeError, ValueError):
        return None
    return record if len(record) <= RECORD_BYTES else None


def _is_text(event: Event) -> bool:
    """Return whether *event* is nothing but the file's own bytes."""
    return (
        not event.fields
        and not event.flags
        and event.time_ms is None
        and not event.encoding
        and not event.parts
        # readers of text know these line ends
        and event.eol in ("\n", "\r\n", "")
        # else its message is only a part of its bytes, or these are of another encoding
        and (event.original is None or event.original.decode(errors="replace") == event.message)
    )


def _text_run(
    chunk: TextChunk,
    events: list[Event],
    previous: int,
    reached: int,
    read_ms: int,
    packing: Packing,
) -> Run:
    """Return *events*, the file's own bytes, as one pack of text with lengths (rule R8)."""
    at, zero, data = position_of(previous), chunk.start - chunk.begin, chunk.data
    lengths, parts = list[int](), list[bytes]()
    for event in events:
        if event.start > at:
            lengths.append(at - event.start)
        at = event.end - event.left_out
        lengths.append(at - event.start)
        parts.append(data[event.start - zero : at - zero])
    if reached > at:
        lengths.append(at - reached)
    content = join_cuts(lengths, b"".join(parts))
    number = chunk.number_at(reached)
    skipped = -sum(length for length in lengths if length < 0)
    pack = RunPack(PackForm.CUT_TEXT, content, packing)
    size = packed_size(len(content))
    return Run(
        DATA,
        previous,
        number,
        pack,
        len(events),
        size,
        read_ms,
        skipped=skipped,
        of_events=True,
    )
