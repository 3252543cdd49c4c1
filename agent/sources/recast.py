"""Kept runs made anew for a dialect that has no place for the form they are in.

What can be read again is read again. Of a life whose bytes are gone the runs in memory are all
there is, so their bytes are taken out of them; that costs a parse a record, and is seldom needed.
"""

import base64

import orjson

from agent.records.batch import Run, gone
from agent.records.blocks import Encoder
from agent.records.chunk import TextChunk
from agent.records.flatten import EOL, FLAGS, LINE, ORIGINAL
from agent.records.pairs import PairList, PairRecords, pairs_of
from agent.sources.source import Source
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.model.records import DATA, file_bytes


def recast(source: Source, encoder: Encoder) -> None:
    """Let *source*, which has nothing in flight, keep nothing but what *encoder* would make."""
    if not source.kept:
        return
    source.drop_rereadable_runs()
    kept = list(source.kept)
    source.kept.clear()
    for run in kept:
        source.add_runs([run] if run.mark is not None else _anew(run, encoder))


def _anew(run: Run, encoder: Encoder) -> list[Run]:
    """Return *run* in the form of *encoder*, as one run or as several."""
    parsed = [_bytes_of(run, payload) for payload in run.records]
    text, open_end = b"".join(data for data, _ in parsed), parsed[-1][1]
    start, at, previous = position_of(run.previous), 0, run.previous
    runs = list[Run]()
    while at < len(text):  # an encoder may stop where the runs get too many
        for cut in encoder.encode(TextChunk(start + at, text, at, len(text), open_end)):
            at = cut.end - start
            number = run.number if at == len(text) else _number(cut.end, text[:at][-TAIL_BYTES:])
            runs.append(Run(DATA, previous, number, cut.records, cut.events, cut.size, run.read_ms))
            previous = number
    return runs


def _number(position: int, before: bytes) -> int:
    """Return the number of a position with as much as is known of what stands *before* it (rule
    P1).
    """
    return (
        number_of(position, before) if len(before) == min(position, TAIL_BYTES) else gone(position)
    )


def _bytes_of(run: Run, payload: bytes) -> tuple[bytes, bool]:
    """Return the file's bytes in a record of *run*, and whether more of the line follows
    elsewhere.
    """
    if isinstance(run.records, PairRecords | PairList):
        pairs = pairs_of(payload)
        original = pairs.get(ORIGINAL)
        line = pairs[LINE].encode() if original is None else base64.b64decode(original)
        return line + pairs.get(EOL, "\n").encode(), FLAGS in pairs
    value = orjson.loads(payload)
    return file_bytes(value), "flags" in value["log"]
