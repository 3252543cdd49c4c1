"""The judge of liars: what a lie may harm, and what must be said of it (rule R8)."""

from collections.abc import Sequence

from logdrive.pipeline.audit.audit import Verdict
from logdrive.pipeline.decode.headers import BatchRow
from tests.simulation.judging.arrivals import Batch, arrived, covered
from tests.simulation.judging.bronze import Bronze
from tests.simulation.peers.liars import Liar, LiesSource
from tests.simulation.peers.lies import PackRun


class BelievedError(AssertionError):
    """A lie that was not quarantined, or not named, or that harmed something honest."""


class NotKeptError(AssertionError):
    """A pack that was acknowledged, and is not stored as it was sent."""


def judge_lies(
    liars: Sequence[Liar], batches: Sequence[Batch], bronze: Bronze, verdict: Verdict
) -> None:
    """Compare what *liars* sent with stores and tables. Raises `BelievedError`, `NotKeptError`."""
    for source in (source for liar in liars for source in liar.sources):
        stored = [batch for batch in batches if batch.source == source.source]
        for batch in stored:
            _judge_batch(source, batch)
        have = [(batch.header["previous"], batch.header["position"]) for batch in stored]
        if covered(have) < source.acknowledged:
            raise NotKeptError(f"{source.origin} has {have}, {source.acknowledged} acknowledged")
        _judge_rows(source, bronze, verdict)


def _judge_batch(source: LiesSource, batch: Batch) -> None:
    """Require that *batch* has the pack as it was sent, or the text of an honest one."""
    header = batch.header
    run = _run_at(source, header["previous"])
    if not run.lie:
        (held,) = arrived([batch]).values()
        for start, data in held.pieces:
            if source.text[start : start + len(data)] != data:
                raise NotKeptError(f"{source.origin}: {data[:60]!r} at {start}")
        return
    said = header["previous"], header["position"], header["events"], header["skipped"]
    if run.opens or batch.records == [run.pack]:
        return
    raise NotKeptError(f"{source.origin}: {run.lie}, said as {said}, is not stored as it was sent")


def _judge_rows(source: LiesSource, bronze: Bronze, verdict: Verdict) -> None:
    faults = {fault.batch: fault for fault in verdict.faults if fault.source == source.source}
    for head in (head for head in bronze.heads if head.source == source.source):
        assert head.previous is not None
        run = _run_at(source, head.previous)
        if not run.lie or not head.kept:
            if head.batch in faults:
                raise BelievedError(f"{source.origin}: {faults[head.batch].what}, of an honest run")
        elif head.batch not in faults:
            raise BelievedError(f"{source.origin}: {run.lie} is not named")
        elif not run.opens and bronze.damaged.get(head.batch) != [run.pack]:
            raise BelievedError(f"{source.origin}: {run.lie} is not quarantined as it came")
        elif not run.opens:
            _no_rows_of(head, source, bronze)

    lies = [(run.previous, run.position) for run in source.runs if run.lie]
    for row in bronze.rows.get(source.source, ()):
        if any(start <= row.start < end for start, end in lies):
            continue  # its records can be told apart, and are rows that do not tile
        if source.text[row.start : row.end] != row.data:
            raise BelievedError(f"{source.origin}: a row from {row.start} says {row.data[:60]!r}")


def _no_rows_of(head: BatchRow, source: LiesSource, bronze: Bronze) -> None:
    """Require that nothing was made of the quarantined batch *head* besides its one row."""
    assert head.previous is not None
    assert head.position is not None
    if head.rows != 1:
        raise BelievedError(f"{source.origin}: {head.rows} rows of a quarantined batch")
    if any(
        head.previous <= row.start < head.position for row in bronze.rows.get(source.source, ())
    ):
        raise BelievedError(f"{source.origin}: rows between {head.previous} and {head.position}")


def _run_at(source: LiesSource, position: int) -> PackRun:
    run = next((run for run in source.runs if run.previous <= position < run.position), None)
    if run is None:
        raise NotKeptError(f"{source.origin}: a batch from {position}, where no run was sent")
    return run
