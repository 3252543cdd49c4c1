"""What Delta's protocol calls types of columns, and what it asks of a table's users."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from logdrive.errors import StorageError
from logdrive.pipeline.decode.schema import VARIANT, plain_schema
from logdrive.pipeline.tables.delta_log import Action, commit_info

_VARIANTS: Final = "variantType"
"""The feature of a table that has a column of the type VARIANT."""
_INVARIANTS: Final = "invariants"
"""The feature of a table that has a column without nulls."""
_WRITER_VERSION = 2  # what a table may ask of its writers
_WRITTEN = {"appendOnly", _INVARIANTS, _VARIANTS}  # likewise: features that our writers have


def delta_schema(schema: pa.Schema) -> DeltaSchema:
    """Return the columns of *schema* as Delta's; Arrow has no type of its own for VARIANT."""
    plain = plain_schema(schema)
    said: dict[str, Any] = orjson.loads(DeltaSchema.from_arrow(plain).to_json())
    for field, type_ in zip(said["fields"], plain.types, strict=True):
        if type_.equals(VARIANT):
            field["type"] = "variant"
    return DeltaSchema.from_json(orjson.dumps(said).decode())


def has_variant(schema: pa.Schema) -> bool:
    """Return whether a column of *schema* is a VARIANT."""
    return any(type_.equals(VARIANT) for type_ in schema.types)


def new_variant_table(
    schema: pa.Schema, partition_by: Sequence[str], properties: Mapping[str, str]
) -> list[Action]:
    """Return the first entry of the log of a table with a column of the type VARIANT.

    delta-rs would leave the feature `invariants` out, without which delta-spark refuses a table
    that has a column without nulls.
    """
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_schema(schema).to_json(),
        "partitionColumns": list(partition_by),
        "configuration": dict(properties),
        "createdTime": time.time_ns() // 1_000_000,
    }
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [_VARIANTS],
        "writerFeatures": [_INVARIANTS, _VARIANTS],
    }
    return [commit_info("CREATE TABLE"), {"protocol": protocol}, {"metaData": metadata}]


def foreign_features(delta: DeltaTable) -> list[str]:
    """Return what the table asks of its readers that we never gave it, such as deletion vectors."""
    protocol = delta.protocol()
    if protocol.min_reader_version > 1 and not protocol.reader_features:
        return [f"version {protocol.min_reader_version}"]
    return sorted(set(protocol.reader_features or ()) - {_VARIANTS})


def check_writable(path: str, delta: DeltaTable) -> None:
    """Raise `StorageError` if the table at *path* asks more of its writers than we do."""
    protocol = delta.protocol()
    features = set(protocol.writer_features or ()) - _WRITTEN
    if protocol.min_writer_version > _WRITER_VERSION and (features or not protocol.writer_features):
        named = ", ".join(sorted(features)) or f"version {protocol.min_writer_version}"
        raise StorageError(
            f"{path} was given features of Delta that this version does not write ({named}): drop "
            "them, or fill another directory"
        )
