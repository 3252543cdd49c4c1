"""Makes rows of the table `batches` from batch headers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef
from logdrive.model.pieces import piece_in_header
from logdrive.pipeline.decode.batches import batch_id
from logdrive.pipeline.decode.coverage import Interval
from logdrive.pipeline.decode.schema import BATCHES, COMMAND, FOREIGN, HEADLESS, TORN

_KNOWN_SOURCES = 10_000  # limit on the attributes that are kept parsed
_LAST_MS = 253_402_300_799_999  # the end of the year 9999, which no date in a table exceeds


@dataclass(slots=True)
class BatchRow:
    """One row of `batches`; `docs/pipeline.md` says what each column means.

    Times are ms since 1970. *kept* is None for batches without positions: foreign ones, gaps, ends.
    """

    batch: int
    stream: str
    segment: str
    offset: int  # of the header record, in the segment
    next: int  # where the next header is
    crc: int  # CRC-32 of the header record
    store: str | None
    kind: str
    source: str | None
    origin: str | None
    host: str | None
    path: str | None
    previous: int | None  # position in the file before the batch
    position: int | None  # position in the file after it
    kept: list[Interval] | None
    records: int
    events: int
    bytes: int
    skipped: int  # bytes of the file that the agent dropped
    read: int | None
    received: int | None
    mark_start: int | None = None
    mark_end: int | None = None
    mark_reason: str | None = None
    mark_exact: bool | None = None
    mark_store: str | None = None
    resend: bool = False
    peer: str | None = None
    attributes: str | None = None
    rows: int = 0
    dropped: list[Interval] = field(default_factory=list)
    committed: int | None = None


class AttributeColumns(NamedTuple):
    """The columns that come from a source's attributes."""

    host: str | None
    path: str | None
    resend: bool
    text: str


class HeaderRows:
    """Makes rows of the headers of one stream.

    All batches of a source have the same attributes, so these are parsed once.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        # attributes in JSON -> their columns
        self._attributes: dict[bytes, AttributeColumns] = {}

    def make_row(self, segment: str, ref: BatchRef) -> BatchRow:
        """Return the row of *ref*.

        The decoder fills in `rows` and `dropped`, and the commit `committed`.
        """
        batch = batch_id(segment, ref.offset, ref.payload)
        if ref.header is None:
            return self._headless_row(segment, ref, batch)
        row = self._header_row(segment, ref, ref.header, batch)
        _set_mark(row, ref.header)
        return row

    def _header_row(self, segment: str, ref: BatchRef, header: BatchHeader, batch: int) -> BatchRow:
        """Return the row of *header*, without the columns of its mark."""
        columns = self._parse_attributes(bytes(header.attributes))
        return BatchRow(
            batch=batch,
            stream=self._stream,
            segment=segment,
            offset=ref.offset,
            next=ref.next,
            crc=ref.crc,
            store=header.store,
            kind=header.kind,
            source=header.source,
            origin=header.origin,
            host=columns.host,
            path=columns.path,
            previous=header.previous,
            position=header.position,
            kept=_claimed_intervals(header),
            records=header.records,
            events=header.events,
            bytes=header.size,
            skipped=header.skipped,
            read=_time(header.read),
            received=_time(header.received),
            resend=columns.resend,
            peer=bytes(header.peer).decode(errors="replace"),
            attributes=columns.text,
        )

    def _headless_row(self, segment: str, ref: BatchRef, batch: int) -> BatchRow:
        """Return the row of a record where a header should be (R5), a torn batch, or a command."""
        return BatchRow(
            batch=batch,
            stream=self._stream,
            segment=segment,
            offset=ref.offset,
            next=ref.next,
            crc=ref.crc,
            store=None,
            kind=COMMAND if ref.command else TORN if ref.torn else HEADLESS,
            source=None,
            origin=None,
            host=None,
            path=None,
            previous=None,
            position=None,
            kept=None,
            records=ref.next - ref.offset if ref.torn else 1,
            events=0 if ref.command else 1,
            bytes=0,
            skipped=0,
            read=None,
            received=None,
        )

    def _parse_attributes(self, raw: bytes) -> AttributeColumns:
        columns = self._attributes.get(raw)
        if columns is None:
            values = _parse_object(raw)
            columns = AttributeColumns(
                _string_or_name(values.get("host")),
                _string_or_name(values.get("path")),
                values.get("resend") is True,
                raw.decode(errors="replace"),
            )
            if len(self._attributes) >= _KNOWN_SOURCES:  # rare: what is in use is parsed again
                self._attributes.clear()
            self._attributes[raw] = columns
        return columns


def _set_mark(row: BatchRow, header: BatchHeader) -> None:
    """Set the columns `mark_…` of *row*: of a piece, a gap, an end, or a note."""
    if header.kind == FOREIGN and (piece := piece_in_header(header)) is not None:
        row.mark_start = piece.start
        row.mark_end = piece.end
        row.mark_reason = piece.event
        row.mark_exact = piece.last
    elif mark := _parse_object(bytes(header.mark)):
        row.mark_start = _integer(mark.get("start"))
        row.mark_end = _integer(mark.get("end"))
        row.mark_reason = _string_or_name(mark.get("reason"))
        row.mark_store = _string_or_name(mark.get("store"))
        row.mark_exact = bool(mark.get("end_exact", True))
        if header.kind == FOREIGN:  # a note about a dead letter: the letter's id
            row.mark_store = _string_or_name(mark.get("letter"))


def _claimed_intervals(header: BatchHeader) -> list[Interval] | None:
    """Return the interval of a data batch; the coverage may cut it later (rule A2)."""
    if header.kind != "data" or header.previous is None or header.position is None:
        return None
    return [(header.previous, header.position)] if header.previous < header.position else []


def _parse_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in *raw*, {} if it is none.

    A header is taken without a look at the text in it, such as whether that is UTF-8.
    """
    if raw in (b"", b"null"):
        return {}
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _time(ms: int) -> int | None:
    """Return *ms*, None if it is no time: a client may say any number."""
    return ms if 0 < ms <= _LAST_MS else None


def _string_or_name(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("name")
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    # a bool is an int in Python, and the column has 64 bits
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
        else None
    )


def batches_table(rows: Iterable[BatchRow]) -> pa.Table:
    """Return *rows* as an Arrow table with the columns `BATCHES`."""
    rows = list(rows)
    columns = []
    for name in BATCHES.names:
        values = [getattr(row, name) for row in rows]
        if name in ("kept", "dropped"):
            values = [
                None if value is None else [{"start": start, "end": end} for start, end in value]
                for value in values
            ]
        elif name in ("read", "received", "committed"):  # ms here, µs in the table
            values = [None if value is None else value * 1000 for value in values]
        columns.append(pa.array(values, BATCHES.field(name).type))
    return pa.table(columns, schema=BATCHES)


def rows_from_table(table: pa.Table) -> list[BatchRow]:
    """Return the rows in a table that `batches_table` made."""
    rows = []
    for values in table.cast(_raw_times(table.schema)).to_pylist():
        for name in ("kept", "dropped"):
            intervals = values[name]
            values[name] = (
                None if intervals is None else [(one["start"], one["end"]) for one in intervals]
            )
        for name in ("read", "received", "committed"):
            values[name] = None if values[name] is None else values[name] // 1000
        values["dropped"] = values["dropped"] or []
        rows.append(BatchRow(**values))
    return rows


def _raw_times(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
            for field in schema
        ]
    )
