"""Files that an earlier audit has read are known to the next one, and the verdict is the same."""

import os
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logdrive.host.disk import SystemDisk
from logdrive.pipeline.audit.audit import Verdict, audit
from logdrive.pipeline.audit.engines.arrow import ArrowEngine
from logdrive.pipeline.audit.engines.known_files import KnownFiles
from logdrive.pipeline.bronze.tables import open_tables, table_paths
from logdrive.pipeline.tables.delta import AppendTable
from tests.logdrive.pipeline.audit.damages import (
    OF_BATCHES,
    OF_EVENTS,
    TEMPLATE,
    fill_tables,
    start_shifted,
)
from tests.logdrive.pipeline.audit.engines.test_engines import damaged
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines


def known_in(directory: Path) -> KnownFiles:
    events, _ = table_paths(str(directory))
    return KnownFiles(os.path.dirname(events), events, SystemDisk())


def audited(directory: Path, *, full: bool = False) -> tuple[Verdict, int, int]:
    """Audit with what is known; return the verdict, the files read and those known."""
    engines: list[ArrowEngine] = []

    def open_engine(events: AppendTable) -> ArrowEngine:
        engines.append(ArrowEngine(events, known_in(directory), full=full))
        return engines[-1]

    verdict = audit(str(directory), open_engine)
    engines[0].keep_figures()
    return verdict, engines[0].read_files, engines[0].known_files


def kept_file(directory: Path) -> Path:
    return directory / "bronze" / "audit-figures"


def test_only_new_files_are_read(tmp_path: Path) -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 9))
    catch_up(tmp_path, segment)
    first = audited(tmp_path)
    assert first[1:] == (1, 0)
    assert audited(tmp_path) == (first[0], 0, 1)
    send(segment, "a", lines("a", 9, 9), at)
    catch_up(tmp_path, segment)
    verdict, *files = audited(tmp_path)
    assert files == [1, 1]
    assert verdict == audit(str(tmp_path))
    assert audited(tmp_path, full=True) == (verdict, 2, 0)


def test_files_that_a_compaction_joined_are_read_again_and_forgotten(tmp_path: Path) -> None:
    fill_tables(tmp_path)
    verdict, *_ = audited(tmp_path)
    large = kept_file(tmp_path).stat().st_size
    before = set(open_tables(str(tmp_path))[0].files)
    DeltaTable(table_paths(str(tmp_path))[0]).optimize.compact()
    after = set(open_tables(str(tmp_path))[0].files)
    assert len(after) < len(before)
    assert audited(tmp_path) == (verdict, len(after - before), len(after & before))
    assert audited(tmp_path) == (verdict, 0, len(after))
    assert kept_file(tmp_path).stat().st_size < large


def test_a_line_that_goes_on_in_another_file_is_one_line_whichever_is_known(tmp_path: Path) -> None:
    """Its end may come first: two stores are read in any order."""
    segment, text = Segment(), lines("a", 0, 4)
    half = text.index(b"\n", 20) - 3
    send(segment, "a", text[half:], half)
    send(segment, "b", text[:half])
    catch_up(tmp_path, segment)
    assert audited(tmp_path)[0].by_source[0].lines == 3
    send(segment, "a", text[:half])
    send(segment, "b", text[half:], half)
    catch_up(tmp_path, segment)
    for _ in range(2):
        verdict, *_ = audited(tmp_path)
        assert [source.lines for source in verdict.by_source] == [4, 4]
        assert verdict == audit(str(tmp_path))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_never_changes_the_verdict(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    fill_tables(tmp_path / "whole")
    audited(tmp_path / "whole")
    names = random.choices([*OF_EVENTS, *OF_BATCHES], k=3)
    copy = damaged(tmp_path / "whole", tmp_path, names, seed)
    for _ in range(2):
        assert audited(copy)[0] == audit(str(copy))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: data.replace(b"figures 1", b"figures 0"),
        lambda data: b"\n" * len(data),
    ],
    ids=["empty", "shorter", "longer", "changed", "of another version", "something else"],
)
def test_a_damaged_file_of_figures_is_made_anew(tmp_path: Path, damage: object) -> None:
    fill_tables(tmp_path)
    verdict, *_ = audited(tmp_path)
    path = kept_file(tmp_path)
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))
    files = len(open_tables(str(tmp_path))[0].files)
    assert audited(tmp_path) == (verdict, files, 0)
    assert audited(tmp_path) == (verdict, 0, files)


def test_a_full_audit_finds_what_a_disk_has_changed_since(tmp_path: Path) -> None:
    segment = Segment()
    segment.packed("a", TEMPLATE)
    catch_up(tmp_path, segment)
    (path,) = open_tables(str(tmp_path))[0].files
    rows = pq.ParquetFile(path).read()

    def write(written: pa.Table) -> None:
        """Write all values with the same number of bytes, so that no size tells."""
        pq.write_table(
            written,
            path,
            store_schema=False,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
        )

    write(rows)
    assert audited(tmp_path)[0].complete
    stat = os.stat(path)
    write(start_shifted(rows, Random(1)))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert os.path.getsize(path) == stat.st_size
    assert audited(tmp_path)[0].complete
    assert not audited(tmp_path, full=True)[0].complete
