"""Columns and places of the gold tables; `docs/gold.md` explains them.

Their rows are parts: each step adds those of the lines that it has read. A reader adds up the rows
with the same keys; sums, least and greatest values of the parts are those of the whole.
"""

import os
from typing import Final

import pyarrow as pa

from logdrive.pipeline.decode.schema import TIME

MINUTES: Final = "minutes"
LATENCIES: Final = "latencies"
TALKERS: Final = "talkers"
ERRORS: Final = "errors"

_KEYS = [pa.field("service", pa.string()), pa.field("table", pa.string())]
_COUNTS = [
    pa.field("lines", pa.int64(), nullable=False),
    pa.field("errors", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
]

GOLD_SCHEMAS: Final = {
    MINUTES: pa.schema(
        [
            pa.field("minute", TIME),
            *_KEYS,
            *_COUNTS,
            pa.field("timed", pa.int64(), nullable=False),
            pa.field("seconds", pa.float64(), nullable=False),
        ]
    ),
    LATENCIES: pa.schema(
        [
            pa.field("minute", TIME),
            *_KEYS,
            pa.field("seconds", pa.float64(), nullable=False),
            pa.field("lines", pa.int64(), nullable=False),
        ]
    ),
    TALKERS: pa.schema([pa.field("hour", TIME), *_KEYS, pa.field("client", pa.string()), *_COUNTS]),
    ERRORS: pa.schema(
        [
            *_KEYS,
            pa.field("fingerprint", pa.string(), nullable=False),
            pa.field("times", pa.int64(), nullable=False),
            pa.field("first", TIME),
            pa.field("last", TIME),
            pa.field("source", pa.string()),
            pa.field("start", pa.int64()),
            pa.field("message", pa.string()),
        ]
    ),
}
"""By table."""

GOLD_KEYS: Final = {
    MINUTES: ("minute", "service", "table"),
    LATENCIES: ("minute", "service", "table", "seconds"),
    TALKERS: ("hour", "service", "table", "client"),
    ERRORS: ("service", "table", "fingerprint"),
}
"""By table: the columns by which a reader adds up rows."""

ADDING: Final = {
    "lines": "sum",
    "errors": "sum",
    "bytes": "sum",
    "timed": "sum",
    "seconds": "sum",
    "times": "sum",
    "first": "min",
    "last": "max",
    "source": "first",
    "start": "first",
    "message": "first",
}
"""How the values of a column that is no key are added up."""


def gold_directory(directory: str) -> str:
    """Return where the gold tables are in *directory*, that of all tables."""
    return os.path.join(os.path.abspath(directory), "gold")
