"""Patterns name the same files whether directories are listed or a path is asked about."""

import os
import socket
from pathlib import Path

import pytest

from agent.config.files import InputTable
from agent.inputs.files.paths.globs import DirectoryListing, FileInputs, PathPattern
from logdrive.host.disk import FileStat, SystemDisk
from tests.support.memory.disk import MemoryDisk

FILES = [
    "/logs/a.log",
    "/logs/a.log.1",
    "/logs/b.txt",
    "/logs/.hidden.log",
    "/logs/app/c.log",
    "/logs/app/deep/er/d.log",
    "/logs/.git/e.log",
    "/other/a.log",
]


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk(sorted({os.path.dirname(path) for path in FILES}))
    for path in FILES:
        disk.write(path, b"line\n")
    return disk


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("/logs/a.log", ["/logs/a.log"]),
        ("/logs/*.log", ["/logs/a.log"]),
        ("/logs/*.log*", ["/logs/a.log", "/logs/a.log.1"]),
        ("/logs/.*.log", ["/logs/.hidden.log"]),
        ("/logs/?.[tl][xo]?", ["/logs/a.log", "/logs/b.txt"]),
        ("/*/a.log", ["/logs/a.log", "/other/a.log"]),
        ("/logs/**/*.log", ["/logs/a.log", "/logs/app/c.log", "/logs/app/deep/er/d.log"]),
        ("/logs/app/**", ["/logs/app/c.log", "/logs/app/deep/er/d.log"]),
        ("/**/d.log", ["/logs/app/deep/er/d.log"]),
        ("/none/*.log", []),
        ("/logs/nothing.log", []),
    ],
)
def test_expanding_and_matching_agree(disk: MemoryDisk, pattern: str, named: list[str]) -> None:
    expanded = {
        path for path in PathPattern(pattern).expand_paths(DirectoryListing(disk)) if path in FILES
    }
    assert sorted(expanded) == named
    assert [path for path in FILES if PathPattern(pattern).matches_path(path)] == named


def test_a_file_belongs_to_the_first_input_that_matches_it_and_exclude_wins(
    disk: MemoryDisk,
) -> None:
    first = InputTable(paths=["/logs/*.log"], exclude=["/logs/b*"])
    second = InputTable(paths=["/logs/**/*.log", "/logs/b.txt"])
    inputs = FileInputs([first, second])
    found = {item.path: item.settings for item in inputs.scan_files(DirectoryListing(disk))}
    assert found == {
        "/logs/a.log": first,
        "/logs/b.txt": second,
        "/logs/app/c.log": second,
        "/logs/app/deep/er/d.log": second,
    }
    assert inputs.settings_for("/logs/a.log") is first
    assert inputs.settings_for("/logs/app/new.log") is second
    assert inputs.settings_for("/var/x") is None


def test_directories_that_were_listed_are_known_even_without_files(disk: MemoryDisk) -> None:
    listing = DirectoryListing(disk)
    list(
        FileInputs(
            [InputTable(paths=["/logs/nothing.log", "/none/x.log", "/other/*.txt"])]
        ).scan_files(listing)
    )
    assert list(listing.listed_directories) == ["/logs", "/other"]
    assert list(listing.errors) == ["/none"]


def test_only_what_may_be_a_directory_is_looked_at_on_the_way_to_others(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    stat = disk.stat

    def noting(path: str) -> FileStat:
        looked.append(path)
        return stat(path)

    monkeypatch.setattr(disk, "stat", noting)
    found = list(PathPattern("/logs/**/*.log").expand_paths(DirectoryListing(disk)))
    assert "/logs/app/deep/er/d.log" in found
    assert not {*looked} & {*FILES}


def test_pipes_sockets_and_devices_below_a_pattern_are_passed_over(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (below / "a.log").write_text("line\n")
    os.mkfifo(below / "pipe.log")
    (below / "device.log").symlink_to("/dev/null")
    (below / "again").symlink_to(below)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(below / "socket.log"))
        listing = DirectoryListing(SystemDisk())
        inputs = FileInputs([InputTable(paths=[f"{tmp_path}/**/*"])])
        assert [match.path for match in inputs.scan_files(listing)] == [str(below / "a.log")]
    assert (listing.errors, listing.forbidden) == ({}, {})
