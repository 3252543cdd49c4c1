"""Runs as the agent holds them until they are acknowledged: data, gaps, ends (rules R1, P4, G3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from agent.records.blocks import EncodedRun, Records
from agent.records.chunk import TextChunk
from agent.records.pairs import PairList
from logdrive.model import records as record
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.numbers import CLOSED, number_of, position_of
from logdrive.model.records import DATA, END, GAP
from logdrive.wire.lumberjack.frames import json_frames

NOT_WANTED: Final = "not_wanted"
ELSEWHERE: Final = "elsewhere"
TRUNCATED: Final = "truncated"
REMOVED: Final = "removed"
OUT_OF_SIGHT: Final = "out_of_sight"
"""Removed, or moved to where nothing looks, while the agent was there and had no handle on it."""
FIRST_RUN: Final = "first_run"
"""The record that stands for the agent itself: it was here, and decided where files begin."""
UNSURE: Final = "unsure"
"""A life that may have been: what stands in its place began alike, and nobody was there to see."""
LET_GO: Final = "let_go"
"""Deleted, and let go before it came to rest: `keep_removed_days`, `keep_removed_bytes`."""
SHIPPED: Final = "shipped"


@dataclass(frozen=True, slots=True)
class Run:
    """What takes a source from *previous* to *number*. *read_ms* is when its last byte was read."""

    kind: int
    previous: int
    number: int
    records: Sequence[bytes]
    events: int
    size: int
    read_ms: int
    mark: "Mark | None" = None

    @property
    def position(self) -> int:
        """The position that it leads to."""
        return position_of(self.number)

    def frames(self, first: int) -> list[bytes]:
        """Return its records as frames numbered from *first*, in parts to join: D frames for pairs,
        else J frames.
        """
        records = self.records
        return (
            [records.frames(first)]
            if isinstance(records, Records | PairList)
            else json_frames(first, records)
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """What a gap or an end says, so that it can be said anew from another previous number."""

    reason: str
    exact: bool = True
    store: UUID | None = None


def data_runs(chunk: TextChunk, cuts: list[EncodedRun], previous: int, read_ms: int) -> list[Run]:
    """Return the runs of one chunk, the first from *previous* on."""
    runs = []
    for cut in cuts:
        number = chunk.number_at(cut.end)
        runs.append(Run(DATA, previous, number, cut.records, cut.events, cut.size, read_ms))
        previous = number
    return runs


def gap_run(previous: int, number: int, mark: Mark, read_ms: int) -> Run:
    """Return a gap from one number to a greater one (rule P4)."""
    payload = record.gap_record(
        position_of(previous),
        position_of(number),
        mark.reason,
        end_exact=mark.exact,
        store=mark.store,
    )
    return Run(GAP, previous, number, [payload], 0, EVENT_HEAD + len(payload), read_ms, mark)


def end_run(previous: int, mark: Mark, read_ms: int) -> Run:
    """Return the last run of a generation, which closes its number (rules G3, P1)."""
    payload = record.end_record(position_of(previous), mark.reason, end_exact=mark.exact)
    return Run(
        END, previous, previous + CLOSED, [payload], 0, EVENT_HEAD + len(payload), read_ms, mark
    )


def gone(position: int) -> int:
    """Return the number of a position whose bytes are gone."""
    return number_of(position, None)
