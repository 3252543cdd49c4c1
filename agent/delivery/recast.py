"""Re-encodes unacknowledged runs for a dialect that can't carry the form they are in.

Runs whose bytes can be read again are dropped, and read again. Where the bytes are gone, the runs
in memory are all there is: the bytes are taken out of their packs, or out of their records at the
cost of a parse a record. Runs of events become the same events in another form. That happens
seldom.
"""

import base64
from dataclasses import replace
from itertools import zip_longest

import orjson

from agent.events.encoder import EventEncoder
from agent.events.events_of_run import events_of_run
from agent.sources.source import Source
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.model.records import file_bytes
from logdrive.packs.pack import PackForm
from logdrive.records.blocks import Encoder
from logdrive.records.chunk import TextChunk
from logdrive.records.flatten import EOL, FLAGS, LINE, ORIGINAL
from logdrive.records.pairs import PairList, PairRecords, decode_pairs
from logdrive.records.run_pack import RunPack
from logdrive.records.runs import Run, number_without_check


def recast(source: Source, encoder: Encoder) -> None:
    """Re-encode the runs of *source* with *encoder*; none may be in flight.

    Runs of events need an `EventEncoder`: fields, and what was redacted or left out, stay so.
    """
    if not source.unacknowledged:
        return

    source.drop_rereadable_runs()
    labels = {} if source.generation is None else source.generation.settings.fields
    runs: list[Run] = []
    kept = source.unacknowledged.runs
    for run, following in zip_longest(kept, kept[1:]):
        goes_on = following is not None and following.mark is None
        if run.mark is not None:
            runs.append(run)  # gaps and ends have one form: plain dialects leave them out
        elif run.of_events and isinstance(encoder, EventEncoder):
            runs += encoder.encode_run(run, events_of_run(run, labels))
        else:
            runs += _reencode(run, encoder, goes_on=goes_on)
    source.replace_runs(runs)


def _reencode(run: Run, encoder: Encoder, *, goes_on: bool) -> list[Run]:
    """Return the bytes of *run* as runs of *encoder*'s form; *goes_on*: more text follows it."""
    text, open_end = _text_of(run, goes_on=goes_on)
    start, at, previous = position_of(run.previous), 0, run.previous

    runs = list[Run]()
    while at < len(text):  # an encoder may stop early, where the runs get too many
        rest = TextChunk(start + at, text, at, len(text), open_end)
        for recast_run in encoder.encode_chunk(rest, previous, run.read_ms):
            # the bytes before the run are not in the text, so numbers may need another check
            at = recast_run.position - start
            number = run.number if at == len(text) else _number(recast_run.position, text[:at])
            runs.append(replace(recast_run, previous=previous, number=number))
            previous = number
    return runs


def _number(position: int, before: bytes) -> int:
    """Return the number of *position* (rule P1); *before* are the bytes before it in the run.

    Where these are too few for the check, the number says that its bytes are gone.
    """
    tail = before[-TAIL_BYTES:]
    return (
        number_of(position, tail)
        if len(tail) == min(position, TAIL_BYTES)
        else number_without_check(position)
    )


def _text_of(run: Run, *, goes_on: bool) -> tuple[bytes, bool]:
    """Return the file's bytes in *run*, and whether its last line goes on after it."""
    pack = run.records if isinstance(run.records, RunPack) else None
    if pack is not None and pack.form is not PackForm.RECORDS:
        text = pack.content
        # nothing in a pack of text says that its last line is only a part
        return text, goes_on and not text.endswith(b"\n")
    payloads = run.records if pack is None else pack.records
    parsed = [_bytes_of(run, payload) for payload in payloads]
    return b"".join(data for data, _ in parsed), parsed[-1][1]


def _bytes_of(run: Run, payload: bytes) -> tuple[bytes, bool]:
    """Return the file's bytes in a record of *run*, and whether its line goes on after it."""
    if isinstance(run.records, PairRecords | PairList):
        pairs = decode_pairs(payload)
        original = pairs.get(ORIGINAL)
        line = pairs[LINE].encode() if original is None else base64.b64decode(original)
        return line + pairs.get(EOL, "\n").encode(), FLAGS in pairs

    value = orjson.loads(payload)
    return file_bytes(value), "flags" in value["log"]
