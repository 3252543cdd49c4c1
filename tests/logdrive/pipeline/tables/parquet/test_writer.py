"""Files with pages of our own hold what Arrow would have written, for each reader."""

import os
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logdrive.errors import StorageError, file_error_text
from logdrive.host.writeback import begin_writeback
from logdrive.kernel import page_loops
from logdrive.pipeline.tables.check_files import check_file
from logdrive.pipeline.tables.failures import UnreadableFileError
from logdrive.pipeline.tables.files import EventFile, parquet_options
from logdrive.pipeline.tables.parquet.footer import ColumnChunk, replace_chunks
from logdrive.pipeline.tables.parquet.writer import ParquetFileWriter
from tests.conftest import unavailable
from tests.support.disks.tmpfs import tmpfs

MIB = 2**20
SCHEMA = pa.schema([("offset", pa.int64()), ("message", pa.string()), ("source", pa.string())])


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    if page_loops.snappy_page is None:
        unavailable("pages of our own: a C compiler and Python's headers")


def rows_of(texts: list[str | None]) -> pa.Table:
    count = len(texts)
    columns = [pa.array(range(count), pa.int64()), pa.array(texts, pa.string())]
    return pa.table([*columns, pa.array(["app.log"] * count)], schema=SCHEMA)


def lines(count: int, seed: int = 1) -> list[str | None]:
    chance = random.Random(seed)
    return [f"line {number} of {chance.randrange(10**9)}: ä €🦫 done" for number in range(count)]


LARGE = rows_of(lines(60_000))
assert LARGE.column("message").nbytes > 2 * MIB


def write(path: Path, *groups: pa.Table) -> Path:
    file = ParquetFileWriter(
        str(path), SCHEMA, parquet_options(SCHEMA, "snappy"), frozenset({"message"})
    )
    for group in groups:
        file.write_row_group(group)
    file.finish()
    return path


def compressed_here(path: Path) -> list[bool]:
    """Return of each row group whether its messages are pages of our own: these come last."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    places = [[group.column(i).data_page_offset for i in range(len(SCHEMA))] for group in groups]
    return [max(place) == place[1] for place in places]


def test_each_reader_sees_the_rows_that_were_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", LARGE, rows_of(lines(40_000, 2)))
    expected = pa.concat_tables([LARGE, rows_of(lines(40_000, 2))])
    assert compressed_here(path) == [True, True]
    check_file(str(path))
    assert pq.read_table(path).equals(expected)
    assert pl.read_parquet(path).to_arrow().cast(SCHEMA).equals(expected)
    found = duckdb.connect().execute(f"SELECT * FROM '{path}'").fetchall()
    assert found == list(zip(*expected.to_pydict().values(), strict=True))


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_reads_them_in_batches_and_row_by_row(
    spark: Any, tmp_path: Path, vectorized: str
) -> None:
    path = write(tmp_path / "a.parquet", LARGE, LARGE.slice(0, 10), LARGE)
    key = "spark.sql.parquet.enableVectorizedReader"
    before = spark.conf.get(key)
    spark.conf.set(key, vectorized)
    try:
        rows = spark.read.parquet(str(path)).select("message").toArrow()
    finally:
        spark.conf.set(key, before)
    assert rows.column(0).to_pylist() == pq.read_table(path).column("message").to_pylist()


@pytest.mark.parametrize("place", [0, 3])
def test_tasks_that_share_a_file_read_each_row_once(spark: Any, tmp_path: Path, place: int) -> None:
    """A row group is read by the task in whose part its middle is, by the first column's place."""
    noise = random.Random(1)
    numbers = [[noise.getrandbits(62) for _ in range(len(LARGE))] for _ in range(6)]
    table = pa.table({f"n{number}": values for number, values in enumerate(numbers)})
    table = table.add_column(place, "message", LARGE.column("message"))
    path = tmp_path / "a.parquet"
    options = parquet_options(table.schema, "snappy")
    file = ParquetFileWriter(str(path), table.schema, options, frozenset({"message"}))
    for _ in range(3):
        file.write_row_group(table)
    file.finish()
    key = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(key)
    for size in (10**6, 10**9):
        spark.conf.set(key, size)
        try:
            rows = spark.read.parquet(str(path)).select("n1").toArrow()
        finally:
            spark.conf.set(key, before)
        assert rows.num_rows == 3 * len(LARGE)


def test_single_columns_and_row_groups_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", LARGE, LARGE.slice(0, 10), LARGE.slice(5))
    assert compressed_here(path) == [True, False, True]
    with pq.ParquetFile(path) as file:
        assert file.read_row_group(2, ["message"]).column(0).equals(LARGE.slice(5).column(1))
        assert file.read_row_group(2, ["source"]).num_rows == len(LARGE) - 5
    query = f"SELECT count(*) FROM '{path}' WHERE message LIKE '%line 7 of%'"
    assert duckdb.connect().execute(query).fetchone() == (3,)


texts = st.text(max_size=40) | st.builds(lambda size: "x" * size, st.integers(0, 3 * MIB))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    groups=st.lists(
        st.tuples(st.lists(texts, min_size=1, max_size=9), st.integers(1, 3_000), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    cuts=st.lists(st.floats(0, 1), max_size=4),
)
def test_any_texts_in_any_pieces_come_back(
    tmp_path_factory: pytest.TempPathFactory, groups: Any, cuts: list[float]
) -> None:
    tables = []
    for some, times, null in groups:
        repeats = max(1, min(times, 6 * MIB // (1 + sum(map(len, some)))))
        whole = rows_of([*some * repeats, *([None] if null else [])])
        ends = [0, *sorted(int(cut * len(whole)) for cut in cuts), len(whole)]
        parts = [whole.slice(a, b - a) for a, b in pairwise(ends)]
        tables.append(pa.concat_tables(parts))
    path = tmp_path_factory.mktemp("files") / "a.parquet"
    write(path, *tables)
    check_file(str(path))
    assert pq.read_table(path).equals(pa.concat_tables(tables))
    path.unlink()


def test_the_footer_says_of_sizes_and_encodings_what_is_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", LARGE)
    with pq.ParquetWriter(
        tmp_path / "arrow.parquet", SCHEMA, **parquet_options(SCHEMA, "snappy")
    ) as arrow:
        arrow.write_table(LARGE)
    ours = pq.read_metadata(path).row_group(0)
    theirs = pq.read_metadata(tmp_path / "arrow.parquet").row_group(0)
    assert ours.num_rows == theirs.num_rows
    mine, other = ours.column(1), theirs.column(1)
    assert set(mine.encodings) == set(other.encodings)
    assert (mine.compression, mine.num_values) == (other.compression, other.num_values)
    # but for heads of pages, which are of other sizes
    assert abs(mine.total_uncompressed_size - other.total_uncompressed_size) < 1_000
    assert mine.total_compressed_size < 1.3 * other.total_compressed_size
    chunks = [ours.column(number) for number in range(len(SCHEMA))]
    assert ours.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
    ends = [
        (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
        for chunk in chunks
    ]
    footer = 8 + pq.read_metadata(path).serialized_size
    assert max(ends) == os.path.getsize(path) - footer


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_changed_byte_of_a_page_is_found(tmp_path: Path, part: float) -> None:
    path = write(tmp_path / "a.parquet", LARGE)
    chunk = pq.read_metadata(path).row_group(0).column(1)
    changed = bytearray(path.read_bytes())
    changed[chunk.data_page_offset + int(part * chunk.total_compressed_size)] ^= 1
    path.write_bytes(changed)
    with pytest.raises(UnreadableFileError):
        check_file(str(path))


def test_row_groups_are_on_their_way_to_the_disk_before_the_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[int, int]] = []

    def note(descriptor: int, start: int, stop: int) -> None:
        assert stop == os.fstat(descriptor).st_size
        begun.append((start, stop))
        begin_writeback(descriptor, start, stop)

    monkeypatch.setattr("logdrive.pipeline.tables.parquet.writer.begin_writeback", note)
    small = rows_of(lines(10))
    file = ParquetFileWriter(
        str(tmp_path / "a.parquet"), SCHEMA, parquet_options(SCHEMA, "snappy"), frozenset()
    )
    for group in (LARGE, small, LARGE, small):
        file.write_row_group(group)
    starts, stops = zip(*begun, strict=True)
    assert len(begun) == 2, "what is small waits for what follows, or for the end"
    assert starts == (0, stops[0])
    file.finish()
    assert pq.read_table(tmp_path / "a.parquet").equals(
        pa.concat_tables([LARGE, small, LARGE, small])
    )


def test_a_file_of_which_a_row_group_failed_is_removed(tmp_path: Path) -> None:
    stopped = pytest.raises(KeyboardInterrupt)
    with stopped, EventFile(str(tmp_path), SCHEMA) as file:
        file.write_row_group(LARGE)
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize(
    "step",
    [
        "pyarrow.parquet.ParquetWriter.__init__",
        "logdrive.pipeline.tables.parquet.writer.replace_chunks",
        "os.fsync",
        "logdrive.pipeline.tables.files.sync_directory",
    ],
)
def test_a_file_of_which_a_step_failed_is_removed_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    opened = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(step, fail)
    with pytest.raises(error), EventFile(str(tmp_path), SCHEMA) as file:
        file.write_row_group(LARGE)
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) == opened


def test_a_buffer_of_places_may_have_bytes_behind_them(tmp_path: Path) -> None:
    texts = LARGE.column("message").combine_chunks()
    _, offsets, data = texts.buffers()
    torn = [None, pa.py_buffer(offsets.to_pybytes() + b"123"), data]
    column = pa.Array.from_buffers(pa.string(), len(texts), torn)
    path = write(tmp_path / "a.parquet", LARGE.set_column(1, SCHEMA.field(1), column))
    assert compressed_here(path) == [True]
    assert pq.read_table(path).equals(LARGE)


# the disk ends amid Arrow's columns, pages, and footer, and behind all of them
@pytest.mark.parametrize("less", [10_000_000, 1_000_000, 100_000, 5_000, 0])
def test_a_file_that_does_not_fit_the_disk_is_removed_and_named(tmp_path: Path, less: int) -> None:
    needed = os.path.getsize(write(tmp_path / "a.parquet", LARGE, LARGE))
    with tmpfs(tmp_path / "disk", 32) as disk:
        disk.fill(but=max(needed - less, 0) + 4096 * (not less))
        if not less:
            with EventFile(str(disk.path), SCHEMA) as file:
                file.write_row_group(LARGE)
                file.write_row_group(LARGE)
            assert file.added_file is not None
            check_file(str(disk.path / file.added_file.name))
            return
        full = pytest.raises(OSError)  # noqa: PT011 - its text is looked at below
        with full as failure, EventFile(str(disk.path), SCHEMA) as file:
            file.write_row_group(LARGE)
            file.write_row_group(LARGE)
        said = file_error_text(failure.value)
        assert re.match(r"No space left on device: /.*/disk/part-.*\.parquet;", said)
        assert not list(disk.path.rglob("*.parquet"))


def test_a_footer_with_other_row_groups_or_columns_is_refused(tmp_path: Path) -> None:
    written = write(tmp_path / "a.parquet", rows_of(lines(10))).read_bytes()
    size = int.from_bytes(written[-8:-4], "little")
    tail = written[-8 - size :]
    chunk = ColumnChunk(10, 1, 100, 100, 4)
    assert replace_chunks(tail, [{}]) == tail
    for broken, groups in (
        (tail, []),
        (tail, [{"no such": chunk}]),
        (tail, [{"message": ColumnChunk(11, 1, 100, 100, 4)}]),
        (tail[:-4] + b"PARE", [{}]),
        (tail[1:], [{}]),
        (b"", [{}]),
    ):
        with pytest.raises(StorageError):
            replace_chunks(broken, groups)
