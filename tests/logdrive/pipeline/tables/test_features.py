"""A table with a VARIANT names what readers and writers must know, and no more."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from logdrive.errors import StorageError
from logdrive.pipeline.decode.schema import LABEL, VARIANT
from logdrive.pipeline.formats.variant import encode_variants
from logdrive.pipeline.tables.day_files import DAY, write_day_files
from logdrive.pipeline.tables.open_table import create_table, open_table, open_table_as_it_is

FILES = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("path", LABEL),
        pa.field("rest", VARIANT),
        pa.field("received", pa.timestamp("us", "UTC")),
    ]
)
SCHEMA = FILES.append(DAY)
TEXT = SCHEMA.set(2, pa.field("rest", pa.string()))


def test_a_new_table_with_a_variant_names_its_features_in_one_entry(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for _ in range(2):  # a second time opens it
        table = create_table(path, SCHEMA, [DAY.name])
        assert (table.version, table.partition_by) == (0, (DAY.name,))
    protocol = DeltaTable(path).protocol()
    assert protocol.reader_features == ["variantType"]
    assert sorted(protocol.writer_features or []) == ["invariants", "variantType"]
    assert DeltaTable(path).metadata().configuration["delta.logRetentionDuration"]
    assert open_table_as_it_is(path).schema.field("rest").type == VARIANT
    assert table.foreign_features == []


def test_a_table_without_a_variant_asks_nothing_of_its_readers(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), TEXT)
    protocol = DeltaTable(table.path).protocol()
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)


def test_rows_with_variants_are_read_as_they_were_added(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA, [DAY.name])
    variants = encode_variants(pa.array(['{"a":[1,"x"]}', None]))
    columns = [pa.array([1, 2]), pa.array(["p", "p"]).cast(LABEL), variants, pa.array([0, 1])]
    rows = pa.Table.from_arrays([*columns[:3], columns[3].cast(FILES.types[3])], schema=FILES)
    table.add_files(write_day_files(table.path, rows), {})
    there = open_table(table.path, SCHEMA).read_rows(["n", "rest"])
    assert there.to_pydict() == {"n": [1, 2], "rest": variants.to_pylist()}


@pytest.mark.parametrize(("had", "wanted"), [(SCHEMA, TEXT), (TEXT, SCHEMA)])
def test_a_variant_is_another_type_than_text(
    tmp_path: Path, had: pa.Schema, wanted: pa.Schema
) -> None:
    path = str(tmp_path / "t")
    create_table(path, had)
    for opened in (create_table, open_table):
        with pytest.raises(StorageError, match="rest is missing or of another type"):
            opened(path, wanted)


def test_features_that_others_gave_a_table_are_foreign(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    DeltaTable(table.path).alter.add_feature(TableFeatures.DeletionVectors)
    assert open_table_as_it_is(table.path).foreign_features == ["deletionVectors"]
