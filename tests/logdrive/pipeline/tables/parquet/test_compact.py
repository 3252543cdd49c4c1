"""Structs of Thrift's compact protocol are written as they were read, whatever fields they have."""

import contextlib
import io
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.errors import StorageError
from logdrive.pipeline.tables.parquet.compact import (
    BINARY,
    DOUBLE,
    FALSE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    CompactReader,
    encode_struct,
)

_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    I8: st.binary(min_size=1, max_size=1),
    I16: st.integers(-(2**15), 2**15 - 1),
    I32: st.integers(-(2**31), 2**31 - 1),
    I64: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats().map(lambda value: struct.pack("<d", value)),
    BINARY: st.binary(max_size=300),
}
_numbers = st.integers(1, 20) | st.integers(1, 2**15 - 1)


def _fields_of(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    booleans = st.booleans().map(lambda value: (TRUE if value else FALSE, value))
    return st.dictionaries(_numbers, kinds | booleans, max_size=5)


scalars = st.one_of(
    *(st.tuples(st.just(kind), values) for kind, values in _SCALARS.items()),
)


def _deeper(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.one_of(
        *(
            st.tuples(st.just(kind), st.lists(values, max_size=20))
            for kind, values in _SCALARS.items()
        ),
        st.tuples(st.just(TRUE), st.lists(st.booleans(), max_size=3)),
        st.tuples(st.just(STRUCT), st.lists(fields, max_size=3)),
    )
    lists = st.tuples(st.sampled_from([LIST, SET]), items)
    return _fields_of(scalars | lists | st.tuples(st.just(STRUCT), fields))


structs = st.recursive(_fields_of(scalars), _deeper, max_leaves=8)


@given(structs)
def test_a_struct_comes_back(fields: Any) -> None:
    assert CompactReader(encode_struct(fields)).read_struct() == fields


@given(structs, st.data())
def test_a_struct_that_ends_early_is_refused(fields: Any, data: st.DataObject) -> None:
    whole = encode_struct(fields)
    torn = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(StorageError):
        CompactReader(torn).read_struct()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_refused(data: bytes) -> None:
    with contextlib.suppress(StorageError):
        CompactReader(data).read_struct()


def test_a_footer_of_arrow_comes_back_byte_for_byte() -> None:
    """Of all types, row groups and kinds of metadata that its writer has."""
    rows = pa.table(
        {
            "text": ["a", None, "c"] * 50,
            "number": pa.array(range(150), pa.int64()),
            "ratio": pa.array([0.5] * 150),
            "time": pa.array(range(150), pa.timestamp("us", "UTC")),
            "nested": [{"a": [1, 2], "b": b"x"}] * 150,
        }
    )
    file = io.BytesIO()
    pq.write_table(rows, file, row_group_size=7, write_page_index=True)
    written = file.getvalue()
    size = int.from_bytes(written[-8:-4], "little")
    footer = written[-8 - size : -8]
    assert encode_struct(CompactReader(footer).read_struct()) == footer
