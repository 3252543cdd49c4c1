"""JSON texts as Variant: the binary form that a column of Delta's type VARIANT has in its files.

A value is two byte strings: the keys (`metadata`) and what refers to them (`value`), by version 1
of apache/parquet-format, VariantEncoding.md. pyspark's builder writes both. Numbers are integers of
up to 64 bits, decimals of up to 38 digits, or doubles.

What that can't hold is not lost, but a string:

- a number that neither 38 digits nor a double have exactly: its text;
- half of a surrogate pair, which UTF-8 does not have: its escape, as in `\\ud800`;
- a text that is nested deeper than `DEEPEST`, longer than `LONGEST`, or no JSON: as a whole.
"""

import json
import re
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.errors import StorageError
from logdrive.model.units import MIB
from logdrive.pipeline.decode.schema import VARIANT

DEEPEST: Final = 100
"""Arrays and objects in one another; readers go down by calling themselves."""
LONGEST: Final = 4 * MIB
"""Bytes of a JSON text: the builder takes 16 MiB, and many short values grow threefold."""

_DIGITS = 38  # of a decimal
_LONG_STRING = b"\x40"  # header of a primitive, type 16: a size of four bytes, then UTF-8
_NO_KEYS = b"\x01\x00\x00"  # metadata of version 1 with offsets of a byte: no key, which ends at 0
_UNSURE = r"[0-9][0-9.]{38}|[0-9][eE][+-]?[0-9]{3}|[0-9.]{16}[eE]|\\u[dD][89a-fA-F]"
"""Whatever may need a closer look; nearly no text has it."""
_PART = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*|[\[{}\]]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def encode_variants(texts: pa.StringArray) -> pa.StructArray:
    """Return *texts*, each of them JSON, as values of the type `VARIANT`; null stays null.

    Costs Python for each text that differs: some 30 µs for nine pairs of a key and a value.
    """
    from pyspark.sql.variant_utils import VariantBuilder  # 15 MiB, which text does not need

    said = texts.dictionary_encode()
    values, metadata = [], []
    for text, unsure in zip(said.dictionary.to_pylist(), _unsure(said.dictionary), strict=True):
        value, keys = None, _NO_KEYS
        exact = _exact(text) if unsure else text
        if exact is not None:
            try:
                value, keys = VariantBuilder().build(exact)
            except (ValueError, RecursionError):  # which no format makes
                value = None
        values.append(_string(text) if value is None else value)
        metadata.append(keys)
    places = said.indices
    keys_of, value_of = pa.array(metadata, pa.binary()), pa.array(values, pa.binary())
    return _struct(keys_of.take(places), value_of.take(places), places.is_null())


def as_variants(column: pa.StructArray) -> pa.StructArray:
    """Return Variants of another writer's file, or nulls, as those of our files are.

    Raises `StorageError` if parts of the values are columns of their own (VariantShredding.md).
    """
    names = {field.name for field in column.type}
    if names != set(VARIANT.names):
        raise StorageError(
            f"a VARIANT that is shredded can't be written again: it has {', '.join(sorted(names))}"
        )
    return _struct(column.field("metadata"), column.field("value"), column.is_null())


def _struct(
    metadata: pa.BinaryArray, values: pa.BinaryArray, mask: pa.BooleanArray
) -> pa.StructArray:
    """Return Variants, null where *mask* is true: their parts never are, as Parquet has it."""
    parts = [pc.fill_null(part, b"") for part in (metadata, values)]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=mask)


def _unsure(texts: pa.StringArray) -> list[bool]:
    """Return which of *texts* may have something that the builder does not take, or not exactly."""
    opened = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    unsure = pc.or_(
        pc.match_substring_regex(texts, _UNSURE),
        pc.or_(pc.greater(opened, DEEPEST), pc.greater(pc.binary_length(texts), LONGEST)),
    )
    return list(unsure.to_pylist())


def _exact(text: str) -> str | None:
    """Return JSON in which strings stand for what a Variant can't hold; None: it can't hold it."""
    if len(text.encode()) > LONGEST:
        return None
    depth = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal depth
        part = found[0]
        if part in "[{":
            depth += 1
            if depth > DEEPEST:
                raise ValueError
        elif part in "}]":
            depth -= 1
        elif part.startswith('"'):
            return _without_halves(part) if _SURROGATE.search(part) else part
        elif not _is_held(part):
            return f'"{part}"'
        return part

    try:
        return _PART.sub(replace, text)
    except ValueError:
        return None


def _without_halves(string: str) -> str:
    """Return the JSON *string* with the escapes of halves of surrogate pairs as text."""
    said = json.loads(string, strict=False)
    return json.dumps(said.encode("utf-8", "backslashreplace").decode())


def _is_held(number: str) -> bool:
    """Return whether a Variant has *number* exactly."""
    try:
        exact = Decimal(number)
    except ArithmeticError:  # an exponent that not even these have
        return False
    if not {"e", "E"} & set(number):
        _, digits, exponent = exact.as_tuple()
        if len(digits) <= _DIGITS and -int(exponent) <= _DIGITS:
            return True
    return exact == Decimal(repr(float(number)))


def _string(text: str) -> bytes:
    """Return *text* as the value of a Variant."""
    data = text.encode()
    return _LONG_STRING + len(data).to_bytes(4, "little") + data
