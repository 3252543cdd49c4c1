"""Which small files are joined, and that one of them has the rows of all."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdrive.errors import StorageError
from logdrive.model.units import KIB, MIB
from logdrive.pipeline.decode.schema import LABEL, TIME, VARIANT
from logdrive.pipeline.formats.variant import encode_variants
from logdrive.pipeline.tables.files import AddedFile, EventFile
from logdrive.pipeline.tables.join_files import JOIN_FILES, choose_files, join_files

MONDAY, TUESDAY = {"day": "2026-11-23"}, {"day": "2026-11-24"}


def added(count: int, size: int, day: Mapping[str, str | None] | None = None) -> list[AddedFile]:
    return [AddedFile(f"{size}-{n}", size, 1, day or {}) for n in range(count)]


@pytest.mark.parametrize("size", [KIB, 255 * KIB])
def test_many_small_files_of_one_size_are_joined(size: int) -> None:
    files = added(JOIN_FILES, size)
    assert choose_files(files) == files
    assert choose_files(files[1:]) == []


def test_files_of_other_sizes_wait_until_they_are_many_too() -> None:
    files = added(JOIN_FILES - 1, KIB) + added(JOIN_FILES - 1, MIB)
    assert choose_files(files) == []
    assert choose_files([*files, AddedFile("more", 2 * KIB, 1)]) == [
        *files[: JOIN_FILES - 1],
        AddedFile("more", 2 * KIB, 1),
    ]


def test_one_join_reads_a_bounded_part_and_large_files_are_left_alone() -> None:
    files = added(9, 10 * MIB)
    assert choose_files(files) == files[:6]
    assert choose_files(files[:6]) == []
    assert choose_files(added(500, 32 * MIB)) == []


def test_days_are_joined_apart_and_those_that_are_over_sooner() -> None:
    monday, tuesday = added(10, KIB, MONDAY), added(JOIN_FILES - 1, KIB, TUESDAY)
    assert choose_files([*tuesday, *monday]) == monday
    assert choose_files([*tuesday, *monday[:7]]) == []
    assert choose_files(tuesday) == []
    assert choose_files([*added(10, KIB, {"day": None}), *tuesday]) == added(10, KIB, {"day": None})


def test_joining_ends() -> None:
    """What was joined is in another tier, so that each row is written again few times."""
    files, written, count = added(5000, 40 * KIB), 0, 0
    while chosen := choose_files(files):
        count += 1
        assert count < 1000
        size = sum(file.size for file in chosen)
        written += size
        files = [file for file in files if file not in chosen] + [AddedFile(f"j{count}", size, 1)]
    assert len(files) < 3 * JOIN_FILES
    assert written <= 3 * 5000 * 40 * KIB


SCHEMA = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("path", LABEL),
        pa.field("message", pa.string()),
        pa.field("received", TIME),
    ]
)


def rows(first: int, count: int, path: str | None) -> pa.Table:
    values = {
        "batch": range(first, first + count),
        "path": pa.array([path] * count, pa.string()).dictionary_encode().cast(LABEL),
        "message": [f"line {n}" for n in range(first, first + count)],
        "received": pa.array(range(count), TIME),
    }
    return pa.table(values, SCHEMA)


def test_a_joined_file_has_the_rows_of_all_in_order_as_zstd(tmp_path: Path) -> None:
    files = []
    for n, path in enumerate(("a", None, "b", "a")):
        with EventFile(str(tmp_path), SCHEMA, partition=MONDAY) as target:
            target.write_row_group(rows(100 * n, 50, path))
            target.write_row_group(rows(100 * n + 50, 50, path))
        assert target.added_file is not None
        files.append(target.added_file)
    longer = SCHEMA.append(pa.field("team", LABEL))
    joined = join_files(str(tmp_path), longer, files)
    assert (joined.rows, joined.partition) == (400, MONDAY)
    with pq.ParquetFile(tmp_path / joined.name) as file:
        assert file.metadata.num_row_groups == 1
        assert file.metadata.row_group(0).column(2).compression == "ZSTD"
        table = file.read()
    assert table["batch"].to_pylist() == list(range(400))
    assert table["message"].to_pylist() == [f"line {n}" for n in range(400)]
    assert table["path"].to_pylist() == ["a"] * 100 + [None] * 100 + ["b"] * 100 + ["a"] * 100
    assert table["team"].null_count == 400
    assert table.schema.field("path").type == pa.string()


def variants_of(parts: Sequence[str], texts: Sequence[str | None], *more: str) -> pa.StructArray:
    """Return Variants with *parts* in that order, which may be null, as Spark writes them."""
    made = encode_variants(pa.array(texts, pa.string()))
    fields = [pa.field(name, pa.binary()) for name in (*parts, *more)]
    columns = [made.field(name) for name in parts]
    columns += [pa.nulls(len(made), pa.binary())] * len(more)
    return pa.StructArray.from_arrays(columns, fields=fields, mask=made.is_null())


def parquet(place: Path, name: str, table: pa.Table) -> AddedFile:
    pq.write_table(table, place / name)
    return AddedFile(name, (place / name).stat().st_size, table.num_rows)


def test_variants_of_another_writer_are_joined_with_ours_and_with_files_without_any(
    tmp_path: Path,
) -> None:
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("rest", VARIANT)])
    texts = ['{"a":1}', None, '{"b":[2]}']
    ours = encode_variants(pa.array(texts, pa.string()))
    sparks = variants_of(["value", "metadata"], texts)
    files = [
        parquet(tmp_path, "ours", pa.table({"n": [0, 1, 2], "rest": ours})),
        parquet(tmp_path, "spark", pa.table({"n": [3, 4, 5], "rest": sparks})),
        parquet(tmp_path, "none", pa.table({"n": [6, 7]})),
    ]
    joined = pq.read_table(tmp_path / join_files(str(tmp_path), schema, files).name)
    assert joined.schema.field("rest").type == VARIANT
    assert joined["n"].to_pylist() == list(range(8))
    assert joined["rest"].to_pylist() == [*ours.to_pylist() * 2, None, None]


def test_shredded_variants_are_not_joined(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("rest", VARIANT)])
    shredded = variants_of(["metadata", "value"], ['{"a":1}'], "typed_value")
    files = [parquet(tmp_path, "spark", pa.table({"rest": shredded}))]
    with pytest.raises(StorageError, match="typed_value"):
        join_files(str(tmp_path), schema, files)
    assert [file.name for file in tmp_path.iterdir()] == ["spark"]
