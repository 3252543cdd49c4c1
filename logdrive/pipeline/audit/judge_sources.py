"""Judges sources by their headers: which bytes were sent, and which are missing (rule A3)."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.model.dead_letters import DISMISSED
from logdrive.pipeline.audit.heads import Head
from logdrive.pipeline.audit.sources import ON_PURPOSE, AuditedSource, Gap
from logdrive.pipeline.decode.coverage import Interval, subtract, total_size, union
from logdrive.pipeline.decode.schema import FOREIGN, HEADLESS

FIRST_RUN = "first_run"
"""Reason in the mark of an agent that begins at the end of its files (ADR 15); no file's."""
_NOTHING = -(1 << 63)  # below all positions
UNEXPLAINED = "unexplained"
"""Reason of a gap that the audit finds: bytes neither in rows nor in a gap of the agent's."""


def audit_sources(
    rows: Iterable[Head], asked_from: Mapping[str, int] = MappingProxyType({})
) -> list[AuditedSource]:
    """Return every source in *rows* with its gaps and losses, by host and path.

    *asked_from* has the sources of which what lies before a position was not asked for.
    """
    sources: dict[str, AuditedSource] = {}
    gaps: dict[str, list[Head]] = {}
    for row in sorted(rows, key=lambda row: (row.received or 0, row.segment, row.offset)):
        if row.kind == HEADLESS or row.source is None or row.mark_reason == FIRST_RUN:
            continue
        if row.kind == FOREIGN and row.mark_reason == DISMISSED:
            continue  # a person's note about a dead letter: the client did not send it

        source = sources.setdefault(row.source, AuditedSource(row.source))
        _add_head(source, row)
        if row.kind == "gap":
            gaps.setdefault(row.source, []).append(row)
        # the file may have gone on: a gap of unknown length (ADR 5)
        elif row.kind == "end" and row.mark_exact is False:
            gaps.setdefault(row.source, []).append(row._replace(mark_start=row.mark_end))

    for name, source in sources.items():
        _judge_source(source, gaps.get(name, []), asked_from.get(name, 0))
    return sorted(
        sources.values(), key=lambda source: (source.host or "", source.path or "", source.source)
    )


def _add_head(source: AuditedSource, row: Head) -> None:
    """Add one header to its source."""
    # the latest names, the first origin
    source.host, source.path = row.host or source.host, row.path or source.path
    source.origin = source.origin or row.origin
    source.first_heard = source.first_heard or (row.received or 0) // 1000
    source.heard = max(source.heard, (row.received or 0) // 1000)
    source.events += max(0, row.rows)  # a damaged header may count less than none
    source.resend = source.resend or row.resend
    if row.kind != FOREIGN:  # the mark of a foreign batch has bytes of an event, no positions
        source.last = max(source.last, row.position or 0, row.mark_end or 0)

    if row.kind == "end":
        source.state, source.ended = "ended", row.mark_reason
    elif row.kind == FOREIGN:
        source.foreign = True
        source.bytes += max(0, row.bytes)
    elif row.kind == "data":
        source.kept += row.kept or []
        source.dropped += row.dropped


def _judge_source(source: AuditedSource, gaps: list[Head], asked: int) -> None:
    """Find out which bytes of [0, last) are missing, and which are there twice.

    Those before the position *asked* are missing because nobody asked for them.
    """
    # What is in rows, and what the agent was told not to send.
    have = union(source.kept)
    source.skipped_bytes = total_size(union(source.dropped))
    source.bytes += total_size(have) - source.skipped_bytes
    source.doubled_bytes = total_size(source.kept) - total_size(have)
    unwanted = union(
        (gap.mark_start or 0, gap.mark_end or 0) for gap in gaps if gap.mark_reason in ON_PURPOSE
    )
    fine = union([*have, *unwanted])

    lost = _add_reported_gaps(source, gaps, fine)

    # Bytes that are neither in rows nor in a gap: only the audit notices them.
    if not source.foreign:
        told = union([*fine, *((gap.start, gap.end) for gap in source.gaps)])
        not_asked = subtract(union([(0, asked)]), told)
        source.not_asked_bytes = total_size(not_asked)
        source.complete_from = max((end for _, end in not_asked), default=0)
        for start, end in subtract(union([(asked, source.last)]), told):
            lost.append((start, end))
            source.gaps.append(
                Gap(source.source, source.path, start, end, UNEXPLAINED, True, end - start)
            )

    source.lost_at_least = any(gap.end_unseen for gap in source.gaps)
    source.lost_bytes = total_size(lost)
    faulty = [start for start, _ in (*lost, *_first_doubled(source))]
    unseen = [gap.end for gap in source.gaps if gap.end_unseen]
    wrong = [place for place in (*faulty, *unseen) if place >= source.complete_from]
    source.complete_to = min([source.last, *wrong])


def _add_reported_gaps(
    source: AuditedSource, gaps: list[Head], fine: list[Interval]
) -> list[Interval]:
    """Add the gaps that the agent reported; return the bytes that are lost in them.

    Bytes that came after all (*fine*) are not lost, and bytes that are in several gaps are lost
    once.
    """
    known: list[Interval] = []
    all_lost: list[Interval] = []
    for gap in sorted(gaps, key=lambda gap: (gap.mark_start or 0, gap.mark_end or 0)):
        interval = (gap.mark_start or 0, gap.mark_end or 0)
        wanted = gap.mark_reason not in ON_PURPOSE
        lost = subtract(subtract(union([interval]), fine), union(known)) if wanted else []
        known.append(interval)
        all_lost += lost
        source.gaps.append(
            Gap(
                source.source,
                source.path,
                *interval,
                gap.mark_reason or "",
                gap.mark_exact is not False,
                total_size(lost),
            )
        )
    return all_lost


def _first_doubled(source: AuditedSource) -> list[Interval]:
    """Return the first bytes of *source* that batches have twice, if there are any."""
    reached = 0
    for start, end in sorted(source.kept) if source.doubled_bytes else ():
        if start < reached:
            return [(start, min(end, reached))]
        reached = max(reached, end)
    return []


def date_complete_parts(sources: list[AuditedSource], headers: pa.Table) -> None:
    """Find out when the last batch of the complete part of each source was received.

    *headers* are the rows of `batches`.
    """
    by_name = {source.source: source for source in sources if not source.foreign}
    values = headers["source"].combine_chunks().dictionary_encode("encode")
    names, code = values.dictionary.to_pylist(), values.indices.to_numpy()
    if not names:
        return
    # of what is no source of an agent's nothing is complete
    upto = [by_name[name].complete_to if name in by_name else _NOTHING for name in names]
    inside = headers["position"].fill_null(0).to_numpy() <= np.array(upto, np.int64)[code]
    inside &= pc.equal(headers["kind"], "data").to_numpy()
    received = headers["received"].cast(pa.int64()).fill_null(0).to_numpy() // 1000
    since = np.zeros(len(names), np.int64)
    np.maximum.at(since, code[inside], received[inside])
    for name, time_ms in zip(names, since.tolist(), strict=True):
        if name in by_name:
            by_name[name].complete_since = time_ms
