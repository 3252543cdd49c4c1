"""Commands that read logs unpack compressed ones, as agents do."""

import bz2
import errno
import gzip
import json
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import zstandard
from click.testing import CliRunner, Result

from logdrive.cli.main import cli
from logdrive.cli.tables.unpacked import open_content, read_beginning
from logdrive.errors import StorageError
from logdrive.model.units import MIB
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.segments import Segment, file_records, lines, source_id

PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
TEXT = lines("a", 0, 40)
GOOD = "2026-01-02 03:04:05,678 - shop.cart - INFO - hello\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)], standalone_mode=False)


def tables_of(file: Path, directory: Path) -> Path:
    """Return tables in which *file* has the lines of `TEXT`, as sent from its path."""
    segment = Segment()
    records, count = file_records(TEXT)
    named = {"host": "web-1", "path": str(file)}
    segment.data_batch("a", 0, len(TEXT), records, count, attributes=named)
    catch_up(directory, segment)
    return directory


@pytest.mark.parametrize("suffix", PACKED)
def test_a_compressed_file_is_compared_by_its_content(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.log.3{suffix}"
    file.write_bytes(PACKED[suffix](TEXT))
    tables = tables_of(file, tmp_path / "tables")
    done = run("audit", tables, "--against", file)
    assert done.return_value == 0, done.output
    assert f"{file}: its {len(TEXT):,} bytes are in the tables as they are" in done.stdout
    file.write_bytes(PACKED[suffix](TEXT[:7] + b"?" + TEXT[8:]))
    done = run("audit", tables, "--against", file)
    assert done.return_value == 1
    assert f"{file}: byte 7 is the first that differs in the tables" in done.stdout


def test_a_file_that_was_compressed_since_is_found_by_what_it_begins_with(tmp_path: Path) -> None:
    tables = tables_of(tmp_path / "a.log", tmp_path / "tables")
    file = tmp_path / "a.log.1.gz"
    file.write_bytes(gzip.compress(TEXT))
    done = run("audit", tables, "--against", file)
    assert done.return_value == 0, done.output
    assert f"(source {source_id('a')})" in done.stdout


@pytest.mark.parametrize("command", [("audit", "--against"), ("formats",)])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(TEXT)[:-9], "it is still being written, or was cut"),
        (TEXT, "it is damaged: "),
    ],
    ids=["cut", "no gzip"],
)
def test_what_can_not_be_unpacked_is_refused_by_name(
    tmp_path: Path, command: tuple[str, ...], data: bytes, said: str
) -> None:
    file = tmp_path / "a.log.gz"
    file.write_bytes(data)
    name, *option = command
    tables = [tables_of(file, tmp_path / "tables")] if name == "audit" else []
    done = run(name, *tables, *option, file)
    assert isinstance(done.exception, StorageError)
    assert str(done.exception).startswith(f"{file} can't be unpacked")
    assert said in str(done.exception)


@pytest.mark.parametrize("suffix", PACKED)
def test_formats_are_tried_on_the_lines_of_a_compressed_file(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"app.log{suffix}"
    file.write_bytes(PACKED[suffix](GOOD.encode() * 20))
    assert (
        f"{file}: python, table application: reads 100.00 % of 20 lines"
        in run("formats", file).output
    )


def test_of_a_long_compressed_file_only_the_beginning_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "app.log.gz"
    whole = gzip.compress(GOOD.encode() * 40_000)
    file.write_bytes(whole[: len(whole) * 9 // 10])  # the end of it would be an error
    done = run("formats", file, "--mib", "1", "--json")
    (survey,) = json.loads(done.output)["files"].values()
    assert survey["read"] == survey["lines"] == MIB // len(GOOD)


@pytest.mark.parametrize("suffix", ["", *PACKED])
def test_any_part_of_the_content_is_read_in_any_order(tmp_path: Path, suffix: str) -> None:
    file, random = tmp_path / f"long{suffix}", Random(5)
    text = random.randbytes(64) * (3 * MIB // 64) + b"end"
    file.write_bytes(PACKED[suffix](text) if suffix else text)
    with open_content(str(file)) as (content, size):
        assert size == len(text)
        for _ in range(50):
            at, count = random.randrange(len(text) + 9), random.randrange(2 * MIB)
            assert content.pread(count, at) == text[at : at + count]
    assert read_beginning(str(file), 100) == text[:100]


def test_a_full_disk_names_where_it_unpacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(TEXT))

    class Full:
        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    said = "can't be unpacked into .*: No space left on device; make room .*TMPDIR"
    with pytest.raises(StorageError, match=said), open_content(str(file)):
        pass
