"""Rows of a batch of which only a part is new: cut to that part (rule A2).

Seldom needed, so written for the reader.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from logdrive.pipeline.decode.blocks import LINE_ENDS
from logdrive.pipeline.decode.coverage import Interval, intersect
from logdrive.pipeline.decode.schema import CUT, WHOLE

Row = dict[str, Any]


def trim_rows(rows: pa.Table, kept: Sequence[Interval]) -> pa.Table:
    """Return *rows*, all of one batch, as far as they are in *kept*.

    A row across an edge is cut where its message is the file's bytes. Where it is not, the first
    new part keeps the whole message, flagged; so *start* and *end* never overlap those of other
    rows. Rows without positions stay unless nothing is kept.
    """
    found: list[Row] = []
    for row in rows.to_pylist():
        if row["start"] is None or row["end"] is None:
            found += [row] if kept else []
            continue
        parts = intersect([(row["start"], row["end"])], kept)
        if parts == [(row["start"], row["end"])]:
            found.append(row)
        elif parts:
            exact = _file_bytes(row)
            found += (
                [_cut_row(row, exact, part) for part in parts]
                if exact is not None
                else _keep_message(row, parts)
            )
    return pa.Table.from_pylist(found, schema=rows.schema)


def _file_bytes(row: Row) -> bytes | None:
    """Return what stood in the file for *row*, or None where the row can't say."""
    bare = row["original"] if row["original"] is not None else row["message"].encode()
    exact = bytes(bare) + (row["eol"] or "").encode()
    return exact if len(exact) == row["end"] - row["start"] else None


def _cut_row(row: Row, exact: bytes, part: Interval) -> Row:
    start, end = part
    text = exact[start - row["start"] : end - row["start"]]
    eol = (
        next(eol for eol in (*LINE_ENDS[1::-1], "") if text.endswith(eol.encode()))
        if end == row["end"]
        else ""
    )
    bare = text[: len(text) - len(eol)]
    try:
        message, original = bare.decode(), None
    except UnicodeDecodeError:
        message, original = bare.decode(errors="replace"), bare
    return row | {
        "start": start,
        "end": end,
        "message": message,
        "original": original,
        "eol": eol,
        "flag": CUT,
    }


def _keep_message(row: Row, parts: Sequence[Interval]) -> list[Row]:
    first, *others = parts
    empty = {"message": "", "original": None, "eol": "", "flag": WHOLE}
    return [
        row | {"start": first[0], "end": first[1], "flag": WHOLE},
        *(row | empty | {"start": a, "end": b} for a, b in others),
    ]
