"""Rebuilds files from their rows, byte for byte (rule R2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.bronze.beginnings import find_unfilled, read_beginnings, time_text
from logdrive.pipeline.bronze.erased import list_erasures, read_erased
from logdrive.pipeline.bronze.tables import open_tables, table_paths
from logdrive.pipeline.decode.coverage import subtract, union
from logdrive.pipeline.decode.schema import BATCHES, DAMAGED_PACK, EVENTS, FOREIGN, REDACTED
from logdrive.pipeline.tables.open_table import open_table
from logdrive.printable import escape_unprintable

COLUMNS = ("start", "end", "message", "eol", "original", "flag", "fields")
"""The columns of `events` that a file is rebuilt from."""

_LISTED = 20  # limit on sources that an error lists


def row_bytes(rows: pa.Table) -> pa.ChunkedArray:
    """Return the bytes that each of *rows* had in its file: original or message, and line end."""
    exact = pc.coalesce(rows["original"], rows["message"].cast(pa.binary()))
    return pc.binary_join_element_wise(exact, rows["eol"].cast(pa.string()).cast(pa.binary()), b"")


def rebuild(rows: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Yield the contiguous pieces of one source's file, as (position, bytes), in order of position.

    *rows* are the source's, with `COLUMNS`. Raises ValueError if rows overlap, were redacted, or
    are not as long as their interval.
    """
    if pc.any(pc.equal(rows["flag"], REDACTED)).as_py():
        raise ValueError("some messages were redacted by the agent, so the file can't be rebuilt")
    rows = place_rows(rows)
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    pieces = rows["bytes"].combine_chunks()

    if not (pc.binary_length(pieces).to_numpy(zero_copy_only=False) == end - start).all():
        raise ValueError("some messages are not the file's own bytes, so it can't be rebuilt")
    if (start[1:] < end[:-1]).any():
        raise ValueError("some rows overlap, so the file can't be rebuilt")

    # rows at which a piece begins: each one behind a gap
    breaks = [0, *(int(n) + 1 for n in (start[1:] > end[:-1]).nonzero()[0]), len(rows)]
    for first, after in pairwise(breaks):
        if first < after:
            yield int(start[first]), b"".join(pieces.slice(first, after - first).to_pylist())


def place_rows(rows: pa.Table) -> pa.Table:
    """Return `start`, `end` and `bytes` of *rows*, which have `COLUMNS`, in order of position.

    An event whose lines do not stand next to each other is several. Raises ValueError for one that
    has not all of them.
    """
    placed = pa.table({"start": rows["start"], "end": rows["end"], "bytes": row_bytes(rows)})
    parted = pc.fill_null(pc.match_substring(rows["fields"], '"parts":['), False)
    if pc.any(parted).as_py():
        elsewhere = _placed_parts(placed.filter(parted), rows["fields"].filter(parted))
        placed = pa.concat_tables([placed.filter(pc.invert(parted)), elsewhere])
    return placed.sort_by("start")


def _placed_parts(rows: pa.Table, fields: pa.ChunkedArray) -> pa.Table:
    """Return the parts of *rows* where they are in the file, as `log.parts` of their *fields* says.

    A container's stdout and stderr may take turns within one event. Raises ValueError for a row
    that has not all of its parts. One that says nothing of the kind is returned as it is.
    """
    starts, ends, pieces = list[int](), list[int](), list[bytes]()
    for row, field in zip(rows.to_pylist(), fields.to_pylist(), strict=True):
        log, data, at = orjson.loads(field).get("log"), row["bytes"], 0
        parts = log.get("parts") if isinstance(log, dict) else None
        for start, end in parts or [(row["start"], row["end"])]:
            starts.append(start)
            ends.append(end)
            pieces.append(data[at : at + end - start])
            at += end - start
        if at != len(data):
            raise ValueError("some rows have only a part of their lines: the file can't be rebuilt")
    values = {"start": starts, "end": ends, "bytes": pieces}
    return pa.table(values, schema=rows.schema)


def source_pieces(directory: str, source: str) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of one source's file from the tables in *directory*, as `rebuild` does.

    A source without rows has none.
    """
    rows = open_table(table_paths(directory)[0], EVENTS).read_rows(
        COLUMNS, (pc.field("source") == source) & pc.field("start").is_valid()
    )
    if rows.num_rows:
        yield from rebuild(rows)


@dataclass(frozen=True, slots=True)
class QuarantinedPart:
    """Bytes of a file that no row has: a row of their batch could not be decoded, or they were
    erased.
    """

    source: str
    path: str | None
    previous: int  # in the file
    position: int  # in the file
    reason: str

    @property
    def text(self) -> str:
        """The part as one line for a person."""
        return (
            f"{self.path or self.source}, bytes {self.previous} to {self.position}: {self.reason}"
        )


def missing_head(directory: str, source: str) -> list[QuarantinedPart]:
    """Return the bytes of one source that lie before the beginning of the tables, and in no row.

    There are none in tables that began with their stream, or are filled before their beginning.
    """
    _, batches = open_tables(directory)
    unfilled = find_unfilled(directory, batches)
    if not unfilled:
        return []
    begun = {one.segment: one.offset for one in read_beginnings(directory).values()}
    columns = ["segment", "offset", "previous", "kept", "mark_start", "mark_end"]
    rows = batches.read_rows(
        columns, (pc.field("source") == source) & pc.field("previous").is_valid()
    ).to_pylist()
    behind = [row["previous"] for row in rows if row["offset"] >= begun.get(row["segment"], 0)]
    known = [(one["start"], one["end"]) for row in rows for one in row["kept"] or ()]
    known += [(row["mark_start"] or 0, row["mark_end"] or 0) for row in rows if not row["kept"]]
    began = time_text(max(part.start_ms for part in unfilled))
    return [
        QuarantinedPart(source, None, start, end, f"received before {began}, when the tables begin")
        for start, end in subtract(union([(0, min(behind, default=0))]), union(known))
    ]


def quarantined_parts(directory: str, source: str) -> list[QuarantinedPart]:
    """Return the batches of one source with quarantined rows, in order, from the tables."""
    events, batches = open_tables(directory)
    rows = events.read_rows(
        ["batch", "flag", "fields"],
        (pc.field("source") == source) & pc.field("start").is_null() & pc.field("flag").is_valid(),
    ).to_pylist()
    if not rows:
        return []
    reasons = {row["batch"]: _quarantine_reason(row["flag"], row["fields"]) for row in rows}
    heads = batches.read_rows(
        ["batch", "path", "previous", "position"],
        (pc.field("source") == source)
        & (pc.field("kind") == "data")
        & pc.field("batch").isin(pa.array(list(reasons), pa.int64())),
    ).sort_by("previous")
    return [
        QuarantinedPart(
            source, head["path"], head["previous"], head["position"], reasons[head["batch"]]
        )
        for head in heads.to_pylist()
    ]


def erased_parts(directory: str, source: str) -> list[QuarantinedPart]:
    """Return the bytes of one source that were erased, in order, from the tables."""
    rows = read_erased(directory, open_tables(directory)[0])
    mine = rows.filter(pc.and_(pc.equal(rows["source"], source), pc.is_valid(rows["start"])))
    if not mine.num_rows:
        return []
    parts = union(zip(mine["start"].to_pylist(), mine["end"].to_pylist(), strict=True))
    last = list_erasures(mine)[-1]
    reason = f"erased by {last.by}" + (f" ({last.why})" if last.why else "")
    return [QuarantinedPart(source, None, start, end, reason) for start, end in parts]


def _quarantine_reason(flag: str, fields: str | None) -> str:
    """Return why a row is quarantined: what its pack lacks, or its flag."""
    error = orjson.loads(fields).get("error") if flag == DAMAGED_PACK and fields else None
    return f"a pack can't be opened: {error['message']}" if error else f"a record is {flag}"


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source with what a user may name it by."""

    source: str
    origin: str | None  # id of the file: several clients may have sent it, each as a source
    host: str | None
    paths: list[str]  # all that the file had, the latest last
    # bytes of the file up to which anything is known, data or a gap; None of a foreign peer
    position: int | None
    heard: datetime  # when the receiver got its last batch

    def __str__(self) -> str:
        path = self.paths[-1] if self.paths else "(no path)"
        if self.position is None:
            what = escape_unprintable(path) if self.paths else "(foreign peer)"
        else:
            name = f"{path} of {self.host or 'an unnamed host'}"
            what = f"{escape_unprintable(name)}, {self.position:,} bytes"
        return f"{self.source}  {what}, last received {self.heard:%Y-%m-%d %H:%M:%S}"


def find_source(directory: str, wanted: str, *, foreign: bool = False) -> str:
    """Return the id of the only source that *wanted* names.

    *wanted* is an id, the latest path of a file, a former path, the beginning of an id, or that of
    an origin id, or all of it; the first of these that fits any source counts. Foreign peers, which
    have no files, are among the sources with *foreign*. Raises ValueError, which lists the
    candidates.
    """
    sources = _known_sources(directory, ["data", "gap", FOREIGN] if foreign else ["data", "gap"])
    ways = (
        [known for known in sources if known.source == wanted],
        [known for known in sources if known.paths[-1:] == [wanted]],
        [known for known in sources if wanted in known.paths],
        [known for known in sources if wanted and known.source.startswith(wanted.lower())],
        [known for known in sources if wanted and (known.origin or "").startswith(wanted.lower())],
    )
    matches = next((way for way in ways if way), [])
    if len(matches) == 1:
        return matches[0].source

    # without a match, list all sources: the user may have mistyped a path
    listed, many = matches or sources, f"{len(matches)} sources" if matches else "no source"
    more = (
        [f"… and {len(listed) - _LISTED:,} more: see `logdrive pipeline audit --json`"]
        if len(listed) > _LISTED
        else []
    )
    candidates = [str(known) for known in listed[:_LISTED]] + more or ["(no file has been read)"]
    raise ValueError(
        "\n  ".join(
            [
                f"{wanted!r} matches {many}; give an id, or enough of its beginning to be unique:",
                *candidates,
            ]
        )
    )


def _known_sources(directory: str, kinds: Sequence[str]) -> list[KnownSource]:
    """Return every source of batches of *kinds*, by path; those of one path by their last batch."""
    names = ["source", "origin", "host", "path"]
    rows = open_table(table_paths(directory)[1], BATCHES).read_rows(
        [*names, "position", "received"], pc.field("kind").isin(list(kinds))
    )
    named = rows.group_by(names, use_threads=False).aggregate(
        [("position", "max"), ("received", "max")]
    )

    # by the time of the last batch, so that the latest path of each source comes last
    sources: dict[str, KnownSource] = {}
    for row in named.sort_by("received_max").to_pylist():
        before = sources.get(row["source"])
        had = before.paths if before else []
        positions = (before.position if before else None, row["position_max"])
        path = [row["path"]] if row["path"] else []
        sources[row["source"]] = KnownSource(
            row["source"],
            row["origin"],
            row["host"],
            [*had, *path],
            max((one for one in positions if one is not None), default=None),
            row["received_max"],
        )
    return sorted(
        sources.values(),
        key=lambda known: (known.paths[-1:], known.host or "", known.heard, known.source),
    )
