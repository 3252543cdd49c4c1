"""JSON text made from columns."""

from collections.abc import Mapping, Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import Integers

_ESCAPED = r'["\\\x00-\x1f]'


def json_strings(texts: pa.StringArray) -> pa.StringArray:
    """Return *texts* as JSON strings; null stays null.

    Costs Python for a text with a character that JSON escapes.
    """
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    odd = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not odd.true_count:
        return quoted
    escaped = [orjson.dumps(one).decode() for one in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(escaped, pa.string()))


def json_objects(count: int, values: Mapping[str, pa.StringArray]) -> pa.StringArray:
    """Return *count* objects of keys with JSON texts, without those that are null.

    Null for an object without members.
    """
    if not values:
        return pa.nulls(count, pa.string())
    members = [
        pc.binary_join_element_wise(f",{orjson.dumps(key).decode()}:", value, "")
        for key, value in values.items()
    ]
    # Arrow's null_handling="skip" makes columns of another length where all is null
    objects = pc.binary_join_element_wise(
        "{", *members, "}", "", null_handling="replace", null_replacement=""
    )
    return pc.if_else(pc.equal(objects, "{}"), None, pc.binary_replace_slice(objects, 1, 2, ""))


def json_objects_of_pairs(
    count: int, rows: Integers, keys: pa.StringArray, values: pa.StringArray
) -> pa.StringArray:
    """Return *count* objects from pairs of JSON texts; null for a row that has none.

    *rows* are the objects that the pairs belong to; they never fall.
    """
    members = pc.binary_join_element_wise(keys, values, ":")
    sizes = np.bincount(rows, minlength=count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), members)
    objects = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    return pc.if_else(pa.array(sizes == 0), None, objects)


def read_json_strings(texts: Sequence[str]) -> list[str]:
    """Return what *texts*, JSON strings, say; one that UTF-8 can't hold stays as it is written."""
    try:
        return list(orjson.loads(f"[{','.join(texts)}]"))
    except orjson.JSONDecodeError:  # half of a surrogate pair, in one of them
        return [_read_json_string(text) for text in texts]


def _read_json_string(text: str) -> str:
    try:
        return str(orjson.loads(text))
    except orjson.JSONDecodeError:
        return text[1:-1]
