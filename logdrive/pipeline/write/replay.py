"""Appends rows of bronze to a stream again: each once, also if it is interrupted and repeated.

Each segment that the tables have is a writer, and each of its batches a micro-batch with the
ordinal that it has among them. Batches are only added behind the others, so a repetition goes on
behind the last one that it has appended, and takes along what the tables got since. What was filled
before the beginning of the tables is a part of its own, and a writer.

That holds for one selection of rows. The stream keeps which one a name was first used for
(`selection`), and another one is refused under that name.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.errors import ConfigError, Mistake, StorageError
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.model.units import MIB
from logdrive.pipeline.bronze.beginnings import Beginning, backfill_mark, read_beginnings
from logdrive.pipeline.bronze.erased import read_erased
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.schema import QUARANTINED
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.write.append import OtherRowsError, append_batches, read_place
from logdrive.pipeline.write.appender import writer_id
from logdrive.pipeline.write.batches import BatchOrigin, NumberedBatch, cut_batches
from logdrive.pipeline.write.numbers import NOTHING, AppendPlace
from logdrive.pipeline.write.records import WRITTEN, encode_rows
from logdrive.pipeline.write.selection import keep_selection

_READ_BYTES: Final = 16 * MIB  # stored bytes of batches whose rows are read at once
_READ_ROWS: Final = 400_000  # the same in rows
_MOST_HEADERS: Final = 1000  # and in batches


@dataclass(frozen=True, slots=True)
class ReplayFilter:
    """Which rows are appended again. Times are those of `received`, in ms since 1970."""

    sources: tuple[str, ...] = ()
    """Whole ids of sources; none for all."""
    since: int | None = None
    until: int | None = None
    """The first time that is left out."""

    @property
    def name(self) -> str:
        """Text that is the same for the same filter."""
        return f"{','.join(sorted(set(self.sources)))} {self.since} {self.until}"


@dataclass(slots=True)
class ReplayCounts:
    """What a replay has done, in rows of the tables."""

    rows: int = 0
    """Rows that match, with those that are quarantined, without those that were erased."""
    appended: int = 0


@dataclass(frozen=True, slots=True)
class _Header:
    """A batch of the tables, and its ordinal among those of its part of a segment."""

    ordinal: int
    batch: int
    offset: int
    size: int
    rows: int  # that were not erased


def replay_rows(
    directory: str,
    to: StreamClient,
    where: ReplayFilter,
    on_progress: Callable[[int, int], None],
    *,
    name: str,
    segments: int | None,
    dry_run: bool,
    transport: Transport,
    clock: Clock,
) -> ReplayCounts:
    """Append the rows of bronze in *directory* that match *where* to the stream *to*.

    A repetition under the same *name* appends what is missing. A stream that is not there is made
    with *segments* segments. *on_progress* gets how many rows are done, of all: made ready to be
    appended, appended before, or left out. *dry_run* only counts. Raises `ConfigError` if *name*
    was used for another *where*, `StorageError` if the tables no longer begin with the batches that
    were appended, and what `append_batches` raises.
    """
    events, batches = open_tables(directory)
    counts = ReplayCounts()
    matching = _matching_headers(
        batches.read_rows(_COLUMNS),
        where,
        read_beginnings(directory),
        _count_erased(directory, events),
    )
    counts.rows = sum(map(_count_rows, matching.values()))
    if dry_run or not any(matching.values()):
        return counts

    _require_selection(to, name, where, transport, clock, segments)
    done = 0

    def on_rows(rows: int) -> None:
        nonlocal done
        done += rows
        on_progress(done, counts.rows)

    on_rows(0)
    append = _PartAppender(to, name, where, segments, transport, clock, on_rows)
    for (segment, part), headers in matching.items():
        if headers:
            counts.appended += append.append_part(events.read_rows, segment, part, headers)
    return counts


def _require_selection(
    to: StreamClient,
    name: str,
    where: ReplayFilter,
    transport: Transport,
    clock: Clock,
    segments: int | None,
) -> None:
    """Raise `ConfigError` if the replay *name* was begun with another selection than *where*."""
    key = writer_id(f"selection of replay {name}", "")
    keeping = keep_selection(
        to, key, where.name, transport=transport, clock=clock, segments=segments
    )
    if not asyncio.run(keeping):
        remedy = (
            f"{to.uri} has rows of a replay under this name with other --source, --from or "
            "--until, and these could be in it twice: give the same ones again, or another --name"
        )
        raise ConfigError("replay", [Mistake("--name", name, remedy)])


@dataclass(frozen=True, slots=True)
class _PartAppender:
    """Appends what matches *where* of one part after the other, each as a writer of its own."""

    to: StreamClient
    name: str
    where: ReplayFilter
    segments: int | None
    transport: Transport
    clock: Clock
    on_rows: Callable[[int], None]
    """Called with how many more rows are done."""

    def append_part(
        self,
        read_rows: Callable[..., pa.Table],
        segment: str,
        part: str,
        headers: Sequence[_Header],
    ) -> int:
        """Append the rows of *headers*, which are of *part* of *segment*; return how many it was.

        Those that were appended before are left out. Raises what `replay_rows` raises.
        """
        writer = writer_id(f"replay {self.name} {self.where.name}", part)
        peer = msgspec.json.encode({"identity": self.name, "dialect": "replay", "part": part})
        origin = BatchOrigin(writer, str(uuid5(NAMESPACE_URL, self.to.uri)), msgspec.Raw(peer))
        place = asyncio.run(read_place(self.to, writer, self.transport, self.clock))
        rest = [header for header in headers if header.ordinal >= place.epoch]
        if place != NOTHING and (not rest or rest[0].ordinal != place.epoch):
            raise self._changed_error(segment, place)
        self.on_rows(_count_rows(headers) - _count_rows(rest))
        appending = append_batches(
            self.to,
            writer,
            headers[-1].ordinal,
            _make_batches(read_rows, segment, rest, origin, self.clock.now_ms(), self.on_rows),
            transport=self.transport,
            clock=self.clock,
            segments=self.segments,
            first_epoch=rest[0].ordinal,
        )
        try:
            return asyncio.run(appending).appended
        except OtherRowsError as error:
            raise self._changed_error(segment, place) from error

    def _changed_error(self, segment: str, place: AppendPlace) -> StorageError:
        return StorageError(
            f"batch {place.epoch} of {segment} was replayed last under the name {self.name!r}, and "
            "these tables no longer have it as it was: give another --name"
        )


def _count_rows(headers: Sequence[_Header]) -> int:
    return sum(header.rows for header in headers)


def _count_erased(directory: str, events: AppendTable) -> Counter[int]:
    """Return how many rows of each batch were erased."""
    return Counter(read_erased(directory, events)["batch"].to_pylist())


_COLUMNS: Final = ("batch", "segment", "offset", "bytes", "rows", "source", "received")


def _matching_headers(
    table: pa.Table,
    where: ReplayFilter,
    begun: Mapping[str, Beginning],
    erased: Mapping[int, int],
) -> dict[tuple[str, str], list[_Header]]:
    """Return the batches that match, in their order, by segment and the name of the part of it.

    *erased* is how many rows of each batch were erased, if any.
    """
    found: dict[tuple[str, str], list[_Header]] = {}
    ordinals: dict[tuple[str, str], int] = {}
    ordered = table.sort_by(
        [("segment", "ascending"), ("offset", "ascending"), ("batch", "ascending")]
    )
    # in ms, without objects for times
    received = pc.cast(pc.divide(pc.cast(ordered["received"], pa.int64()), 1000), pa.int64())
    for row, ms in zip(
        ordered.drop_columns(["received"]).to_pylist(), received.to_pylist(), strict=True
    ):
        segment = row["segment"]
        is_before = segment in begun and row["offset"] < begun[segment].offset
        part = (segment, backfill_mark(segment) if is_before else segment)
        ordinal = ordinals[part] = ordinals.get(part, -1) + 1
        headers = found.setdefault(part, [])
        if (
            (where.sources and row["source"] not in where.sources)
            or (where.since is not None and (ms is None or ms < where.since))
            or (where.until is not None and (ms is None or ms >= where.until))
        ):
            continue
        left = row["rows"] - erased.get(row["batch"], 0)
        headers.append(_Header(ordinal, row["batch"], row["offset"], row["bytes"], left))
    return found


def _make_batches(
    read_rows: Callable[..., pa.Table],
    segment: str,
    headers: Sequence[_Header],
    origin: BatchOrigin,
    received: int,
    on_rows: Callable[[int], None],
) -> Iterator[NumberedBatch]:
    """Yield the appends of the rows of *headers*, whose rows *read_rows* reads."""
    for chunk in _chunks(headers):
        columns = [*WRITTEN, "batch", "offset", "ordinal", "flag"]
        near = (
            (pc.field("segment") == segment)
            & (pc.field("offset") >= chunk[0].offset)
            & (pc.field("offset") <= chunk[-1].offset)
        )
        rows = read_rows(columns, near)
        whole = pc.invert(pc.is_in(rows["flag"].cast(pa.string()), pa.array(QUARANTINED)))
        rows = rows.filter(whole).sort_by([("batch", "ascending"), ("ordinal", "ascending")])
        numbers = rows["batch"].combine_chunks()
        for header in chunk:
            first = pc.index(numbers, header.batch).as_py()
            if first >= 0:  # else all of its rows came before, in another batch, or were erased
                count = pc.sum(pc.equal(numbers, header.batch)).as_py()
                records = encode_rows(rows.slice(first, count).combine_chunks().to_batches())
                yield from cut_batches(records, origin, header.ordinal, received)
            on_rows(header.rows)


def _chunks(headers: Sequence[_Header]) -> Iterator[list[_Header]]:
    """Yield runs of *headers* whose rows are read at once."""
    held: list[_Header] = []
    for header in headers:
        held.append(header)
        if (
            sum(one.size for one in held) >= _READ_BYTES
            or sum(one.rows for one in held) >= _READ_ROWS
            or len(held) == _MOST_HEADERS
        ):
            yield held
            held = []
    if held:
        yield held
