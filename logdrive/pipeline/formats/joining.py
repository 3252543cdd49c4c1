"""Rows of lines that were parsed in parts."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from logdrive.pipeline.formats.arrays import Integers
from logdrive.pipeline.formats.format import ParsedLines


def filter_parsed(parsed: ParsedLines, mask: pa.BooleanArray) -> ParsedLines:
    """Return the rows where *mask* is true."""
    return ParsedLines(
        parsed.columns.filter(mask), parsed.time.filter(mask), parsed.reasons.filter(mask)
    )


def join_parsed(parts: Sequence[ParsedLines], places: Integers) -> ParsedLines:
    """Return the rows of *parts*, which belong at *places*."""
    order = pa.array(np.argsort(places, kind="stable"))
    columns = pa.concat_batches([part.columns for part in parts])
    time = pa.concat_arrays([part.time for part in parts])
    reasons = pa.concat_arrays([part.reasons for part in parts])
    return ParsedLines(columns.take(order), time.take(order), reasons.take(order))
