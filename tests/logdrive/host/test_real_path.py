"""The C library's real paths are those of Python's standard library."""

import os
from pathlib import Path

import pytest

from logdrive.host.real_path import real_path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "logs/app").mkdir(parents=True)
    (tmp_path / "logs/app/a.log").write_text("a line\n")
    (tmp_path / "current").symlink_to("logs/app")
    (tmp_path / "logs/gone").symlink_to("/nowhere/else")
    (tmp_path / "round").symlink_to("round")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "logs/app/a.log",
        "current/a.log",
        "current/../app/./a.log",
        "current/missing.log",
        "logs/gone",
        "round/a.log",
        "logs/app/a.log/below",
        os.fsdecode(b"logs/\xff"),
        "x" * 5000,
        ".",
        "",
        "/",
    ],
)
def test_it_is_what_realpath_says(tree: Path, path: str) -> None:
    assert real_path(path) == os.path.realpath(path)
    above = str(tree / path)
    assert real_path(above) == os.path.realpath(above)


def test_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="null byte"):
        real_path("a\0b")
