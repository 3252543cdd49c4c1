"""The tables that the pipeline makes of the stores' bytes, without Spark and Delta.

Decoding, coverage, cutting and verdict are the pipeline's own code.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.model.units import OffsetUnit
from logdrive.pipeline.audit.audit import Verdict, verdict
from logdrive.pipeline.audit.heads import Head
from logdrive.pipeline.audit.judge_sources import audit_sources
from logdrive.pipeline.audit.verify_rows import Fault, Proof
from logdrive.pipeline.bronze.trim_rows import trim_rows
from logdrive.pipeline.decode.coverage import Coverage, intersect
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import BatchRow
from logdrive.pipeline.decode.schema import DAMAGED_PACK, EVENTS, plain_schema
from tests.simulation.judging.arrivals import covered

_COLUMNS = ("batch", "source", "start", "end", "message", "eol", "original")
_PACKS = ("batch", "original")


@dataclass(frozen=True, slots=True)
class Row:
    """Some bytes of a file, as the table `events` has them."""

    start: int  # position in the file
    end: int
    data: bytes  # the bytes there, made of message, original and line end


@dataclass
class Bronze:
    """Both tables."""

    heads: list[BatchRow] = field(default_factory=list)
    # by source; those of foreign peers have no positions and are left out
    rows: dict[str, list[Row]] = field(default_factory=dict)
    # batch id -> what is left of its packs that could not be opened
    damaged: dict[int, list[bytes]] = field(default_factory=dict)
    # batch id -> intervals of its rows
    _found: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def verdict(self) -> Verdict:
        """Return the audit's verdict on the tables."""
        sources = audit_sources(
            [Head(*(getattr(head, name) for name in Head._fields)) for head in self.heads]
        )
        faults = [fault for head in self.heads if (fault := self._fault(head)) is not None]
        doubled = sum(self._doubled(source.source) for source in sources if source.doubled_bytes)
        return verdict(
            sources, Proof(sum(head.rows for head in self.heads), 0, 0, 0, 0, faults), doubled
        )

    def _doubled(self, source: str) -> int:
        starts = [row.start for row in self.rows.get(source, ())]
        return len(starts) - len(dict.fromkeys(starts))

    def _fault(self, head: BatchRow) -> Fault | None:
        """Compare the rows of a batch with its header (rule A3), as `prove_rows` does in Spark."""
        intervals, what = self._found.get(head.batch, []), None
        if head.kind == "foreign" and head.events != head.rows:
            what = "rows do not match the header"
        elif (
            head.kind == "data"
            and head.previous is not None
            and head.position is not None
            and head.kept is not None
        ):
            kept = sum(end - start for start, end in head.kept)
            intervals = [*intervals, *head.dropped]
            if kept == head.position - head.previous and head.events != head.rows:
                what = "rows do not match the header"
            elif (
                kept != sum(end - start for start, end in intervals)
                or kept != covered(intervals)
                or kept != covered([*intervals, *head.kept])
            ):
                what = "rows do not tile their interval"
        return (
            what
            and Fault(
                head.batch,
                head.source,
                head.path,
                head.kind,
                head.previous,
                head.position,
                head.events,
                head.rows,
                0,
                what,
            )
        ) or None

    def add(
        self, stream: str, segment: str, data: bytes, cover: Coverage, unit: OffsetUnit
    ) -> None:
        """Add the rows of *segment*, whose bytes are *data*, as commits of the pipeline would."""
        decoder, at, used = Decoder(stream, unit), 0, 0
        while True:
            at, more = decoder.decode_batches(segment, at, data[used:])
            self._take(decoder, cover)
            used += more
            if not more:
                return

    def _take(self, decoder: Decoder, cover: Coverage) -> None:
        """Add what *decoder* has, without what is covered already."""
        events, heads = decoder.take_tables()
        self.heads += heads

        # batches of which not all is new
        partial: dict[int, BatchRow] = {}
        for head in heads:
            if (
                head.kind == "data"
                and head.source is not None
                and head.previous is not None
                and head.position is not None
            ):
                kept = cover.cover_interval(head.source, head.previous, head.position)
                if kept != head.kept:
                    head.kept, head.dropped = kept, intersect(head.dropped, kept)
                    partial[head.batch] = head

        kept = _kept(events, partial)
        for batch, source, row in _rows(kept):
            self.rows.setdefault(source, []).append(row)
            self._found.setdefault(batch, []).append((row.start, row.end))
        packs = kept.filter(pc.equal(kept["flag"], DAMAGED_PACK))
        for batch, pack in zip(*(packs[name].to_pylist() for name in _PACKS), strict=True):
            self.damaged.setdefault(batch, []).append(pack)


def bronze_of(
    stream: str, segments: Mapping[tuple[str, str], bytearray], unit: OffsetUnit = "bytes"
) -> Bronze:
    """Return the tables of *segments*, whose bytes are given by store and name.

    Where offsets count records, the bytes are those that the pipeline's reader makes of them.
    """
    bronze, cover = Bronze(), Coverage()
    for (_, segment), data in segments.items():
        bronze.add(stream, segment, bytes(data), cover, unit)
    return bronze


def _kept(events: pa.Table, partial: dict[int, BatchRow]) -> pa.Table:
    """Return *events*, with only the kept rows of the batches in *partial*."""
    if not partial:
        return events
    events = events.cast(plain_schema(EVENTS))
    others = events.filter(
        pc.invert(pc.is_in(events["batch"], value_set=pa.array(list(partial), pa.int64())))
    )
    tables = [others]
    for batch, head in partial.items():
        kept = trim_rows(events.filter(pc.equal(events["batch"], batch)), head.kept or [])
        head.rows = kept.num_rows
        tables.append(kept)
    return pa.concat_tables(tables)


def _rows(events: pa.Table) -> Iterator[tuple[int, str, Row]]:
    columns: list[list[Any]] = [events[name].to_pylist() for name in _COLUMNS]
    for batch, source, start, end, message, eol, original in zip(*columns, strict=True):
        if start is not None and end is not None:
            data = original if original is not None else message.encode()
            yield batch, source, Row(start, end, data + (eol or "").encode())
