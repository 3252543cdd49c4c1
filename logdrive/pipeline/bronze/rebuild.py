"""Files out of their rows, byte for byte (rule R2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.bronze.tables import open_table, table_paths
from logdrive.pipeline.decode.schema import BATCHES, EVENTS

COLUMNS = ("start", "end", "message", "eol", "original")
"""The columns of `events` that a file is rebuilt from."""

_LISTED = 20  # sources that a refusal names


def row_bytes(rows: pa.Table) -> pa.ChunkedArray:
    """Return what stood in the file for each of *rows*: the exact bytes or the message, and the
    line end.
    """
    exact = pc.coalesce(rows["original"], rows["message"].cast(pa.binary()))
    return pc.binary_join_element_wise(exact, rows["eol"].cast(pa.string()).cast(pa.binary()), b"")


def rebuild(rows: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Yield the contiguous pieces of one source's file, as (position, bytes), in order of position.

    Raises ValueError where rows overlap or are not as long as their interval, as with messages that
    a processor changed.
    """
    rows = rows.select(COLUMNS).sort_by("start")
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    pieces = row_bytes(rows).combine_chunks()
    if not (pc.binary_length(pieces).to_numpy(zero_copy_only=False) == end - start).all():
        raise ValueError("some messages are not the file's own bytes")
    if (start[1:] < end[:-1]).any():
        raise ValueError("some rows overlap")
    breaks = [0, *(int(n) + 1 for n in (start[1:] > end[:-1]).nonzero()[0]), len(rows)]
    for first, after in pairwise(breaks):
        if first < after:
            yield int(start[first]), b"".join(pieces.slice(first, after - first).to_pylist())


def source_pieces(directory: str, source: str) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of one source's file out of the tables in *directory*.

    Raises ValueError where it has no rows, or as `rebuild`.
    """
    rows = open_table(table_paths(directory)[0], EVENTS).read_rows(
        COLUMNS, (pc.field("source") == source) & pc.field("start").is_valid()
    )
    if not rows.num_rows:
        raise ValueError(f"no rows of a source {source}")
    yield from rebuild(rows)


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source as a person may mean it: one life of a file, with every path it had; the last one is
    its latest.
    """

    source: str
    host: str | None
    paths: list[str]
    position: int
    heard: datetime

    def __str__(self) -> str:
        name = (
            f"{self.paths[-1] if self.paths else '(no path)'} of {self.host or 'an unnamed host'}"
        )
        return (
            f"{self.source}  {name}, {self.position:,} bytes, heard of "
            f"{self.heard:%Y-%m-%d %H:%M:%S}"
        )


def find_source(directory: str, wanted: str) -> str:
    """Return the id of the one source that *wanted* means: the beginning of its id, the path it
    has, or one that it had.

    Raises ValueError, which lists what could be meant.
    """
    lives = _known_sources(directory)
    ways = (
        [life for life in lives if life.source == wanted],
        [life for life in lives if life.paths[-1:] == [wanted]],
        [life for life in lives if wanted in life.paths],
        [life for life in lives if wanted and life.source.startswith(wanted.lower())],
    )
    found = next((way for way in ways if way), [])
    if len(found) == 1:
        return found[0].source
    listed, many = found or lives, f"{len(found)} sources" if found else "no source"
    more = (
        [f"… and {len(listed) - _LISTED:,} more: see `logdrive pipeline audit`"]
        if len(listed) > _LISTED
        else []
    )
    there = [str(life) for life in listed[:_LISTED]] + more or ["(none of a file at all)"]
    raise ValueError(
        "\n  ".join(
            [
                (
                    f"{wanted!r} means {many}; give an id, or as much of it as tells it from "
                    "the others:"
                ),
                *there,
            ]
        )
    )


def _known_sources(directory: str) -> list[KnownSource]:
    """Return every source that has positions, by path, those of one path in the order in which they
    were heard of last.
    """
    columns = ["source", "host", "path", "position", "received"]
    rows = open_table(table_paths(directory)[1], BATCHES).read_rows(
        columns, pc.field("kind") == "data"
    )
    named = rows.group_by(["source", "host", "path"], use_threads=False).aggregate(
        [("position", "max"), ("received", "max")]
    )
    lives: dict[str, KnownSource] = {}
    for row in named.sort_by("received_max").to_pylist():
        before = lives.get(row["source"])
        had, position = (before.paths, before.position) if before else ([], 0)
        path = [row["path"]] if row["path"] else []
        lives[row["source"]] = KnownSource(
            row["source"],
            row["host"],
            [*had, *path],
            max(position, row["position_max"]),
            row["received_max"],
        )
    return sorted(
        lives.values(), key=lambda life: (life.paths[-1:], life.host or "", life.heard, life.source)
    )
