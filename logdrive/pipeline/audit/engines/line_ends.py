"""Finds rows that continue the line of another row, which has no line end (`count_continuing`).

A row's key is made of its source, its file and a position. The row that continues a line has, with
its start, the key that the other one has with its end. Keys are 64-bit hashes, so that a set of
them is a sorted array.
"""

from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.position_hash import mix_number
from logdrive.pipeline.decode.schema import FOREIGN

Keys = npt.NDArray[np.uint64]

END_COLUMNS: Final = ("source", "form", "path", "start", "end", "eol")
"""The columns of `events` that ends are read from."""
START_COLUMNS: Final = ("source", "form", "path", "start")
"""The columns of `events` that are compared with ends."""
ENDS: Final = pa.schema([("source", pa.string()), ("position", pa.int64()), ("key", pa.uint64())])
"""Where rows without a line end have their ends, each once."""


def unended_ends(rows: pa.RecordBatch) -> pa.Table:
    """Return `ENDS` of *rows*, which have `END_COLUMNS`."""
    unended = rows.filter(
        pc.and_kleene(
            pc.equal(rows["eol"].cast(pa.string()), ""),
            pc.and_(rows["start"].is_valid(), rows["end"].is_valid()),
        )
    )
    keys = _keys(unended, unended["end"])
    _, first = np.unique(keys, return_index=True)
    found = [unended["source"].cast(pa.string()), unended["end"], pa.array(keys)]
    return pa.table(found, schema=ENDS).take(pa.array(first))


def count_continuing(rows: pa.RecordBatch, ends: Keys) -> dict[str, int]:
    """Return, by source, how many of *rows* begin at one of *ends*, which are sorted.

    *rows* have `START_COLUMNS`.
    """
    rows = rows.filter(pc.and_(rows["start"].is_valid(), rows["source"].is_valid()))
    keys = _keys(rows, rows["start"])
    places = np.minimum(np.searchsorted(ends, keys), max(0, len(ends) - 1))
    found = ends[places] == keys if len(ends) else np.zeros(len(keys), np.bool_)
    counts = rows["source"].filter(pa.array(found)).value_counts()
    return {one["values"]: one["counts"] for one in counts.to_pylist()}


def _keys(rows: pa.RecordBatch, positions: pa.Array) -> Keys:
    keys = mix_number(positions.to_numpy().view(np.uint64)) ^ _text_hashes(rows["source"])
    form = rows["form"]
    if FOREIGN not in form.dictionary.to_pylist():
        return keys
    foreign = pc.equal(form.cast(pa.string()), FOREIGN).fill_null(False)
    of_file = np.where(foreign.to_numpy(zero_copy_only=False), _text_hashes(rows["path"]), 0)
    return keys ^ mix_number(of_file.astype(np.uint64))


def _text_hashes(labels: pa.DictionaryArray) -> Keys:
    """Return a hash of each of *labels*, 0 for null and for the empty text."""
    known = [
        int.from_bytes(blake2b(label.encode(), digest_size=8).digest()) if label else 0
        for label in labels.dictionary.to_pylist()
    ]
    codes = labels.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    hashes: Keys = np.array([*known, 0], np.uint64)[codes]
    return hashes
