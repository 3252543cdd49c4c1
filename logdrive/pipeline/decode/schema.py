"""Arrow schemas of the two bronze tables (rule A1); `docs/pipeline.md` explains the columns.

Repeated strings are dictionaries in memory, and plain strings for readers and in parquet.
"""

from typing import Final

import pyarrow as pa

from logdrive.model import records

TIME: Final = pa.timestamp("us", tz="UTC")
LABEL: Final = pa.dictionary(pa.int32(), pa.string())
VARIANT: Final = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""Delta's type VARIANT, as files have it and most readers see it."""
INTERVALS: Final = pa.list_(pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64())]))

EVENTS: Final = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("stream", LABEL, nullable=False),
        pa.field("segment", LABEL, nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("source", LABEL),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("host", LABEL),
        pa.field("path", LABEL),
        pa.field("message", pa.string()),
        pa.field("eol", LABEL),
        pa.field("original", pa.binary()),
        pa.field("form", LABEL),
        pa.field("flag", LABEL),
        pa.field("fields", pa.string()),
        pa.field("time", TIME),
        pa.field("received", TIME),
    ]
)
"""One row per event."""

BATCHES: Final = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("stream", pa.string(), nullable=False),
        pa.field("segment", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("next", pa.int64(), nullable=False),
        pa.field("crc", pa.int64(), nullable=False),
        pa.field("store", pa.string()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("host", pa.string()),
        pa.field("path", pa.string()),
        pa.field("previous", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("kept", INTERVALS),
        pa.field("dropped", INTERVALS),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("skipped", pa.int64(), nullable=False),
        pa.field("read", TIME),
        pa.field("received", TIME),
        pa.field("committed", TIME),
        pa.field("mark_start", pa.int64()),
        pa.field("mark_end", pa.int64()),
        pa.field("mark_reason", pa.string()),
        pa.field("mark_exact", pa.bool_()),
        pa.field("mark_store", pa.string()),
        pa.field("resend", pa.bool_(), nullable=False),
        pa.field("peer", pa.string()),
        pa.field("attributes", pa.string()),
    ]
)
"""One row per batch header, and one per headless record."""


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return *schema* as readers see it, with strings instead of dictionaries."""
    return pa.schema(
        [field.with_type(pa.string()) if field.type.equals(LABEL) else field for field in schema]
    )


# Values of `batches.kind` besides those of `logdrive.model.records.KINDS`.
FOREIGN: Final = "foreign"
HEADLESS: Final = "headless"
COMMAND: Final = "command"
"""A command record of S2, which has no row in `events`."""
TORN: Final = "torn"
"""What is left of a batch of which the service lost a part, as an Iggy may in a crash. Also the
flag of its row in `events`, which keeps what is left in `original`, one record a line.
"""

# Values of `events.flag`, besides `TORN`; null for ordinary rows. The first six keep the record in
# `original`.
NOT_JSON: Final = "not_json"
"""The record is not JSON."""
NOT_OBJECT: Final = "not_object"
"""The record is JSON, but not an object."""
MALFORMED: Final = "malformed"
"""The record is an object that contradicts its form (rule R1)."""
HEADLESS_ROW: Final = "headless"
"""The record is where a header should be (rule R5)."""
INCOMPLETE: Final = "incomplete"
"""The last piece of an event whose other pieces are gone (rule R6)."""
DAMAGED_PACK: Final = "damaged_pack"
"""The record is a pack that can't be opened, or does not hold what its batch says (rule R8)."""
CHANGED: Final = "changed"
"""The message has another length than the event in its file, so it is not the file's bytes (rules
R2, A2).
"""
REDACTED: Final = records.REDACTED
"""The message was changed by the operator's rules, so it is not the file's bytes."""
CUT: Final = "cut"
"""Only a part of the event: the rest came before, in another batch (rule A2)."""
WHOLE: Final = "whole"
"""The message is whole, though a part of it came before: *start* and *end* are those of the new
part (rule A2).
"""
QUARANTINED: Final = (
    HEADLESS_ROW,
    NOT_JSON,
    NOT_OBJECT,
    MALFORMED,
    INCOMPLETE,
    TORN,
    DAMAGED_PACK,
)
"""The flags of rows that could not be decoded."""
