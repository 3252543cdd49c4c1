"""A batch's header as a row of the table `batches`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef
from logdrive.model.pieces import piece_of
from logdrive.pipeline.decode.batches import batch_id
from logdrive.pipeline.decode.coverage import Interval
from logdrive.pipeline.decode.schema import BATCHES, FOREIGN, HEADLESS

_KNOWN_SOURCES = 10_000


@dataclass(slots=True)
class BatchRow:
    """One row of `batches`; times in ms since 1970.

    *kept* is None where there are no positions (foreign batches, marks).
    """

    batch: int
    stream: str
    segment: str
    offset: int
    next: int
    crc: int
    store: str | None
    kind: str
    source: str | None
    origin: str | None
    host: str | None
    path: str | None
    previous: int | None
    position: int | None
    kept: list[Interval] | None
    records: int
    events: int
    bytes: int
    skipped: int
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
    """What a source's attributes say, as the table has it."""

    host: str | None
    path: str | None
    resend: bool
    text: str


class HeaderRows:
    """Makes rows of headers.

    A source's attributes are the same in all of them, so they are parsed once.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._attributes: dict[bytes, AttributeColumns] = {}

    def make_row(self, segment: str, hop: BatchRef) -> BatchRow:
        """Return the row of *hop*; `rows`, `dropped` and `committed` are filled in as the batch
        goes on its way.
        """
        header, batch = hop.header, batch_id(segment, hop.offset, hop.payload)
        if header is None:
            return BatchRow(
                batch=batch,
                stream=self._stream,
                segment=segment,
                offset=hop.offset,
                next=hop.next,
                crc=hop.crc,
                store=None,
                kind=HEADLESS,
                source=None,
                origin=None,
                host=None,
                path=None,
                previous=None,
                position=None,
                kept=None,
                records=1,
                events=1,
                bytes=0,
                skipped=0,
                read=None,
                received=None,
            )
        told = self._parse_attributes(bytes(header.attributes))
        row = BatchRow(
            batch=batch,
            stream=self._stream,
            segment=segment,
            offset=hop.offset,
            next=hop.next,
            crc=hop.crc,
            store=header.store,
            kind=header.kind,
            source=header.source,
            origin=header.origin,
            host=told.host,
            path=told.path,
            previous=header.previous,
            position=header.position,
            kept=_claimed_intervals(header),
            records=header.records,
            events=header.events,
            bytes=header.size,
            skipped=header.skipped,
            read=header.read or None,
            received=header.received,
            resend=told.resend,
            peer=bytes(header.peer).decode(),
            attributes=told.text,
        )
        if header.kind == FOREIGN and (piece := piece_of(header)) is not None:
            row.mark_start, row.mark_end, row.mark_reason, row.mark_exact = (
                piece.start,
                piece.end,
                piece.event,
                piece.last,
            )
        elif mark := _parse_object(bytes(header.mark)):
            row.mark_start, row.mark_end = _integer(mark.get("start")), _integer(mark.get("end"))
            row.mark_reason, row.mark_store = (
                _string_or_name(mark.get("reason")),
                _string_or_name(mark.get("store")),
            )
            row.mark_exact = bool(mark.get("end_exact", True))
            if header.kind == FOREIGN:  # a note about a dead letter: the letter's id
                row.mark_store = _string_or_name(mark.get("letter"))
        return row

    def _parse_attributes(self, raw: bytes) -> AttributeColumns:
        told = self._attributes.get(raw)
        if told is None:
            values = _parse_object(raw)
            told = AttributeColumns(
                _string_or_name(values.get("host")),
                _string_or_name(values.get("path")),
                values.get("resend") is True,
                raw.decode(),
            )
            if len(self._attributes) >= _KNOWN_SOURCES:
                self._attributes.clear()
            self._attributes[raw] = told
        return told


def _claimed_intervals(header: BatchHeader) -> list[Interval] | None:
    """Return what a data batch brings; the cover decides later what of it is kept (rule A2)."""
    if header.kind != "data" or header.previous is None or header.position is None:
        return None
    return [(header.previous, header.position)] if header.previous < header.position else []


def _parse_object(raw: bytes) -> dict[str, Any]:
    if raw in (b"", b"null"):
        return {}
    value = orjson.loads(raw)
    return value if isinstance(value, dict) else {}


def _string_or_name(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("name")
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
        else None
    )


def batches_table(rows: Iterable[BatchRow]) -> pa.Table:
    """Return *rows* as the table's columns."""
    rows = list(rows)
    columns = []
    for name in BATCHES.names:
        values = [getattr(row, name) for row in rows]
        if name in ("kept", "dropped"):
            values = [
                None if value is None else [{"start": start, "end": end} for start, end in value]
                for value in values
            ]
        elif name in ("read", "received", "committed"):
            values = [None if value is None else value * 1000 for value in values]
        columns.append(pa.array(values, BATCHES.field(name).type))
    return pa.table(columns, schema=BATCHES)


def rows_from_table(table: pa.Table) -> list[BatchRow]:
    """Return the rows of a table that `batches_table` made."""
    found = []
    for values in table.cast(_raw_times(table.schema)).to_pylist():
        for name in ("kept", "dropped"):
            intervals = values[name]
            values[name] = (
                None if intervals is None else [(one["start"], one["end"]) for one in intervals]
            )
        for name in ("read", "received", "committed"):
            values[name] = None if values[name] is None else values[name] // 1000
        values["dropped"] = values["dropped"] or []
        found.append(BatchRow(**values))
    return found


def _raw_times(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
            for field in schema
        ]
    )
