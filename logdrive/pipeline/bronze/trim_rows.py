"""Cuts the rows of a batch to the part that is new (rule A2).

Needed only where something was sent twice, so written for the reader and not for speed.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from logdrive.pipeline.decode.coverage import Interval, intersect
from logdrive.pipeline.decode.lines import LINE_ENDS
from logdrive.pipeline.decode.schema import CUT, REDACTED, WHOLE

Row = dict[str, Any]


def trim_rows(rows: pa.Table, kept: Sequence[Interval]) -> pa.Table:
    """Return the parts of *rows*, all of one batch, that lie in *kept*.

    A row that lies partly in *kept* is cut if its message is the file's bytes. If not, the first
    new part keeps the whole message, with a flag, and further parts have none: *start* and *end*
    never overlap those of other rows. Rows without positions stay unless *kept* is empty.
    """
    trimmed: list[Row] = []
    for row in rows.to_pylist():
        if row["start"] is None or row["end"] is None:
            trimmed += [row] if kept else []
            continue

        parts = intersect([(row["start"], row["end"])], kept)
        if parts == [(row["start"], row["end"])]:
            trimmed.append(row)
        elif parts:  # a row without new parts is left out
            exact = _file_bytes(row)
            trimmed += (
                [_cut_row(row, exact, part) for part in parts]
                if exact is not None
                else _keep_message(row, parts)
            )
    return pa.Table.from_pylist(trimmed, schema=rows.schema)


def _file_bytes(row: Row) -> bytes | None:
    """Return the bytes of *row* in its file, or None if the row does not have them."""
    if row["flag"] == REDACTED:
        return None
    bare = row["original"] if row["original"] is not None else row["message"].encode()
    exact = bytes(bare) + (row["eol"] or "").encode()
    return exact if len(exact) == row["end"] - row["start"] else None


def _cut_row(row: Row, exact: bytes, part: Interval) -> Row:
    start, end = part
    # only the last part of a row can have its line end
    text = exact[start - row["start"] : end - row["start"]]
    eol = (
        next(eol for eol in (*LINE_ENDS[1::-1], "") if text.endswith(eol.encode()))
        if end == row["end"]
        else ""
    )
    bare = text[: len(text) - len(eol)]
    try:
        message, original = bare.decode(), None
    except UnicodeDecodeError:  # cut inside a character, or not UTF-8 before
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
    # one that was redacted is no fault, in parts or not
    flag = REDACTED if row["flag"] == REDACTED else WHOLE
    empty = {"message": "", "original": None, "eol": "", "flag": flag}
    return [
        row | {"start": first[0], "end": first[1], "flag": flag},
        *(row | empty | {"start": a, "end": b} for a, b in others),
    ]
