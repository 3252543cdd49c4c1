"""Rules A2, R8: packs in tables: each byte once, in bounded memory, whatever else is there."""

import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdrive.model.limits import PACK_BYTES, PACK_LINES
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.pipeline.bronze.rebuild import COLUMNS, rebuild
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.decode import HELD_BYTES
from logdrive.pipeline.decode.schema import CUT, DAMAGED_PACK
from tests.logdrive.pipeline.filling import catch_up, send, task
from tests.logdrive.pipeline.segments import Segment, lines, source_id

FILE = b"one\r\n\xc3\xa4\xc3\xb6\n\xff\xfe\ntwo\0\n\n\xf0\x9f\xa6\xab" * 3 + b"no end"


def rows_of(directory: Path, source: str) -> pa.Table:
    events, _ = open_tables(str(directory))
    table = events.read_rows([*COLUMNS, "source", "form"])
    return table.filter(pa.compute.equal(table["source"], source_id(source)))


def file_of(rows: pa.Table) -> bytes:
    ((start, data),) = rebuild(rows)
    assert start == 0
    return data


@pytest.mark.parametrize("cut", range(1, len(FILE)))
def test_a2_of_a_pack_that_came_in_part_only_the_new_bytes_are_kept(
    tmp_path: Path, cut: int
) -> None:
    segment = Segment()
    segment.packed("a", FILE[:cut])
    segment.packed("a", FILE[max(0, cut - 7) :], max(0, cut - 7))
    catch_up(tmp_path, segment)
    rows = rows_of(tmp_path, "a")
    assert file_of(rows) == FILE
    assert set(rows["flag"].to_pylist()) <= {None, CUT}
    assert set(rows["form"].to_pylist()) == {"text"}


def test_a2_packs_and_blocks_of_one_file_cover_each_other(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 40)
    send(segment, "a", data[:240])
    segment.packed("a", data[120:360], 120)
    send(segment, "a", data[240:], 240)
    segment.packed("a", data)
    catch_up(tmp_path, segment)
    rows = rows_of(tmp_path, "a")
    assert file_of(rows) == data
    assert set(rows["flag"].to_pylist()) == {None, CUT}
    assert set(rows["form"].to_pylist()) == {"text", "block"}


def test_r8_a_pack_that_lies_leaves_the_rows_of_all_others_as_they_are(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 40)
    at = segment.packed("a", data)
    lie = make_pack(PackForm.TEXT, data, PackCodec.ZSTD)[:-1] + b"!"
    segment.pack("a", at, 2 * at, lie, 40)
    segment.packed("b", data)
    catch_up(tmp_path, segment)
    assert file_of(rows_of(tmp_path, "b")) == data
    rows = rows_of(tmp_path, "a")
    assert rows["flag"].to_pylist() == [None] * 40 + [DAMAGED_PACK]
    assert rows["original"].to_pylist()[-1] == lie
    assert file_of(rows.slice(0, 40)) == data


def test_a_task_holds_a_bounded_part_of_what_small_packs_hold(tmp_path: Path) -> None:
    """A pack of 4 MiB that is stored as some KiB: one range of a segment may have thousands."""
    segment, at = Segment(), 0
    text = b"".join(b"%07d" % n + b"x" * 4088 + b"\n" for n in range(PACK_BYTES // 4096))
    for _ in range(40):
        at = segment.packed("a", text, at)
    assert len(segment.data) < HELD_BYTES // 10
    (tmp_path / "bronze" / "events").mkdir(parents=True)
    task(tmp_path, segment, 0, size=1 << 20)  # what is imported late is not counted
    tracemalloc.start()
    (file,) = task(tmp_path, segment, 0, size=1 << 20).files
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert file.rows == 40 * 1024
    assert peak < HELD_BYTES + 4 * PACK_BYTES
    groups = pq.ParquetFile(tmp_path / "bronze" / "events" / file.name).metadata
    assert groups.num_row_groups == -(-40 * (PACK_BYTES + 128 * 1024) // HELD_BYTES)


@pytest.mark.parametrize("line", [b"\n", b"\xff\n"], ids=["empty", "not UTF-8"])
def test_a_task_holds_the_rows_of_one_pack_of_the_shortest_lines(
    tmp_path: Path, line: bytes
) -> None:
    """A row takes a hundred times the memory of its newline, which takes a thousandth of a byte in
    its pack. What has more lines than a pack may have is not opened.
    """
    segment, at = Segment(), 0
    for _ in range(2):
        at = segment.packed("a", line * PACK_LINES, at)
    segment.packed("a", line * (PACK_BYTES // len(line)), at)
    (tmp_path / "bronze" / "events").mkdir(parents=True)
    (file,) = task(tmp_path, segment, 0, size=1 << 20).files
    groups = pq.ParquetFile(tmp_path / "bronze" / "events" / file.name).metadata
    rows = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
    assert rows == [PACK_LINES, PACK_LINES, 1]
