"""Verifies that `events` has exactly the rows that `batches` says were kept (rule A3).

Runs on sums by batch (`engine`). The method is a path cover, checked by a multiset hash:

- Rows, dropped intervals and kept intervals are edges from their start to their end.
- Every edge goes from a smaller to a larger position, so the graph has no cycle.
- If, at each position, as many edges of rows and dropped intervals begin as end, except at the ends
  of the kept intervals, then they form a path through each kept interval: they tile it, with no gap
  and no overlap.
- Counting edges per position would need a join. Instead positions are hashed, and per batch the
  hashes of starts minus those of ends are summed: the sum over rows and dropped intervals must
  equal the sum over kept intervals. Sums that should differ are equal with a probability of 2^-40
  per batch.

Nothing is sorted, and messages are not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.engines.engine import AuditEngine
from logdrive.pipeline.audit.header_sums import SummedHeaders, sum_headers
from logdrive.pipeline.audit.position_hash import Integers


@dataclass(frozen=True, slots=True)
class Fault:
    """A batch whose rows are not those that its header and the kept intervals require."""

    batch: int
    source: str | None
    path: str | None
    kind: str
    # the bytes of the file that its header speaks of; None if it has no positions
    previous: int | None
    position: int | None
    expected: int  # rows, by the header
    found: int  # rows
    missing_bytes: int
    what: str  # is wrong
    reason: str | None = None  # why a pack can't be opened


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of comparing rows with headers; counts are rows."""

    rows: int
    quarantined: int  # could not be decoded
    cut: int  # hold a part of an event
    whole: int  # hold a whole event, of which a part was there before
    uncommitted: int  # of a commit to `events` without the one to `batches`
    faults: list[Fault]
    unended: int = 0  # without a line end
    redacted: int = 0  # changed by a rule of the agent's
    # rows that could not be decoded, by source; "" is that of rows without one
    quarantined_of: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing_rows(self) -> int:
        """Rows that headers count and `events` lacks."""
        return sum(max(0, fault.expected - fault.found) for fault in self.faults)

    @property
    def surplus_rows(self) -> int:
        """Rows of `events` beyond those that headers count."""
        return sum(max(0, fault.found - fault.expected) for fault in self.faults)


def prove_rows(engine: AuditEngine, headers: pa.Table, erased: pa.Table | None = None) -> Proof:
    """Compare the rows with *headers*, the rows of `batches` with `HEADER_COLUMNS` of
    `header_sums`.

    *erased* are `SUMS` over rows that were removed on purpose: they count as if they were there.

    Open `batches` before `events`, whose commit comes first: rows may then be ahead of headers, but
    never behind.
    """
    sums = engine.sum_rows()
    if erased is not None:
        sums = pa.concat_tables([sums, erased])
    batches = _Batches(sums, sum_headers(headers))
    faults = batches.find_faults()
    if _total(sums, "damaged"):
        reasons = engine.damage_reasons()
        faults = [replace(fault, reason=reasons.get(fault.batch)) for fault in faults]
    faults.sort(key=lambda fault: (fault.source or "", fault.previous or 0, fault.batch))
    return Proof(
        _total(sums, "found"),
        _total(sums, "quarantined"),
        _total(sums, "cut"),
        _total(sums, "whole"),
        batches.count_uncommitted(),
        faults,
        _total(sums, "unended"),
        _total(sums, "redacted"),
        _quarantined_by_source(sums),
    )


def _total(sums: pa.Table, name: str) -> int:
    return int(pc.sum(sums[name]).as_py() or 0)


def _quarantined_by_source(sums: pa.Table) -> dict[str, int]:
    some = sums.filter(pc.greater(sums["quarantined"], 0)).group_by("source")
    counted = some.aggregate([("quarantined", "sum")]).to_pylist()
    return {row["source"] or "": row["quarantined_sum"] for row in counted}


class _Batches:
    """The sums of rows and those of headers, each batch at the same place of every array."""

    def __init__(self, sums: pa.Table, headers: SummedHeaders) -> None:
        ids = sums["batch"].to_numpy()
        self._headers = headers
        self._sums = sums
        # all batches: first those with a header, in their order, then those with rows alone
        known = headers.batch
        order = np.argsort(known)
        near = np.minimum(np.searchsorted(known, ids, sorter=order), max(0, len(known) - 1))
        self._place = order[near] if len(known) else np.zeros(len(ids), np.int64)
        self._committed = known[self._place] == ids if len(known) else np.zeros(len(ids), np.bool_)

    def count_uncommitted(self) -> int:
        """Return how many rows have no header: their commit's second half is missing."""
        return int(self._sums["found"].to_numpy()[~self._committed].sum())

    def find_faults(self) -> list[Fault]:
        """Return the batches with a header of which something is wrong."""
        headers, found = self._headers, self._of_rows("found")
        kept = headers.kept_bytes - headers.dropped_bytes
        lacking = kept - self._of_rows("row_bytes")
        what = self._judge(found, lacking)
        # no more than it had: a damaged file may say of its rows that they end before their start
        missing = np.where(headers.data, np.clip(lacking, 0, np.maximum(0, kept)), 0)
        return [
            Fault(
                int(headers.batch[at]),
                *headers.describe(int(at)),
                max(0, int(headers.expected[at])),  # a damaged header may say anything
                int(found[at]),
                int(missing[at]),
                _WHAT[what[at]],
            )
            for at in np.flatnonzero(what >= 0)
        ]

    def _judge(self, found: Integers, lacking: Integers) -> npt.NDArray[np.int64]:
        """Return for each batch the number of what is wrong in `_WHAT`, -1 if nothing is."""
        headers, data, foreign = self._headers, self._headers.data, self._headers.foreign
        uncut = data & headers.placed & (headers.kept_bytes == headers.wide)
        miscounted = headers.expected != headers.events
        return np.select(
            [
                self._of_rows("damaged") > 0,
                found != headers.expected,
                (foreign | uncut) & miscounted,
                uncut & (headers.dropped_bytes != headers.skipped),
                data & (self._of_rows("unplaced") > 0),
                data & (self._of_rows("empty") > 0),
                data & (self._of_rows("changed") > 0),
                data & (lacking != 0),
                data & (self._of_rows("arrows") != headers.arrows),
            ],
            list(range(len(_WHAT))),
            -1,
        )

    def _of_rows(self, name: str) -> Integers:
        """Return the sums of *name* over the rows of each batch with a header."""
        total = np.zeros(len(self._headers.batch), np.int64)
        values = self._sums[name].to_numpy()
        np.add.at(total, self._place[self._committed], values[self._committed])
        return total


_WHAT = (
    "a pack that does not hold what its header says",
    "rows are missing or duplicated",
    "rows do not match the header",
    "dropped bytes do not match the header",
    "records that contradict their form",
    "rows without bytes",
    "rows that are not the bytes of their file",
    "rows do not fill their interval",
    "rows do not tile their interval",
)
"""What may be wrong with a batch; of several, the first one is said."""
