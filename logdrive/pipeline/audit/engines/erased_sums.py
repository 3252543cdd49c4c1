"""What erased rows add to an audit: as much as if they were still in `events`."""

import pyarrow as pa

from logdrive.pipeline.audit.engines.engine import SUMS
from logdrive.pipeline.audit.engines.row_sums import COLUMNS, sum_runs
from logdrive.pipeline.decode.schema import LABEL

_LABELS = ("source", "flag", "eol")


def sum_erased(rows: pa.Table) -> pa.Table:
    """Return `SUMS` over *rows* of the table `erased`."""
    if not rows.num_rows:
        return SUMS.empty_table()
    ordered = rows.sort_by([("batch", "ascending"), ("ordinal", "ascending")])
    columns = [
        ordered[name].combine_chunks().cast(LABEL)
        if name in _LABELS
        else ordered[name].combine_chunks()
        for name in COLUMNS
    ]
    return sum_runs(pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))).select(SUMS.names)
