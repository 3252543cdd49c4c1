"""A file's stamp differs after every replacement and rewriting, and only then."""

import os
from pathlib import Path

from logdrive.host.disk import SystemDisk
from logdrive.host.file_stamp import FileStamp, read_stamp


def stamp(path: Path) -> FileStamp | None:
    return read_stamp(SystemDisk(), str(path))


def test_the_stamp_stays_while_the_file_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    before = stamp(path)
    path.read_bytes()
    assert before is not None
    assert stamp(path) == before


def test_the_stamp_changes_when_the_file_is_replaced_rewritten_or_grows(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"abc")
    stamps = [stamp(path)]

    other.write_bytes(b"abc")
    os.utime(other, ns=(0, path.stat().st_mtime_ns))
    other.replace(path)  # same size, same time: another inode
    stamps.append(stamp(path))

    os.utime(path, ns=(0, 1))  # as a rewriting does that keeps the length
    stamps.append(stamp(path))

    path.write_bytes(b"abcd")
    os.utime(path, ns=(0, 1))
    stamps.append(stamp(path))
    assert len(set(stamps)) == len(stamps)


def test_a_missing_file_has_no_stamp(tmp_path: Path) -> None:
    assert stamp(tmp_path / "file") is None
